"""Benchmarks that circulate as arrays in pickle or npz files -> ImageSet."""

import math
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dmn4.errors import InputError
from dmn4.images import Source

from ..files import check_regular
from .folders import ImageSet
from .pickles import read_pickle
from .reading import reading

EXPANSION = 20                                                     # times its file that an npz may hold: photographs
SLACK = 1 << 26                                                    # shrink little, a bomb a thousandfold


@dataclass(frozen=True)
class ArrayFiles:
    """One way of storing a benchmark: the file of each split and the function that reads it."""

    name: str
    files: dict[str, str]
    read: Callable[[Path], ImageSet]


def _of_each_split(pattern: str, splits: Sequence[str] = ("train", "val", "test")) -> dict[str, str]:
    return {split: pattern.format(split) for split in splits}


def _labelled(
    images: Sequence[Source] | np.ndarray, labels: Sequence[Any], path: Path, names: Sequence[Any] | None = None
) -> ImageSet:
    """Pictures with any integers as labels; classes are called by `names`, or by their number."""
    given = _whole_numbers(labels, "labels", path)
    if len(images) != len(given):
        raise InputError(f"{str(path)!r} holds {len(images)} pictures and {len(given)} labels")
    numbers, places = np.unique(given, return_inverse=True)
    if names is not None and not (isinstance(names, list) and numbers.min() >= 0 and numbers.max() < len(names)):
        raise InputError(f"{str(path)!r} does not name all of its labels {numbers.min()} to {numbers.max()}")
    classes = tuple(str(names[number]) if names is not None else str(number) for number in numbers)
    return ImageSet(images, places, classes, path.stem)


def _whole_numbers(values: object, what: str, path: Path) -> np.ndarray:
    """A list of integers as an array (n,), or an InputError."""
    with reading(path):
        array = np.asarray(values)
        if array.ndim == 1 and len(array) and array.dtype.kind in "iu":
            return array
    raise InputError(f"{what} in {str(path)!r} are no list of whole numbers")


def _pictures(array: object, path: Path) -> np.ndarray:
    """An array of pictures as bytes (n, h, w, 3); grey values, or floats in 0..1, are stretched."""
    if not isinstance(array, np.ndarray) or array.ndim != 4 or array.shape[3] != 3 or not array.size \
            or array.dtype.kind not in "uif":
        raise InputError(f"{str(path)!r} holds no array of pictures (n, h, w, 3)")
    if array.dtype == np.uint8:
        return array
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 255):                             # or NaN
        raise InputError(f"{str(path)!r} holds values from {low:.2f} to {high:.2f}: normalised by an unknown mean")
    return (array * (255 if high <= 1 else 1)).round().astype(np.uint8)


def _member(table: Any, key: str, path: Path) -> Any:
    if not isinstance(table, dict) or key not in table:
        keys = ", ".join(map(str, table)) if isinstance(table, dict) else type(table).__name__
        raise InputError(f"{str(path)!r} has no {key!r}; it holds {keys}")
    return table[key]


def read_data_labels(path: Path) -> ImageSet:
    """A pickle of `data` (n, h, w, 3) and `labels`, as Gidaris, MetaOptNet and CIFAR-FS store them."""
    table = read_pickle(path)
    return _labelled(_pictures(_member(table, "data", path), path), _member(table, "labels", path), path)


def read_class_dict(path: Path) -> ImageSet:
    """A pickle of `image_data` (n, h, w, 3) and `class_dict` (class -> rows), as Ren et al. store miniImageNet."""
    table = read_pickle(path)
    pictures, rows = _pictures(_member(table, "image_data", path), path), _member(table, "class_dict", path)
    if not isinstance(rows, dict) or not rows:
        raise InputError(f"'class_dict' of {str(path)!r} is no table of classes and their rows")
    labels = np.full(len(pictures), -1)
    for label, (name, places) in enumerate(rows.items()):
        chosen = _whole_numbers(places, f"the rows of class {name!r}", path)
        if chosen.min() < 0 or chosen.max() >= len(pictures):
            raise InputError(f"class {name!r} of {str(path)!r} names rows that are not among its {len(pictures)}")
        labels[chosen] = label
    return ImageSet(pictures, labels, tuple(map(str, rows)), path.stem).rows(labels >= 0)


