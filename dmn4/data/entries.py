"""One entry of the cache: its files, made at once with all their room, shared by processes, moved when complete.

An entry is filled in a folder `*.partial`, the digest of each picture last: a row without a digest is still to be
done. So an interrupted build goes on where it stopped, and processes that want the same entry share the work.
"""

import contextlib
import errno
import math
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.lib.format import write_array_header_1_0

from dmn4.errors import InputError

from ..files import reserve
from ..images.files import DIGEST

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


def new_arrays(count: int, shape: tuple[int, int] | None) -> Entry:
    pixels = np.zeros((count, *shape, 3), np.uint8) if shape else None
    return Entry(np.zeros((count, DIGEST), np.uint8), np.zeros((count, 2), np.int32), pixels)


def claim(folder: Path, partial: Path, count: int, shape: tuple[int, int] | None) -> Entry:
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
            move(draft, partial)
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


def move(draft: Path, final: Path) -> None:
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
