"""Decode once: every picture of a set at one size, as a read-only memory map of bytes in the cache folder.

An entry is keyed by what the set is made of (paths, sizes and times of its files) and the size asked for, so a changed
source is another entry. It is filled in a folder `*.partial`, the digest of each picture last: a row without a digest
is still to be done. So an interrupted build goes on where it stopped, and processes that want the same entry share the
work. A picture that cannot be read has no digest either: its entry stays partial, and it is tried again the next time.
"""

import contextlib
import errno
import hashlib
import math
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib.format import write_array_header_1_0
from rich.console import Console
from rich.progress import Progress

from dmn4.errors import InputError
from dmn4.images import Crop, Source, describe_source, read_image, resize_image

from ..files import reserve
from ..images.files import DIGEST, Cut, Size, digest
from .folders import ImageSet

VERSION = "2"                                                      # of the layout of an entry
BLOCK = 256                                                        # pictures between two looks at what is done
DRAFT_AGE = 3600                                                   # seconds after which a draft has no owner any more
TRIES = 5                                                          # to open an entry that others move or remove


@dataclass(frozen=True)
class Entry:
    """What decoding found, a row for each picture; arrays or memory maps."""

    digests: np.ndarray                                            # (n, 16)  zero: still to be done
    shapes: np.ndarray                                             # (n, 2)  height and width as stored
    pixels: np.ndarray | None                                      # (n, h, w, 3), where a size was asked for

    @property
    def readable(self) -> np.ndarray:
        """Which pictures could be read: bool (n,)."""
        return np.asarray(self.digests.any(axis=1))

    @property
    def to_do(self) -> np.ndarray:
        """Rows that are still to be decoded."""
        return np.flatnonzero(~self.readable)

    def finished(self) -> "Entry":
        """The same, read-only; the digests as they are now, whatever other processes add."""
        pixels = None if self.pixels is None else self.pixels.view()
        if pixels is not None:
            pixels.flags.writeable = False
        return Entry(self.digests.copy(), self.shapes.copy(), pixels)


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
    found = replace(images, images=entry.pixels, digests=entry.digests)
    if keep.all():
        return found
    _warn_unreadable(images, np.flatnonzero(~keep))
    return found.rows(keep)


def examine(images: ImageSet, shape: tuple[int, int] | None, cache: bool = True, progress: bool = True) -> Entry:
    """Digest and stored size of every picture and, where a `shape` is given, its pixels scaled to it."""
    if not cache:
        return _fill(_new_arrays(len(images), shape), images, shape, progress)
    name = f"{_source_key(images.images)}-{_shape_name(shape)}"
    folder = decoded_folder() / name
    partial = folder.with_name(name + ".partial")
    entry = _fill(_claim(folder, partial, len(images), shape), images, shape, progress)
    if not len(entry.to_do) and not folder.is_dir():
        _move(partial, folder)
    return entry.finished()


def _shape_name(shape: tuple[int, int] | None) -> str:
    """The part of an entry's name that says how its pictures were scaled."""
    return "scan" if shape is None else "x".join(map(str, shape)) + "-cut" * isinstance(shape, Cut)


# -------------------------------------------------------------------------------------------------------- the folder

