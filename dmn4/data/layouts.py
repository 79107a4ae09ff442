"""What lies at a path: anybody's folders and tables, or a benchmark as it circulates. Recognised by looking."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dmn4.errors import InputError, choose

from .arrays import ARRAY_FILES
from .folders import ImageSet, class_folders, read_folder
from .reading import reading
from .samples import draw_clutter
from .splits import SPLIT_NAMES, class_key, identify_whole
from .tables import read_csv, read_json
from .trees import read_cub, read_inat, read_listed_folders, read_omniglot

SPLIT_FOLDERS = {
    "train": ("train", "meta-train", "meta_train", "base"),
    "val": ("val", "valid", "validation", "meta-val", "meta_val"),
    "test": ("test", "meta-test", "meta_test", "novel"),
}
JSON_NAMES = {"train": "base.json", "val": "val.json", "test": "novel.json"}


@dataclass(frozen=True)
class Layout:
    """How data is stored, how each split is read ("all": undivided), and which further choices its readers know."""

    name: str
    readers: Mapping[str, partial[ImageSet]]
    choices: tuple[str, ...] = ()


def open_dataset(path: str | Path, split: str | None = None, **which: object) -> ImageSet:
    """The pictures at `path`; of a data set with splits, those of one.

    `which`: `images` (tables: the folder of the files), `cub_split` and `crop` (raw CUB: the class split, and whether
    to cut to the boxes), `tiered` (iNaturalist 2017: tiered meta-iNat).
    """
    layout = recognise(path)
    split = split or "all"
    if split not in layout.readers:
        wish = "choose a split" if split == "all" else f"there is no split {split!r}"
        raise InputError(f"{str(path)!r} ({layout.name}) has {', '.join(layout.readers)}: {wish}")
    for choice in which:
        if choice not in layout.choices:
            raise InputError(f"{str(path)!r} ({layout.name}) offers no choice of {choice!r}")
    with reading(path):
        images = layout.readers[split](**which)
    return replace(images, name=Path(path).resolve().name + ("" if split == "all" else f" {split}"))


def recognise(path: str | Path) -> Layout:
    """The first layout that what lies at `path` fits."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"there is no folder or file {str(path)!r}")
    layouts = (find(path) for find in (FOLDER_LAYOUTS if path.is_dir() else FILE_LAYOUTS))
    layout = next((layout for layout in layouts if layout is not None), None)
    if layout is None:
        raise InputError(f"{str(path)!r} is neither a folder of pictures nor a table of them (.csv, .json)")
    return layout


def _cub(path: Path) -> Layout | None:
    for root in (path, path / "CUB_200_2011"):
        if (root / "images.txt").is_file() and (root / "image_class_labels.txt").is_file():
            readers = {split: partial(read_cub, root, split) for split in ("all", *SPLIT_NAMES)}
            return Layout("CUB-200-2011, raw tree", readers, ("cub_split", "crop"))
    return None


def _inat(path: Path) -> Layout | None:
    if not (path / "train_2017_bboxes.json").is_file():
        return None
    readers = {split: partial(read_inat, path, split) for split in ("all", "train", "test")}
    return Layout("iNaturalist 2017 with boxes", readers, ("tiered",))


def _omniglot(path: Path) -> Layout | None:
    parts = {"train": path / "images_background", "test": path / "images_evaluation"}
    readers = {split: partial(read_omniglot, part) for split, part in parts.items() if part.is_dir()}
    return Layout("Omniglot", readers) if readers else None


def _listed(path: Path) -> Layout | None:
    lists = {split: path / "splits" / "bertinetto" / f"{split}.txt" for split in SPLIT_NAMES}
    if not (path / "data").is_dir() or not any(names.is_file() for names in lists.values()):
        return None
    return Layout("CIFAR-FS, folders with lists", {split: partial(read_listed_folders, path / "data", names)
                                                   for split, names in lists.items() if names.is_file()})


def _arrays(path: Path) -> Layout | None:
    for kind in ARRAY_FILES:
        files = {split: path / file for split, file in kind.files.items() if (path / file).is_file()}
        if files:
            return Layout(kind.name, {split: partial(kind.read, file) for split, file in files.items()})
    return None


def _tables(path: Path) -> Layout | None:
    for folder in (path, path / "split", path / "splits"):
        for read, names in ((read_csv, {split: f"{split}.csv" for split in SPLIT_NAMES}), (read_json, JSON_NAMES)):
            tables = {split: folder / name for split, name in names.items() if (folder / name).is_file()}
            if tables:
                kind = f"{next(iter(tables.values())).suffix[1:].upper()} tables"
                return Layout(kind, {split: partial(read, table) for split, table in tables.items()}, ("images",))
    return None


def _split_folders(path: Path) -> Layout | None:
    parts = {split: path / name for split, names in SPLIT_FOLDERS.items() for name in names if (path / name).is_dir()}
    deep = {split: part for split, part in parts.items() if class_folders(part)}
    if "train" not in deep and "test" not in deep:
        return None
    return Layout("folders by split and class", {split: partial(read_folder, part) for split, part in deep.items()})


def _class_folders(path: Path) -> Layout | None:
    whole = identify_whole(folder.name for folder in class_folders(path))
    parts = {split: partial(_part, path, names) for split, names in whole.classes.items()} if whole else {}
    return Layout("folders by class", {"all": partial(read_folder, path)} | parts)


def _part(path: Path, names: frozenset[str]) -> ImageSet:
    images = read_folder(path)
    return images.of_classes(name for name in images.classes if class_key(name) in names)


def _one_table(path: Path) -> Layout | None:
    readers = {".csv": read_csv, ".json": read_json}
    if path.suffix.lower() not in readers:
        return None
    return Layout(f"{path.suffix[1:].upper()} table", {"all": partial(readers[path.suffix.lower()], path)}, ("images",))


FOLDER_LAYOUTS = (_cub, _inat, _omniglot, _listed, _arrays, _tables, _split_folders, _class_folders)
FILE_LAYOUTS = (_one_table,)


DRAWN = {"train": (0, 20), "val": (1, 8), "test": (2, 8)}              # seed and number of classes


def open_split(data: str | Path, split: str) -> ImageSet:
    """The classes of one split of a data set; "drawn" is a small set of drawn objects, for a first try."""
    if str(data) == "drawn":
        seed, classes = DRAWN[choose("split", split, DRAWN)]
        return draw_clutter(classes, 40, 0.5, 32, seed)
    return open_dataset(data, split)
