"""A store by its place: a folder with an SQLite database, or PostgreSQL with files anywhere."""

import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from fastapi import HTTPException

from ...errors import InputError
from ..limits import Limits
from .classifiers import Classifiers
from .database import as_dict, connect, writing
from .files import Files
from .records import Caller, Classifier, Revision
from .tables import audit
from .tokens import Tokens

DATABASE = "store.sqlite"


class Store:
    """The database and the files of a service."""

    def __init__(self, place: str | None = None, files: str | None = None, limits: Limits | None = None) -> None:
        """`place`: a folder or postgresql://...; None: a folder that is removed at the end. `files`: where else."""
        self.lasting = place is not None
        self.temporary: Any = None
        if place is None or "://" in place:
            self.temporary = tempfile.TemporaryDirectory(prefix="dmn4-", ignore_cleanup_errors=True)
            folder = Path(self.temporary.name)
        else:
            folder = made_folder(Path(place))
        if place is not None and "://" in place:
            if files is None:
                raise InputError("with a database elsewhere the files need a place that every replica reaches: "
                                 "give --files, a folder or a URL such as s3://bucket/dmn4")
            self.engine = connect(place.replace("postgresql://", "postgresql+psycopg://", 1))
        else:
            self.engine = connect(f"sqlite:///{folder / DATABASE}")
        self.files = Files(folder, files)
        self.classifiers, self.tokens = Classifiers(self.engine, limits or Limits()), Tokens(self.engine)

    def publish(self, known: Classifier, base: int, file: str, summary: dict[str, Any], caller: Caller,
                what: str) -> Revision | None:
        """Make the draft of `file` the head of a classifier, on disk; None if another change came before it."""
        published = None
        try:
            self.files.keep(file)
            published, dropped = self.classifiers.commit(known.id, base, file, summary, caller.token, what)
        finally:
            if published is None:
                self.files.discard(file)
        for name in dropped:
            self.files.remove(name)
        self.note(what, caller, known.id)
        return published

    def restore(self, known: Classifier, number: int, caller: Caller) -> Revision:
        """Go back to a revision: it becomes the newest one."""
        while True:
            kept = self.classifiers.revisions(known.id)
            old = next((revision for revision in kept if revision.number == number), None)
            if old is None:
                newest = kept[0].number if kept else 0
                raise HTTPException(404, f"there is no revision {number}; the newest is {newest}")
            summary = {name: getattr(old, name) for name in ("sha256", "bytes", "pictures", "classes")}
            what = f"went back to revision {number}"
            revision, dropped = self.classifiers.commit(known.id, kept[0].number, old.file, summary, caller.token, what)
            if revision is not None:
                for name in dropped:
                    self.files.remove(name)
                self.note(what, caller, known.id)
                return revision

    def delete(self, known: Classifier, caller: Caller | None = None) -> None:
        """Forget a classifier and remove its files."""
        for name in self.classifiers.delete(known.id):
            self.files.remove(name)
        if caller is not None:
            self.note("deleted", caller, known.id)

    def note(self, what: str, caller: Caller, classifier: str | None = None) -> None:
        """Add a line to the audit log."""
        with writing(self.engine) as connection:
            connection.execute(audit.insert().values(
                time=time.time(), what=what, classifier=classifier, who=caller.name, address=caller.address,
                request=caller.request))

    def log(self, most: int = 1000) -> list[dict[str, Any]]:
        """The newest lines of the audit log, the last first."""
        with self.engine.connect() as connection:
            rows = connection.execute(audit.select().order_by(audit.c.id.desc()).limit(most))
            return [as_dict(row) for row in rows]

    def alive(self) -> bool:
        """Whether the database answers and files can be written."""
        try:
            with self.engine.connect() as connection:
                connection.execute(sa.text("SELECT 1"))
            probe = self.files.scratch / ".alive"
            probe.touch()
            return True
        except (sa.exc.SQLAlchemyError, OSError):
            return False

    def close(self) -> None:
        """Let go of the database; a temporary store is removed."""
        self.engine.dispose()
        if self.temporary is not None:
            with suppress(OSError):
                self.temporary.cleanup()


def made_folder(folder: Path) -> Path:
    """The folder of a store, made if it is not there; nobody else on this machine may look into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"cannot keep a store at {str(folder)!r}: {error.strerror}") from None
    if not (folder / DATABASE).exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is neither a store nor empty: name a folder of its own")
    return folder.resolve()