def cache_folder() -> Path:
    """Where the package keeps what it fetched or decoded: $DMN4_CACHE, else dmn4 in $XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("DMN4_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dmn4")


def decoded_folder() -> Path:
    """The part of the cache folder that holds decoded pictures."""
    return cache_folder() / "decoded"


def cached_bytes() -> int:
    """Room that decoded pictures take."""
    return sum(path.stat().st_size for path in decoded_folder().rglob("*.npy"))


def clear() -> int:
    """Remove all decoded pictures; returns the bytes that were freed."""
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


# --------------------------------------------------------------------------------------------------------- one entry

def _new_arrays(count: int, shape: tuple[int, int] | None) -> Entry:
    pixels = np.zeros((count, *shape, 3), np.uint8) if shape else None
    return Entry(np.zeros((count, DIGEST), np.uint8), np.zeros((count, 2), np.int32), pixels)


def _claim(folder: Path, partial: Path, count: int, shape: tuple[int, int] | None) -> Entry:
    """The finished entry, or the one to be filled, made where there is none; others may move or remove it meanwhile."""
    for _ in range(TRIES):
        try:
            if folder.is_dir():
                return _open(folder, "r", shape)
            _create(partial, count, shape)
            return _open_partial(partial, shape)
        except InputError:                                         # a ValueError too, but not the last one below
            raise
        except FileNotFoundError:                                  # finished, or removed, in this moment
            continue
        except OSError as error:
            raise InputError(f"cannot read the cache folder {str(folder.parent)!r}: {error.strerror}; "
                             "set DMN4_CACHE to another, or use no cache") from None
        except (ValueError, EOFError):                             # cut off by a crash of the machine
            shutil.rmtree(folder if folder.is_dir() else partial, ignore_errors=True)
    raise InputError(f"the cache folder {str(folder.parent)!r} is removed while it is written; "
                     "set DMN4_CACHE to another, or use no cache")


def _create(partial: Path, count: int, shape: tuple[int, int] | None) -> None:
    """An empty entry, there at once with all its room or not at all, unless another process made it first."""
    if partial.is_dir():
        return
    need = count * (shape[0] * shape[1] * 3 if shape else 0)
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        _remove_old_drafts(partial.parent)
        _check_room(partial.parent, need)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=partial.parent))
        try:
            _reserve(draft / "digests.npy", np.uint8, (count, DIGEST))
            _reserve(draft / "shapes.npy", np.int32, (count, 2))
            if shape:
                _reserve(draft / "pixels.npy", np.uint8, (count, *shape, 3))
            _move(draft, partial)
        finally:                                                   # also after Ctrl-C: the room is given back
            shutil.rmtree(draft, ignore_errors=True)
    except FileNotFoundError:                                      # the cache was cleared in this moment
        raise
    except OSError as error:
        room = f" ({need / 1e9:.1f} GB are needed)" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else ""
        raise InputError(f"cannot write the cache folder {str(partial.parent)!r}: {error.strerror}{room}; "
                         "set DMN4_CACHE to another, or use no cache") from None


def _reserve(path: Path, kind: type, shape: tuple[int, ...]) -> None:
    """An array of zeros as a file whose room is taken now."""
    with open(path, "wb") as file:
        write_array_header_1_0(file, {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape})
        reserve(file, math.prod(shape) * np.dtype(kind).itemsize)


def _remove_old_drafts(parent: Path) -> None:
    """Remove what processes left that were killed while they reserved room."""
    for draft in parent.glob(".new-*"):
        with contextlib.suppress(OSError):
            if time.time() - draft.stat().st_mtime > DRAFT_AGE:
                shutil.rmtree(draft, ignore_errors=True)


def _move(draft: Path, final: Path) -> None:
    """Rename a folder; where another process was first, its folder stays and this one goes."""
    try:
        draft.rename(final)
    except OSError:
        if final.is_dir():
            shutil.rmtree(draft, ignore_errors=True)


def _check_room(folder: Path, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if need > free:
        raise InputError(f"decoded pictures need {need / 1e9:.1f} GB, {str(folder)!r} has {free / 1e9:.1f} GB free; "
                         "set DMN4_CACHE to another folder, or use no cache")


def _open(folder: Path, mode: Literal["r", "r+", "c"], shape: tuple[int, int] | None) -> Entry:
    """The maps of an entry; a FileNotFoundError where it is moved in this moment, a ValueError where one is damaged."""
    digests, shapes = (np.load(folder / f"{name}.npy", mmap_mode=mode) for name in ("digests", "shapes"))
    pixels = np.load(folder / "pixels.npy", mmap_mode=mode) if shape else None
    return Entry(np.asarray(digests), np.asarray(shapes), pixels)


def _open_partial(partial: Path, shape: tuple[int, int] | None) -> Entry:
    """The maps of an entry to be filled; where the cache can only be read, what is added stays in memory."""
    _open(partial, "r", shape)                                     # a file that is too short: "r+" would lengthen it
    try:
        return _open(partial, "r+", shape)
    except PermissionError:
        return _open(partial, "c", shape)


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
