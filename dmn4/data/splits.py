"""Which classes of the benchmarks belong to which split, with their sources; what a right copy holds.

Class lists are the files in `classes/`. CUB is split by the number in front of a class name, such as
`017.Cardinal`; tiered meta-iNat by super-category.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

SPLIT_NAMES = ("train", "val", "test")

# Tiered meta-iNat (Wertheimer, Tang and Hariharan, CVPR 2021), super-categories of iNaturalist 2017.
TIERED_META_INAT = {
    "train": ("Animalia", "Aves", "Reptilia", "Amphibia", "Mammalia", "Actinopterygii", "Mollusca"),
    "test": ("Insecta", "Arachnida"),
}


@dataclass(frozen=True)
class Benchmark:
    """Classes of each split and, where it is known, how many pictures a complete copy holds."""

    name: str
    classes: dict[str, frozenset[str]]
    images: dict[str, int] = field(default_factory=dict)           # of each split
    per_class: int | None = None


@cache
def class_list(name: str) -> dict[str, tuple[str, ...]]:
    """The classes of each split of a file in `classes/`, in its order."""
    lines = files(__package__).joinpath("classes", f"{name}.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {split: tuple(row[1] for row in rows if row[0] == split) for split in SPLIT_NAMES}


def cub_part(number: int, cub_split: str = "frn") -> str:
    """The split of a CUB class by its number 1..200.

    `frn` (Wertheimer, Tang and Hariharan 2021) counts from 1; `closerlook` (Chen et al. 2019, also Negative Margin and
    torchmeta) counts from 0, so that its training classes are the val and test classes of `frn`.
    """
    place = number if cub_split == "frn" else number - 1
    return {0: "train", 1: "val", 2: "train", 3: "test"}[place % 4]


def cub_classes(cub_split: str) -> dict[str, frozenset[str]]:
    """Numbers, as three digits, of the CUB classes of each split."""
    return {split: frozenset(f"{number:03d}" for number in range(1, 201) if cub_part(number, cub_split) == split)
            for split in SPLIT_NAMES}


@cache
def benchmarks() -> tuple[Benchmark, ...]:
    """The benchmarks that can be told by their classes."""
    lists = {name: {split: frozenset(names) for split, names in class_list(name).items() if names}
             for name in ("miniimagenet", "tieredimagenet", "cifar-fs", "meta-inat")}
    return (
        Benchmark("miniImageNet", lists["miniimagenet"], {"train": 38400, "val": 9600, "test": 12000}, per_class=600),
        Benchmark("tieredImageNet", lists["tieredimagenet"], {"train": 448695, "val": 124261, "test": 206209}),
        Benchmark("CUB (split of FRN)", cub_classes("frn"), {"train": 5903, "val": 2927, "test": 2958}),
        Benchmark("CUB (split of CloserLook)", cub_classes("closerlook"), {"train": 5885}),
        Benchmark("CIFAR-FS", lists["cifar-fs"], {"train": 38400, "val": 9600, "test": 12000}, per_class=600),
        Benchmark("meta-iNat", lists["meta-inat"]),
    )


def identify(classes: Iterable[str]) -> tuple[Benchmark, str] | None:
    """The benchmark and split of which these are the classes, or a quarter of them or more; the fullest match wins."""
    names = {class_key(name) for name in classes}
    fits = [(len(names) / len(known), bench, split) for bench in benchmarks() for split, known in bench.classes.items()
            if names <= known and 4 * len(names) >= len(known)]
    return max(fits, key=lambda fit: fit[0])[1:] if fits else None


def identify_whole(classes: Iterable[str]) -> Benchmark | None:
    """The benchmark of which these are the classes of all splits together."""
    names = {class_key(name) for name in classes}
    return next((bench for bench in benchmarks() if names == frozenset().union(*bench.classes.values())), None)


def family(classes: Iterable[str]) -> str:
    """The large data set from which classes of such names come, or nothing."""
    for source, pattern in (("CUB-200-2011", r"[0-2]\d\d\..+"), ("ImageNet", r"n\d{8}")):
        if all(re.fullmatch(pattern, name) for name in classes):
            return source
    return ""


def class_key(name: str) -> str:
    """The part of a folder's name that tells the class: `017` of `017.Cardinal`, the last part of a path."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    head = last.split(".", 1)[0]
    return head if len(head) == 3 and head.isdigit() and "." in last else last
