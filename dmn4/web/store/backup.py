"""Backup, restore and check of a store. A backup is one zip file that any kind of store can be restored from."""

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ...errors import InputError
from ...files import draft_beside
from .database import as_dict, writing
from .files import sync_folder
from .store import Store
from .tables import metadata, revisions

FORMAT = "dmn4 store 1"
YOUNG = 3600.0                                                # seconds: a file may still wait for its revision
TRIES = 5                                                     # of a backup while the store changes
TABLES = metadata.sorted_tables                               # those that others refer to come first


@dataclass(frozen=True)
class Finding:
    """What is wrong in a store: a file, and what about it."""

    file: str
    problem: str


def backup(store: Store, out: Path) -> int:
    """Write the whole store to a zip file, as it is at one moment, while it may be in use; the number of files."""
    beside = draft_beside(out)
    try:
        for _ in range(TRIES):
            try:
                count = write_backup(store, beside)
                os.replace(beside, out)
                sync_folder(out.parent)
                return count
            except FileNotFoundError:                         # a revision was forgotten meanwhile
                continue
    except OSError as error:
        raise InputError(f"cannot write {str(out)!r}: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
    raise InputError("files of the store are missing; `dmn4 store check` names them")


def write_backup(store: Store, path: Path) -> int:
    """The tables as lines of JSON, and every file that a revision needs."""
    rows = snapshot(store)
    names = sorted({row["file"] for row in rows["revisions"]})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", json.dumps({"format": FORMAT, "time": time.time(), "files": len(names)}))
        for table, table_rows in rows.items():
            archive.writestr(f"tables/{table}.jsonl", "".join(json.dumps(row) + "\n" for row in table_rows))
        for name in names:
            archive.write(store.files.local(name), f"files/{name}")
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    return len(names)


def snapshot(store: Store) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables at one moment."""
    level = {} if store.engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with store.engine.connect().execution_options(**level) as connection:
        return {table.name: [as_dict(row) for row in connection.execute(table.select())] for table in TABLES}


def restore(path: Path, store: Store) -> int:
    """Fill an empty store from a backup, whose checksums are compared; the number of files."""
    if any(snapshot(store).values()):
        raise InputError("the store that should be restored into is not empty: name a new one")
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            if about.get("format") != FORMAT:
                raise InputError(f"{str(path)!r} is a backup of another version: {about.get('format')!r}")
            rows = {table.name: [json.loads(line) for line in archive.read(f"tables/{table.name}.jsonl").splitlines()]
                    for table in TABLES}
            for row in {row["file"]: row for row in rows["revisions"]}.values():
                restore_file(archive, row, store)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot restore from {str(path)!r}: no backup of a store, or damaged ({error})") from None
    with writing(store.engine) as connection:
        for table in TABLES:
            if rows[table.name]:
                connection.execute(table.insert(), rows[table.name])
        if store.engine.dialect.name == "postgresql":         # rows came with their numbers; new ones go on after them
            connection.execute(sa.text("SELECT setval(pg_get_serial_sequence('audit', 'id'), "
                                       "(SELECT coalesce(max(id), 1) FROM audit))"))
    return len({row["file"] for row in rows["revisions"]})


def restore_file(archive: zipfile.ZipFile, row: dict[str, Any], store: Store) -> None:
    """One file of a backup in its place."""
    parts = Path(row["file"]).parts
    if len(parts) != 2 or ".." in parts or Path(row["file"]).is_absolute():
        raise InputError(f"the backup names a file {row['file']!r} that no store would write")
    content = archive.read(f"files/{row['file']}")
    if hashlib.sha256(content).hexdigest() != row["sha256"]:
        raise InputError(f"{row['file']!r} in the backup is damaged: its checksum is another")
    draft = store.files.draft(row["file"])
    with open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    store.files.keep(row["file"])


def check(store: Store, repair: bool = False) -> Iterator[Finding]:
    """What is wrong in a store. With `repair` files that nothing refers to are removed."""
    with store.engine.connect() as connection:
        rows = [as_dict(row) for row in connection.execute(sa.select(revisions))]
    for row in rows:
        problem = problem_of(store, row)
        if problem:
            yield Finding(row["file"], f"{problem} (classifier {row['classifier']}, revision {row['number']})")
    needed, now = {row["file"] for row in rows}, time.time()
    for name in store.files.names():
        if name not in needed and store.files.age(name, now) > YOUNG:
            if repair:
                store.files.remove(name)
            yield Finding(name, "belongs to no revision" + "; removed" * repair)


def problem_of(store: Store, row: dict[str, Any]) -> str:
    """What is wrong with the file of a revision; nothing if it is whole."""
    try:
        with open(store.files.local(row["file"]), "rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "is missing"
    return "" if checksum == row["sha256"] else "is damaged: its checksum is another"
