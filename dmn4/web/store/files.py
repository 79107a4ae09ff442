"""The files of classifiers: in a folder, or anywhere that fsspec reaches. A name is written once and never again.

A worker reads and writes local files only: of a place elsewhere there are local copies, which a checksum tells from
damaged ones when they are opened.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import InputError

SUFFIX = ".dmn4"
CACHE_BYTES = 4_000_000_000                                   # of local copies, the oldest of which leave


class Files:
    """Files by names like `CLASSIFIER/8f3a.dmn4`. `scratch` is where drafts and uploads lie."""

    def __init__(self, folder: Path, elsewhere: str | None = None) -> None:
        self.folder, self.scratch = folder / "files", folder / "scratch"
        self.remote: Any = None
        for place in (self.folder, self.scratch):
            place.mkdir(parents=True, exist_ok=True)
        if elsewhere is not None:
            self.remote, self.root = opened(elsewhere)

    def new(self, classifier: str) -> str:
        """A name that nobody has used."""
        return f"{classifier}/{secrets.token_hex(8)}{SUFFIX}"

    def draft(self, name: str) -> Path:
        """Where a file is written before it is kept."""
        return self.scratch / Path(name).name

    def keep(self, name: str) -> None:
        """Put the draft of this name in its place: whole and on disk, or not at all."""
        target = self.folder / name
        target.parent.mkdir(exist_ok=True)
        if self.remote is not None:
            self.remote.makedirs(f"{self.root}/{Path(name).parent}", exist_ok=True)
            self.remote.put_file(str(self.draft(name)), f"{self.root}/{name}.part")
            self.remote.mv(f"{self.root}/{name}.part", f"{self.root}/{name}")
            self.trim()
        os.replace(self.draft(name), target)
        sync_folder(target.parent)

    def local(self, name: str) -> Path:
        """A local file with the content of this name."""
        path = self.folder / name
        if self.remote is not None and not path.is_file():
            path.parent.mkdir(exist_ok=True)
            beside = self.scratch / secrets.token_hex(8)
            self.remote.get_file(f"{self.root}/{name}", str(beside))
            os.replace(beside, path)
        return path

    def remove(self, name: str) -> None:
        """Delete a file, and its folder with the last one; it may be gone already."""
        with suppress(OSError):
            (self.folder / name).unlink(missing_ok=True)
            (self.folder / name).parent.rmdir()
        if self.remote is not None:
            with suppress(FileNotFoundError):
                self.remote.rm_file(f"{self.root}/{name}")

    def discard(self, name: str) -> None:
        """Remove a file and its draft: what should have come of it did not."""
        self.draft(name).unlink(missing_ok=True)
        self.remove(name)

    def names(self) -> Iterator[str]:
        """All files that are kept."""
        if self.remote is not None:
            names = self.remote.find(self.root) if self.remote.exists(self.root) else []
            yield from sorted(path.removeprefix(f"{self.root}/") for path in names if path.endswith(SUFFIX))
        else:
            yield from sorted(path.relative_to(self.folder).as_posix() for path in self.folder.glob(f"*/*{SUFFIX}"))

    def age(self, name: str, now: float) -> float:
        """Seconds since a file was written."""
        if self.remote is None:
            return now - (self.folder / name).stat().st_mtime
        written: float = self.remote.modified(f"{self.root}/{name}").timestamp()
        return now - written

    def trim(self) -> None:
        """Let the oldest local copies go when they have become too many."""
        copies = sorted(self.folder.glob(f"*/*{SUFFIX}"), key=lambda path: path.stat().st_atime, reverse=True)
        total = 0
        for path in copies:
            total += path.stat().st_size
            if total > CACHE_BYTES:
                path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk as well, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def opened(url: str) -> tuple[Any, str]:
    """The file system of a URL and the folder in it."""
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(url)
        system.makedirs(root, exist_ok=True)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(f"cannot keep files at {url!r}: {error}") from None
    return system, root.rstrip("/")
