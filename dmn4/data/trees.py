"""Benchmarks that are built from the tree of their raw data set: CUB, meta-iNat, Omniglot, CIFAR-FS -> ImageSet."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dmn4.errors import InputError, choose
from dmn4.images import Crop, Source, find_images

from ..files import parse_json, read_text
from .folders import ImageSet, class_folders, from_classes
from .splits import TIERED_META_INAT, class_list, cub_part
from .tables import read_pairs

CUB_SPLITS = ("frn", "closerlook")
LIMITS = (50, 1000)                                                # pictures of a class of tiered meta-iNat


def read_cub(root: Path, split: str = "all", cub_split: str = "frn", crop: bool = True) -> ImageSet:
    """CUB-200-2011 from its raw tree, cut to the bounding boxes.

    `cub_split`: `frn` or `closerlook`, or a folder with {train,val,test}.csv that name the files of an explicit split.
    """
    boxes = {row[0]: tuple(map(float, row[1:5])) for row in _rows(root / "bounding_boxes.txt")} if crop else {}
    belongs = _membership(split, cub_split)
    sources: dict[str, list[Source]] = {}
    for number, name in _rows(root / "images.txt"):
        path = root / "images" / name
        if belongs(path):
            sources.setdefault(path.parent.name, []).append(_crop(path, boxes[number]) if crop else path)
    return from_classes(sources, f"CUB {split}")


def _membership(split: str, cub_split: str) -> Callable[[Path], bool]:
    """Whether a picture belongs to the split: by the number of its class, or by its name in the split's table."""
    if split == "all":
        return lambda path: True
    if Path(cub_split).is_dir():
        listed = {Path(file).name for file, _ in read_pairs(Path(cub_split, f"{split}.csv"))}
        return lambda path: path.name in listed
    choose("CUB split", cub_split, CUB_SPLITS)
    return lambda path: cub_part(int(path.parent.name[:3]), cub_split) == split


def _crop(path: Path, box: tuple[float, ...]) -> Crop:
    left, top, width, height = box
    return Crop(path, (left, top, left + width, top + height))


def _rows(path: Path) -> list[list[str]]:
    """The words of each line of one of CUB's text files."""
    return [line.split() for line in read_text(path).splitlines() if line.strip()]


@dataclass(frozen=True)
class Picture:
    id: int
    file_name: str                                                 # below the root


@dataclass(frozen=True)
class Box:
    image_id: int
    category_id: int


@dataclass(frozen=True)
class Category:
    id: int
    supercategory: str


@dataclass(frozen=True)
class Boxes:
    """The parts of `train_2017_bboxes.json` that are read: a box says which picture shows which category."""

    images: list[Picture]
    annotations: list[Box]
    categories: list[Category]


def read_inat(root: Path, split: str = "all", tiered: bool = False) -> ImageSet:
    """meta-iNat, or its tiered form, from the iNaturalist 2017 tree: whole pictures of the classes that have boxes.

    The tiered split is by super-category, of the classes with 50 to 1000 pictures. A class is called by its number.
    """
    path = root / "train_2017_bboxes.json"
    table = parse_json(read_text(path), f"{str(path)!r} as a list of boxes", Boxes)
    files = {image.id: root / image.file_name for image in table.images}
    members: dict[int, set[int]] = {}
    for box in table.annotations:
        if box.image_id not in files:
            raise InputError(f"{str(path)!r} has a box in picture {box.image_id}, which it does not name")
        members.setdefault(box.category_id, set()).add(box.image_id)
    chosen = _tiered_categories(table, members) if tiered else {part: [int(name) for name in names]
                                                                for part, names in class_list("meta-inat").items()}
    wanted = [number for part, numbers in chosen.items() if split in ("all", part) for number in numbers]
    sources = {str(number): [files[image] for image in sorted(members[number])]
               for number in wanted if number in members}
    return from_classes(sources, f"{'tiered ' if tiered else ''}meta-iNat {split}")


def _tiered_categories(table: Boxes, members: dict[int, set[int]]) -> dict[str, list[int]]:
    low, high = LIMITS
    return {split: [category.id for category in table.categories if category.supercategory in kinds
                    and low <= len(members.get(category.id, ())) <= high]
            for split, kinds in TIERED_META_INAT.items()}


def read_omniglot(root: Path) -> ImageSet:
    """The characters below root/alphabet/character/; a class is called `alphabet/character`."""
    folders = [folder for alphabet in class_folders(root) for folder in class_folders(alphabet)]
    return from_classes({f"{folder.parent.name}/{folder.name}": find_images(folder) for folder in folders},
                        f"Omniglot {root.name}")


def read_listed_folders(root: Path, names: Path) -> ImageSet:
    """The class folders of `root` that a text file names, one a line, as CIFAR-FS of Bertinetto et al. is stored."""
    listed = read_text(names).split()
    outside = next((name for name in listed if name == ".." or Path(name).name != name), None)
    if outside is not None:
        raise InputError(f"{str(names)!r} names {outside!r}, which is no folder in {str(root)!r}")
    sources = {name: find_images(root / name) for name in listed}
    missing = [name for name, images in sources.items() if not images]
    if missing:
        raise InputError(f"no images in {str(root / missing[0])!r}, a class that {str(names)!r} names")
    return from_classes(sources, f"{root.parent.name} {names.stem}")