def read_png_list(path: Path) -> ImageSet:
    """A pickled list of PNG files and the pickle of labels beside it, as Ren et al. store tieredImageNet.

    The bytes are ordinary PNG files, which Pillow reads as RGB; OpenCV hands them out as BGR.
    """
    files = read_pickle(path)
    if not isinstance(files, list) or not all(isinstance(file, np.ndarray | bytes | bytearray) for file in files):
        raise InputError(f"{str(path)!r} is no list of PNG files")
    pictures = [file.tobytes() if isinstance(file, np.ndarray) else bytes(file) for file in files]
    return _labelled(pictures, *_tiered_labels(path.with_name(path.name.replace("_images_png", "_labels"))))


def read_tiered_npz(path: Path) -> ImageSet:
    """`images` (n, 84, 84, 3) of an npz and the pickle of labels beside it; BGR copies are turned to RGB."""
    pictures = _pictures(_load_npz(path).get("images"), path)
    if looks_bgr(pictures):
        warnings.warn(f"the colours in {str(path)!r} are in the order BGR; they are turned to RGB", stacklevel=2)
        pictures = pictures[..., ::-1]
    return _labelled(pictures, *_tiered_labels(path.with_name(path.stem.replace("_images", "_labels") + ".pkl")))


def _tiered_labels(path: Path) -> tuple[Sequence[Any], Path, Sequence[Any] | None]:
    table = read_pickle(path)
    if not isinstance(table, dict):
        raise InputError(f"{str(path)!r} is no table of labels")
    key = "label_specific" if "label_specific" in table else "labels"
    return _member(table, key, path), path, table.get("label_specific_str")


def read_class_npz(path: Path) -> ImageSet:
    """An npz of one array (n, h, w, 3) for each class, as TapNet stores miniImageNet."""
    arrays = {name: _pictures(array, path) for name, array in _load_npz(path).items()}
    if len({array.shape[1:] for array in arrays.values()}) != 1:
        raise InputError(f"the classes in {str(path)!r} differ in the size of their pictures, or there are none")
    labels = np.repeat(np.arange(len(arrays)), [len(array) for array in arrays.values()])
    return ImageSet(np.concatenate(list(arrays.values())), labels, tuple(arrays), path.stem)


def _load_npz(path: Path) -> dict[str, np.ndarray]:
    check_regular(path)
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            need = sum(member.file_size for member in archive.infolist())
            if need > EXPANSION * path.stat().st_size + SLACK:
                raise InputError(f"{str(path)!r} says it holds {need / 1e9:,.1f} GB, in a file of "
                                 f"{path.stat().st_size / 1e6:,.1f} MB; no pictures shrink so far, so it was not read")
            for member in archive.infolist():
                _check_member(archive, member, path)
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)


def _check_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    """Refuse an array that says it is larger than its part of the file; numpy would make room for it first."""
    with archive.open(member) as file:
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, kind = header[np.lib.format.read_magic(file)](file)
    if kind.hasobject or math.prod(shape) * kind.itemsize > member.file_size:
        raise InputError(f"{member.filename!r} in {str(path)!r} is no array of {member.file_size} bytes")


def looks_bgr(pictures: np.ndarray, sample: int = 500) -> bool:
    """Whether photographs (n, h, w, 3) have blue and red exchanged: the world is redder than it is blue."""
    mean = pictures[:: max(1, len(pictures) // sample)].mean((0, 1, 2))                          # (3,)
    return bool(mean[2] > mean[0])


ARRAY_FILES = (
    ArrayFiles("miniImageNet, pickles of Gidaris and MetaOptNet",
               {"train": "miniImageNet_category_split_train_phase_train.pickle",
                **_of_each_split("miniImageNet_category_split_{}.pickle", ("val", "test")),
                **_of_each_split("miniImageNet_category_split_{}.pickle", ("train_phase_val", "train_phase_test"))},
               read_data_labels),
    ArrayFiles("miniImageNet, pickles of Ren", _of_each_split("mini-imagenet-cache-{}.pkl"), read_class_dict),
    ArrayFiles("tieredImageNet, pickles of PNG files", _of_each_split("{}_images_png.pkl"), read_png_list),
    ArrayFiles("tieredImageNet, npz", _of_each_split("{}_images.npz"), read_tiered_npz),
    ArrayFiles("CIFAR-FS, pickles", _of_each_split("CIFAR_FS_{}.pickle"), read_data_labels),
    ArrayFiles("miniImageNet, npz of TapNet", _of_each_split("{}.npz"), read_class_npz),
)
