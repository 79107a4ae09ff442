"""Is this the right copy? What a data set is, what it holds, and what is odd about it."""

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dmn4.errors import InputError
from dmn4.images import describe_source, read_image

from .arrays import looks_bgr
from .cache import examine
from .folders import ImageSet
from .layouts import open_dataset, recognise
from .splits import Benchmark, family, identify

# Fingerprints of copies that were seen, so that a result can say which one it was measured on.
KNOWN_COPIES = {
    "c9f5653151f1": "miniImageNet train, 84 x 84, stored again as JPEG of quality 80",
    "a8ec69b993eb": "miniImageNet val, 84 x 84, stored again as JPEG of quality 80",
    "b76fb8ed0668": "miniImageNet test, 84 x 84, stored again as JPEG of quality 80",
    "298e0f1e78ca": "CUB train (split of FRN), cropped, 84 x 84, stored again as JPEG of quality 85",
    "c66bde64bab1": "CUB val (split of FRN), cropped, 84 x 84, stored again as JPEG of quality 85",
    "caeb896824e2": "CUB test (split of FRN), cropped, 84 x 84, stored again as JPEG of quality 85",
}


@dataclass(frozen=True)
class SplitReport:
    """What one split holds."""

    split: str
    dataset: str                                                   # the benchmark and split its classes belong to
    classes: int
    images: int
    per_class: tuple[int, int]                                     # smallest and largest class
    sizes: tuple[tuple[str, int], ...]                             # the commonest, with their number
    fingerprint: str
    copy: str                                                      # name of a known copy, or ""


@dataclass(frozen=True)
class Report:
    """What lies at a path."""

    path: str
    layout: str
    splits: tuple[SplitReport, ...]
    oddities: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """A split with what decoding found, unreadable pictures left out of `images`."""

    split: str
    images: ImageSet
    shapes: np.ndarray                                             # (n, 2)
    unreadable: int
    known: tuple[Benchmark, str] | None


def inspect(path: str | Path, cache: bool = True, progress: bool = True, **which: object) -> Report:
    """What the data at `path` is and what is odd about it; reads every picture once."""
    layout = recognise(path)
    splits = [split for split in layout.readers if split != "all"] or ["all"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = [_look(open_dataset(path, split, **which), split, cache, progress) for split in splits]
    where: dict[str, list[str]] = {}                               # the splits that share an oddity
    for part in parts:
        for text in _oddities(part):
            where.setdefault(text, []).append(part.split)
    oddities = [*(str(warning.message) for warning in caught),
                *(f"{', '.join(names)}: {text}" for text, names in where.items()), *_between(parts)]
    return Report(str(path), layout.name, tuple(map(_report, parts)), tuple(oddities))


def copy_name(images: ImageSet) -> str:
    """The name of the known copy that these pictures are, or nothing."""
    return KNOWN_COPIES.get(images.fingerprint, "")


def _look(images: ImageSet, split: str, cache: bool, progress: bool) -> _Part:
    entry = examine(images, None, cache and not images.is_decoded, progress)
    keep = entry.readable
    if not keep.any():
        raise InputError(f"none of the {len(images)} pictures of {images.name} can be read")
    described = replace(images, digests=entry.digests).rows(keep)
    for row in np.flatnonzero(~keep)[:3]:
        warnings.warn(f"cannot be read: {describe_source(images.images[row])}", stacklevel=2)
    return _Part(split, described, entry.shapes[keep], int((~keep).sum()), identify(images.classes))


def _report(part: _Part) -> SplitReport:
    images, counts = part.images, part.images.counts
    sizes = Counter(f"{width} x {height}" for height, width in part.shapes.tolist())
    dataset = f"{part.known[0].name} {part.known[1]}" if part.known else ""
    return SplitReport(part.split, dataset, len(images.classes), len(images), (int(counts.min()), int(counts.max())),
                       tuple(sizes.most_common(3)), images.fingerprint, copy_name(images))


def _oddities(part: _Part) -> Iterator[str]:
    """What is not as it should be within one split."""
    images = part.images
    if part.unreadable:
        yield f"{part.unreadable} pictures cannot be read"
    if part.known:
        yield from _against(part, *part.known)
    elif family(images.classes):
        yield f"{len(images.classes)} classes of {family(images.classes)} that are no split of a benchmark known here"
    if (part.shapes == 84).all():
        yield "all pictures are 84 x 84, resized already: transforms that resize to 92 and cut out 84 enlarge them"
    yield from _repeats(images)


def _against(part: _Part, bench: Benchmark, split: str) -> Iterator[str]:
    """Differences from a complete copy of the benchmark."""
    images, classes, pictures = part.images, len(bench.classes[split]), bench.images.get(split)
    if split != part.split and part.split != "all":
        yield f"these are the {split} classes of {bench.name}"
    if len(images.classes) < classes:
        yield f"too few classes: {len(images.classes)} of the {classes} of {bench.name} {split}"
    if pictures and len(images) + part.unreadable != pictures and len(images.classes) == classes:
        yield f"wrong number of images: {len(images)}; {bench.name} {split} has {pictures}"
    if bench.per_class and set(images.counts) != {bench.per_class}:
        uneven = int((images.counts != bench.per_class).sum())
        yield f"{uneven} classes do not have {bench.per_class} images"
    if looks_bgr(_sample(images)):
        yield "the pictures are bluer than they are red: the colours may be in the order BGR"


def _sample(images: ImageSet, count: int = 200) -> np.ndarray:
    """Mean colours of some pictures: (count, 1, 1, 3)."""
    rows = np.linspace(0, len(images) - 1, min(count, len(images))).astype(int)
    return np.stack([read_image(images.images[row]).mean((0, 1), keepdims=True) for row in rows])


def _repeats(images: ImageSet) -> Iterator[str]:
    groups, sizes = np.unique(images.duplicates, return_counts=True)
    repeated = groups[sizes > 1]
    across = sum(len(set(images.labels[images.duplicates == group])) > 1 for group in repeated)
    if len(repeated):
        yield f"{len(repeated)} groups of identical pictures, {across} of them across classes"


def _between(parts: list[_Part]) -> Iterator[str]:
    """Classes and pictures that two splits share."""
    for place, part in enumerate(parts):
        for other in parts[place + 1 :]:
            shared = set(part.images.classes) & set(other.images.classes)
            if shared and not all(name.isdigit() for name in shared):
                yield f"{part.split} and {other.split} share {len(shared)} classes"
            same = _digests(part.images) & _digests(other.images)
            if same:
                yield f"{part.split} and {other.split} share {len(same)} identical pictures"


def _digests(images: ImageSet) -> set[bytes]:
    assert images.digests is not None
    return {row.tobytes() for row in images.digests}
