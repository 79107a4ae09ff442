"""One entry of the cache: arrays, made at once with all their room, shared by processes, moved when complete.

An entry is filled in a folder `*.partial`, and one of its arrays tells which rows are done: of decoded pictures the
digests, each written last. So an interrupted build goes on where it stopped, and processes that want the same entry
share the work.
"""

import contextlib
import errno
import math
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.format import write_array_header_1_0

from dmn4.errors import InputError

from ..files import reserve
from ..images.files import DIGEST

DRAFT_AGE = 3600                                                   # seconds after which a draft has no owner any more
TRIES = 5                                                          # to open an entry that others move or remove
Arrays: TypeAlias = dict[str, np.ndarray]                          # of an entry, by the names of their files
Layout: TypeAlias = Mapping[str, tuple[Any, tuple[int, ...]]]      # type and shape of each


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


def decoded_layout(count: int, shape: tuple[int, int] | None) -> Layout:
    """The arrays of so many decoded pictures."""
    pixels = {"pixels": (np.uint8, (count, *shape, 3))} if shape else {}
    return {"digests": (np.uint8, (count, DIGEST)), "shapes": (np.int32, (count, 2)), **pixels}


def new_arrays(count: int, shape: tuple[int, int] | None) -> Entry:
    """An entry in memory alone."""
    return entry_of({name: np.zeros(size, kind) for name, (kind, size) in decoded_layout(count, shape).items()})


def entry_of(arrays: Arrays) -> Entry:
    """The arrays of decoded pictures by their names."""
    return Entry(arrays["digests"], arrays["shapes"], arrays.get("pixels"))


def partial_of(folder: Path) -> Path:
    """Where an entry is filled."""
    return folder.with_name(f"{folder.name}.partial")


def claim(folder: Path, layout: Layout) -> Arrays:
    """The finished entry, or the one to be filled, made where there is none; others may move or remove it meanwhile."""
    partial = partial_of(folder)
    for _ in range(TRIES):
        try:
            if folder.is_dir():
                return _open(folder, "r", layout)
            _create(partial, layout)
            return _open_partial(partial, layout)
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


def _create(partial: Path, layout: Layout) -> None:
    """An empty entry, there at once with all its room or not at all, unless another process made it first."""
    if partial.is_dir():
        return
    need = sum(math.prod(shape) * np.dtype(kind).itemsize for kind, shape in layout.values())
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        _remove_old_drafts(partial.parent)
        _check_room(partial.parent, need)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=partial.parent))
        try:
            for name, (kind, shape) in layout.items():
                _reserve(draft / f"{name}.npy", kind, shape)
            move(draft, partial)
        finally:                                                   # also after Ctrl-C: the room is given back
            shutil.rmtree(draft, ignore_errors=True)
    except FileNotFoundError:                                      # the cache was cleared in this moment
        raise
    except OSError as error:
        room = f" ({need / 1e9:.1f} GB are needed)" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else ""
        raise InputError(f"cannot write the cache folder {str(partial.parent)!r}: {error.strerror}{room}; "
                         "set DMN4_CACHE to another, or use no cache") from None


def _reserve(path: Path, kind: Any, shape: tuple[int, ...]) -> None:
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
        raise InputError(f"an entry of the cache needs {need / 1e9:.1f} GB, {str(folder)!r} has {free / 1e9:.1f} GB "
                         "free; set DMN4_CACHE to another folder, or use no cache")


def _open(folder: Path, mode: Literal["r", "r+", "c"], names: Iterable[str]) -> Arrays:
    """The maps of an entry; a FileNotFoundError where it is moved in this moment, a ValueError where one is damaged."""
    return {name: np.load(folder / f"{name}.npy", mmap_mode=mode) for name in names}


def _open_partial(partial: Path, names: Iterable[str]) -> Arrays:
    """The maps of an entry to be filled; where the cache can only be read, what is added stays in memory."""
    _open(partial, "r", names)                                     # a file that is too short: "r+" would lengthen it
    try:
        return _open(partial, "r+", names)
    except PermissionError:
        return _open(partial, "c", names)
