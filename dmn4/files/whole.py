"""Files that survive a crash: written beside their place, then moved there."""

import contextlib
import functools
import hashlib
import os
import platform
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ..errors import InputError

Buffer: TypeAlias = bytes | memoryview
HOST = hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()      # tells drafts on a shared drive apart
PAGE = 1 << 20                                                # bytes written at once where room cannot be reserved


def write_file(path: Path, content: bytes | str | Iterable[Buffer]) -> None:
    """Put `content` at `path` whole or not at all, also when the process is killed or the disk is full.

    It may come in parts, one after the other. A text becomes UTF-8; names of files in it that are none
    are written byte for byte.
    """
    beside = draft_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            content = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; what was there before is intact") from None
    finally:                                                  # also after Ctrl-C; once it is moved nothing is there
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def draft_beside(path: Path) -> Path:
    """A new hidden name in the same folder; short, because the name of the file itself may be as long as can be."""
    remove_drafts(path.parent)
    return path.with_name(f".{secrets.token_hex(6)}.{HOST}.{os.getpid()}.part")


@functools.cache
def remove_drafts(folder: Path) -> None:
    """Remove from a folder, once, the drafts of processes of this machine that were killed."""
    for draft in folder.glob(f".*.{HOST}.*.part"):
        with contextlib.suppress(OSError, ValueError):
            if not is_alive(int(draft.name.split(".")[-2])):
                draft.unlink()


def is_alive(process: int) -> bool:
    """Whether there is a process of this number; yes where that cannot be asked."""
    if os.name != "posix":                                    # elsewhere this call would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:                                           # of another user
        return True
    return True


def check_regular(path: Path) -> None:
    """Refuse what is no ordinary file: to open a pipe would be to wait for ever, a device has no end."""
    if not os.path.lexists(path):
        raise InputError(f"there is no file {str(path)!r}")
    if not os.path.isfile(path):
        kind = "a folder" if os.path.isdir(path) else "no ordinary file"
        raise InputError(f"cannot read {str(path)!r}: it is {kind}")


def reserve(file: BinaryIO, size: int) -> None:
    """Lengthen an open file by `size` zeros whose room is taken now, or raise an OSError.

    Writing into a map of a file without room would kill the process when the disk is full.
    """
    file.flush()
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), file.tell(), size)
        return
    for place in range(0, size, PAGE):                        # no such call on this system: write the zeros
        file.write(bytes(min(PAGE, size - place)))
    file.flush()
