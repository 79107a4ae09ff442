"""Where rows go: a folder of parts, here or at any address of fsspec, each part written whole or not at all."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, choose
from ..files import draft_beside, parse_json, remove_drafts, write_file
from .addresses import filesystem, harmless, is_remote, patiently, public
from .rows import FORMATS, encoded, schema
from .units import Plan
from .worker import Task

if TYPE_CHECKING:
    import pyarrow as pa

PART = re.compile(r"part-(\d+)\.")
WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "hf", "memory"}    # show a file once it is whole
RUN, PLAN = "_run/run.json", "_run/plan.parquet"              # readers of data sets pass over names with a _


class Output:
    """A folder that holds the rows of one task: part-000000.parquet and so on, and what is needed to go on with it."""

    def __init__(self, address: str, kind: str, task: Task) -> None:
        self.folder = Folder(address)
        self.kind = choose("format", kind, FORMATS)
        self.about = {"model": task.sha256, "reject": task.reject, "format": kind}
        self.claim()

    def claim(self) -> None:
        """Take the folder for this task, or raise an InputError that says of which other task its rows are."""
        if not self.folder.has(RUN):
            if self.numbers():
                raise InputError(f"{self.folder.name!r} holds parts that no run here knows: choose an empty folder")
            self.folder.write(RUN, json.dumps(self.about, indent=1).encode())
            return
        run = parse_json(self.folder.read(RUN).decode(errors="replace"), repr(f"{self.folder.name}/{RUN}"))
        for key, value in self.about.items():
            if run.get(key) != value:
                raise InputError(f"{self.folder.name!r} holds rows of another run: its {key} is {short(run.get(key))}"
                                 f", not {short(value)}; choose another folder")

    def plan(self) -> Plan:
        """The plan of an earlier run into this folder, or an empty one."""
        return Plan.from_bytes(self.folder.read(PLAN)) if self.folder.has(PLAN) else Plan()

    def keep(self, plan: Plan) -> None:
        """Remember the plan, so that a later run knows which part holds what."""
        self.folder.write(PLAN, plan.to_bytes())

    def numbers(self) -> set[int]:
        """The parts that are there."""
        return {int(match[1]) for match in map(PART.match, self.folder.names()) if match}

    def write(self, number: int, table: "pa.Table") -> None:
        """Write a part; the same one again is equal to the byte."""
        self.folder.write(f"part-{number:06}.{self.kind}", encoded(table, self.kind))


class Folder:
    """Files in a folder of this machine, or at an address."""

    def __init__(self, address: str) -> None:
        self.name = public(address)
        self.store: Any = None
        self.path: Any = Path(address)
        if is_remote(address):
            self.store, self.path = filesystem(address)
        elif self.path.exists() and not self.path.is_dir():
            raise InputError(f"{address!r} is a file; name a folder for the parts")
        else:
            remove_drafts(self.path)

    def at(self, name: str) -> Any:
        """Where a file of this name is."""
        return self.path / name if self.store is None else f"{self.path.rstrip('/')}/{name}"

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        there: bool = self.at(name).exists() if self.store is None else self.store.exists(self.at(name))
        return there

    def names(self) -> Iterator[str]:
        """The names of the files in the folder."""
        if self.store is None:
            yield from os.listdir(self.path) if self.path.is_dir() else ()
        elif self.store.exists(self.path):
            self.store.invalidate_cache()
            yield from (name.rpartition("/")[2] for name in self.store.ls(self.path, detail=False))

    def read(self, name: str) -> bytes:
        """The content of a file."""
        path = self.at(name)
        content: bytes = (path.read_bytes() if self.store is None else
                          patiently(lambda: self.store.cat_file(path), f"{self.name}/{name}"))
        return content

    def write(self, name: str, content: bytes) -> None:
        """Put a file there; object stores show one only when all of it has arrived."""
        try:
            if self.store is None:
                write_file(self.at(name), content)
            else:
                put(self.store, self.at(name), content)
        except InputError as error:
            raise InputError(f"{error}; the same command goes on where it stopped") from None
        except Exception as error:                            # every store has its own errors
            raise InputError(f"cannot write {name!r} to {self.name!r}: {harmless(error)}; the same command goes on "
                             "where it stopped") from None


def join(folder: Path, path: Path) -> None:
    """Put the rows of all Parquet parts in a folder into one file, a part in memory at a time."""
    import pyarrow.parquet as pq

    beside = draft_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(beside, schema(), compression="zstd") as writer:
            for part in sorted(folder.glob("part-*.parquet")):
                writer.write_table(pq.read_table(part, partitioning=None))
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}; its parts are in {str(folder)!r}"
                         ) from None
    finally:
        beside.unlink(missing_ok=True)


def put(store: Any, path: str, content: bytes) -> None:
    """Write a file of a store so that nobody sees a part of it."""
    store.makedirs(path.rpartition("/")[0], exist_ok=True)
    protocols = {store.protocol} if isinstance(store.protocol, str) else set(store.protocol)
    if protocols & WHOLE:
        store.pipe_file(path, content)
        return
    folder, _, name = path.rpartition("/")
    store.pipe_file(f"{folder}/.{name}.part", content)
    store.mv(f"{folder}/.{name}.part", path)


def short(value: object) -> str:
    """A value for a message; a checksum by its beginning."""
    return str(value)[:12] if isinstance(value, str) else str(value)
