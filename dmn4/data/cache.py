"""Decode once: every picture of a set at one size, as a read-only memory map of bytes in the cache folder.

An entry is keyed by what the set is made of (paths, sizes and times of its files) and the size asked for, so a changed
source is another entry. A picture that cannot be read has no digest: its entry stays partial, and it is tried again the
next time.
"""

import contextlib
import hashlib
import os
import shutil
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path
from rich.console import Console
from rich.progress import Progress

from dmn4.errors import InputError
from dmn4.images import Crop, Source, describe_source, read_image, resize_image

from ..images.files import Cut, Size, digest
from .entries import Entry, claim, decoded_layout, entry_of, move, new_arrays, partial_of
from .folders import ImageSet

VERSION = "2"                                                      # of the layout of an entry
BLOCK = 256                                                        # pictures between two looks at what is done


def decoded(
    images: ImageSet, size: Size | None = 84, cache: bool = True, progress: bool = True
) -> ImageSet:
    """The same set with its pictures as one array (n, h, w, 3) of bytes; with `cache` a memory map, decoded only once.

    `size`: (h, w), or the side of a square, scaled without regard to the aspect; a Cut keeps the aspect; None keeps
    the size, which all pictures must then share. Pictures that cannot be read are left out with a warning.
    """
    shape = (size, size) if isinstance(size, int) else size or _common_shape(images, cache, progress)
    if images.is_decoded and images.pixels.shape[1:3] == shape:
        return images
    entry = examine(images, shape, cache, progress)
    assert entry.pixels is not None
    keep = entry.readable
    decoded_set = replace(images, images=entry.pixels, digests=entry.digests)
    if keep.all():
        return decoded_set
    _warn_unreadable(images, np.flatnonzero(~keep))
    return decoded_set.rows(keep)


def examine(images: ImageSet, shape: tuple[int, int] | None, cache: bool = True, progress: bool = True) -> Entry:
    """Digest and stored size of every picture and, where a `shape` is given, its pixels scaled to it."""
    if not cache:
        return _fill(new_arrays(len(images), shape), images, shape, progress)
    folder = decoded_folder() / f"{_source_key(images.images)}-{_shape_name(shape)}"
    entry = _fill(entry_of(claim(folder, decoded_layout(len(images), shape))), images, shape, progress)
    if not len(entry.to_do) and not folder.is_dir():
        move(partial_of(folder), folder)
    return entry.finished()


def _shape_name(shape: tuple[int, int] | None) -> str:
    """The part of an entry's name that says how its pictures were scaled."""
    return "scan" if shape is None else "x".join(map(str, shape)) + "-cut" * isinstance(shape, Cut)


def _fill(entry: Entry, images: ImageSet, shape: tuple[int, int] | None, progress: bool) -> Entry:
    """Decode what is still to be done, in threads; blocks in random order, so that processes share the work."""
    def decode(row: int) -> None:
        if not entry.digests[row].any():
            _decode_row(entry, row, images.images[row], shape)

    rows = entry.to_do
    if not len(rows):
        return entry
    console = Console(stderr=True)
    blocks = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
    with ThreadPoolExecutor() as pool, Progress(console=console, transient=True,
                                                disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task(f"decoding {images.name}", total=len(images), completed=len(images) - len(rows))
        for place in np.random.default_rng().permutation(len(blocks)):
            list(pool.map(decode, blocks[place]))
            bar.advance(task, len(blocks[place]))
    return entry


def _decode_row(entry: Entry, row: int, source: Source, shape: tuple[int, int] | None) -> None:
    try:
        pixels = read_image(source)
    except InputError:                                             # perhaps a drive that is away: not remembered
        return
    entry.shapes[row] = pixels.shape[:2]
    if shape and entry.pixels is not None:
        entry.pixels[row] = resize_image(pixels, shape)
    entry.digests[row] = digest(pixels)                            # last: now the row is done


def _common_shape(images: ImageSet, cache: bool, progress: bool) -> tuple[int, int]:
    """Height and width of all pictures; an InputError where they differ."""
    if images.is_decoded:
        return images.pixels.shape[1:3]
    entry = examine(images, None, cache, progress)
    rows = np.flatnonzero(entry.readable)
    shapes, first = np.unique(entry.shapes[rows], axis=0, return_index=True)
    if len(shapes) > 1:
        sizes = (f"{width} x {height} in {describe_source(images.images[rows[place]])}"
                 for (height, width), place in zip(shapes[:2], first, strict=False))
        raise InputError(f"pictures of {images.name} differ in size: {', '.join(sizes)}; give a size")
    return tuple(shapes[0].tolist()) if len(shapes) else (1, 1)


def _warn_unreadable(images: ImageSet, rows: np.ndarray) -> None:
    """One warning for each of the first three pictures, then their number; none left is an InputError."""
    for row in rows[:3]:
        try:
            read_image(images.images[row])
        except InputError as error:
            if len(rows) == len(images):
                raise InputError(f"none of the {len(images)} pictures of {images.name} can be read: {error}") from None
            warnings.warn(f"left out: {error}", stacklevel=3)
    if len(rows) > 3:
        warnings.warn(f"left out: {len(rows)} unreadable pictures of {images.name} in all", stacklevel=3)


# -------------------------------------------------------------------------------------------------------- the folder

def cache_folder() -> Path:
    """Where the package keeps what it fetched or decoded: $DMN4_CACHE, or `dmn4` where programs keep such files.

    That is $XDG_CACHE_HOME, else ~/.cache if something of the package is there already, else what the system uses:
    ~/.cache, ~/Library/Caches, or the local application data of Windows.
    """
    if named := os.environ.get("DMN4_CACHE"):
        return Path(named)
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dmn4")
    return usual if usual.is_dir() or "XDG_CACHE_HOME" in os.environ else user_cache_path("dmn4", appauthor=False)


def decoded_folder() -> Path:
    """The part of the cache folder that holds decoded pictures and their maps."""
    return cache_folder() / "decoded"


def cached_bytes() -> int:
    """Room that decoded pictures and stored maps take; what another process removes meanwhile does not count."""
    total = 0
    for here, _, names in os.walk(decoded_folder()):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(here, name)).st_size
    return total


def clear() -> int:
    """Remove all decoded pictures and maps; returns the bytes that were freed."""
    freed = cached_bytes()
    shutil.rmtree(decoded_folder(), ignore_errors=True)
    return freed


def _source_key(images: Sequence[Source] | np.ndarray) -> str:
    """Letters that change with any file's path, size or time, or with the content where there are no files."""
    key = hashlib.blake2b(VERSION.encode(), digest_size=16)
    for image in images:
        key.update(_signature(image) + b"\0")
    return key.hexdigest()


def _signature(image: Source) -> bytes:
    if isinstance(image, bytes):
        return hashlib.blake2b(image).digest()
    if isinstance(image, np.ndarray):
        return digest(image).tobytes()
    path, box = (image.path, image.box) if isinstance(image, Crop) else (image, None)
    assert isinstance(path, str | Path)
    try:
        status = os.stat(path)
    except OSError:
        return os.fsencode(os.path.abspath(path))
    return os.fsencode(os.path.abspath(path)) + f"|{status.st_size}|{status.st_mtime_ns}|{box}".encode()
