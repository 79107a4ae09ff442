"""Pictures on disk, before and after: which can be read, where each one goes, which have just arrived."""

import filecmp
import os
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..data.folders import ImageSet
from ..errors import InputError
from ..images import SUFFIXES, Source, find_images, read_image
from .predictions import UNKNOWN, Prediction


def gather(paths: Sequence[Path]) -> list[Path]:
    """The pictures at these paths: files as they are, folders by what is in them; a missing path is refused."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file or folder {str(path)!r}")
        found += find_images(path) if path.is_dir() else [path]
    if not found:
        places = ", ".join(repr(str(path)) for path in paths)
        raise InputError(f"no images in {places} (looked for {' '.join(SUFFIXES)})")
    return found


def readable(images: ImageSet) -> ImageSet:
    """The pictures that can be read, with a warning for each other one; a class without any is an InputError."""
    errors = why_left_out(images.images)
    left = images.rows([row for row, error in enumerate(errors) if not error])
    for label, count in enumerate(left.counts):
        if not count:
            raise InputError(f"none of the pictures of class {images.classes[label]!r} can be read: "
                             f"{next(error for row, error in enumerate(errors) if images.labels[row] == label)}")
    return left


def readable_files(paths: Sequence[Path]) -> list[Path]:
    """The files that can be read, with a warning for each other one; an InputError if none can."""
    errors = why_left_out(paths)
    if all(errors):
        raise InputError(f"none of the {len(paths)} pictures can be read; the first: {errors[0]}")
    return [path for path, error in zip(paths, errors, strict=True) if not error]


def why_left_out(sources: Iterable[Source]) -> list[str]:
    """What is wrong with each picture, or nothing (""), with a warning for each that cannot be read."""
    with ThreadPoolExecutor(max_workers=4) as readers:
        errors = list(readers.map(why_unreadable, sources))
    for error in filter(None, errors):
        warnings.warn(f"left out: {error}", stacklevel=3)
    return errors


def why_unreadable(source: Source) -> str:
    """Why a picture cannot be read, or nothing."""
    try:
        read_image(source, size=1)                            # as small as it can be decoded
    except InputError as error:
        return str(error)
    return ""


def sort_into(folder: Path, prediction: Prediction, link: bool = False) -> Path | None:
    """Copy (or link) a picture into folder/label, or folder/unknown; returns where. An unreadable one stays behind.

    A different picture of the same name gets a number behind its name; the same one is not copied twice.
    """
    if prediction.error:
        return None
    source = Path(str(prediction.image))
    home = folder / folder_name(UNKNOWN if prediction.label is None else str(prediction.label))
    home.mkdir(parents=True, exist_ok=True)
    target, number = home / source.name, 1
    while target.exists() and not filecmp.cmp(source, target, shallow=False):
        number += 1
        target = home / f"{source.stem}-{number}{source.suffix}"
    if not target.exists():
        target.symlink_to(source.resolve()) if link else copy_whole(source, target)
    return target


def folder_name(label: str) -> str:
    """A label as the name of a folder: never a way out of the folder above it."""
    return label.replace(os.sep, "_").replace("\0", "_").strip(". ") or "_"


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that the target is there whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copy2(source, draft)
    os.replace(draft, target)


def arrivals(folder: Path, pause: float = 1.0) -> Iterator[Path]:
    """The pictures of a folder as they arrive, those already there first; each once it has stopped growing. No end."""
    sizes: dict[Path, int] = {}
    done: set[Path] = set()
    while True:
        for path in find_images(folder):
            size = path.stat().st_size
            if path not in done and sizes.get(path) == size:
                done.add(path)
                yield path
            sizes[path] = size
        time.sleep(pause)
