"""Pictures on disk: which can be read, which have just arrived."""

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..data.folders import ImageSet
from ..errors import InputError
from ..images import SUFFIXES, Source, find_images, read_image


def gather(paths: Sequence[str | Path]) -> list[Path]:
    """The pictures at these paths: files as they are, folders by what is in them; a missing path is refused."""
    files: list[Path] = []
    for path in paths:
        if not os.path.exists(path):                          # asked of what was given: Path("") is the folder here
            raise InputError(f"there is no file or folder {str(path)!r}")
        files += find_images(path) if os.path.isdir(path) else [Path(path)]
    if not files:
        places = ", ".join(repr(str(path)) for path in paths)
        raise InputError(f"no images in {places} (looked for {' '.join(SUFFIXES)})")
    return files


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


def arrivals(folder: Path, pause: float = 1.0) -> Iterator[Path]:
    """The pictures of a folder as they arrive, those already there first; each once it has stopped growing. No end."""
    sizes: dict[Path, int] = {}
    done: set[Path] = set()
    while True:
        for path in find_images(folder):
            size = size_of(path)
            if path not in done and size >= 0 and sizes.get(path) == size:
                done.add(path)
                yield path
            sizes[path] = size
        time.sleep(pause)


def size_of(path: Path) -> int:
    """The bytes of a file; -1 if it was taken away in this moment."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
