"""Classifiers and their revisions in the database. A change is a new revision; the files are written before it."""

import secrets
import time
from typing import Any

import sqlalchemy as sa
from fastapi import HTTPException
from sqlalchemy.engine import Connection, Engine

from ..limits import Limits
from .database import as_dict, writing
from .records import Access, Classifier, Revision, Token
from .tables import classifiers, revisions, shares, tokens
from .tokens import named

HEAD = (revisions.c.classifier == classifiers.c.id) & (revisions.c.number == classifiers.c.head)
COLUMNS = [column.label(f"r_{column.name}") for column in revisions.c if column.name != "classifier"]


class Classifiers:
    """The classifiers of a store, as one token (None: nobody in particular) sees them."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine, self.limits = engine, limits

    def find(self, identity: str, who: Token | None) -> Classifier | None:
        """A classifier with its head, if the token may see it."""
        with self.engine.connect() as connection:
            row = connection.execute(seen_by(who).where(classifiers.c.id == identity)).first()
        classifier = None if row is None else as_classifier(row, who)
        return classifier if classifier is not None and classifier.access else None

    def all(self, who: Token | None) -> list[Classifier]:
        """All that the token may see, the last changed first."""
        with self.engine.connect() as connection:
            rows = connection.execute(seen_by(who).order_by(classifiers.c.changed.desc())).all()
        return [classifier for classifier in (as_classifier(row, who) for row in rows) if classifier.access]

    def count(self) -> int:
        """How many there are, whoever owns them."""
        with self.engine.connect() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(classifiers)).scalar_one()

    def create(self, who: Token | None, total: int) -> Classifier:
        """A classifier that has learnt nothing yet."""
        row: dict[str, Any] = {"id": secrets.token_hex(8), "owner": who.id if who else None, "head": 0, "done": 0,
                               "total": total, "seen": time.time(), "changed": time.time()}
        with writing(self.engine) as connection:
            lock_owner(connection, who)
            count = connection.execute(sa.select(sa.func.count()).select_from(classifiers)
                                       .where(classifiers.c.owner == row["owner"])).scalar_one()
            most = self.limits.classifiers if who is None or who.classifiers is None else who.classifiers
            if who is not None and count >= most:
                raise HTTPException(413, f"you have {count} classifiers; {most} are the most")
            connection.execute(classifiers.insert().values(**row))
        return Classifier(**row)

    def commit(self, identity: str, base: int, file: str, summary: dict[str, Any], who: Token | None,
               what: str) -> tuple[Revision | None, list[str]]:
        """The new head of a classifier, and files that nobody needs any more.

        None if somebody else changed it since revision `base`: then nothing is written. A 404 if it was deleted.
        """
        revision = Revision(number=base + 1, file=file, made=time.time(), who=who.name if who else None, what=what,
                            **summary)
        with writing(self.engine) as connection:
            owner = connection.execute(sa.select(classifiers.c.owner, classifiers.c.head)
                                       .where(classifiers.c.id == identity).with_for_update()).first()
            if owner is None:
                raise HTTPException(404, "the classifier was deleted while it learnt")
            if owner.head != base:
                return None, []
            connection.execute(revisions.insert().values(classifier=identity, **vars(revision)))
            connection.execute(classifiers.update().where(classifiers.c.id == identity).values(
                head=base + 1, error=None, done=summary["pictures"], total=summary["pictures"], changed=revision.made))
            dropped = prune(connection, identity, base + 1 - self.limits.revisions)
            self.check_quota(connection, owner.owner)
        return revision, dropped

    def check_quota(self, connection: Connection, owner: str | None) -> None:
        """Refuse a change after which a token would keep more than it may."""
        row = connection.execute(tokens.select().where(tokens.c.id == owner).with_for_update()).first()
        if row is None:
            return
        kept = classifiers.join(revisions, revisions.c.classifier == classifiers.c.id)
        size = sa.select(sa.func.coalesce(sa.func.sum(revisions.c.bytes), 0)).select_from(kept)
        heads = classifiers.join(revisions, HEAD)
        held = sa.select(sa.func.coalesce(sa.func.sum(revisions.c.pictures), 0)).select_from(heads)
        for query, quota, usual, unit in ((size, row.bytes, self.limits.owner_bytes, "bytes"),
                                          (held, row.pictures, self.limits.owner_pictures, "pictures")):
            used = connection.execute(query.where(classifiers.c.owner == owner)).scalar_one()
            most = usual if quota is None else quota
            if used > most:
                raise HTTPException(413, f"its owner would keep {used:,} {unit}; {most:,} are the most")

    def progress(self, identity: str, done: int) -> None:
        """Note how far learning is, and that somebody is at it."""
        with writing(self.engine) as connection:
            connection.execute(classifiers.update().where(classifiers.c.id == identity, classifiers.c.head == 0)
                               .values(done=done, seen=time.time()))

    def fail(self, identity: str, error: str) -> None:
        """Keep why learning failed, for the next who asks."""
        with writing(self.engine) as connection:
            connection.execute(classifiers.update().where(classifiers.c.id == identity).values(error=error))

    def delete(self, identity: str) -> list[str]:
        """Forget a classifier with all its revisions; the files that nobody needs any more."""
        with writing(self.engine) as connection:
            names = connection.execute(sa.select(revisions.c.file).where(revisions.c.classifier == identity)).scalars()
            files = list(dict.fromkeys(names))
            for table in (shares, revisions):
                connection.execute(table.delete().where(table.c.classifier == identity))
            connection.execute(classifiers.delete().where(classifiers.c.id == identity))
        return files

    # --------------------------------------------------------------------------------------------------- revisions

    def revisions(self, identity: str) -> list[Revision]:
        """All revisions that are kept, the newest first."""
        query = revisions.select().where(revisions.c.classifier == identity).order_by(revisions.c.number.desc())
        with self.engine.connect() as connection:
            return [as_revision(as_dict(row)) for row in connection.execute(query)]

    # ------------------------------------------------------------------------------------------------------ sharing

    def share(self, identity: str, name: str, teach: bool | None) -> None:
        """Let the token of this name see a classifier, or teach it as well; None takes both back."""
        with writing(self.engine) as connection:
            token = named(connection, name)
            if token is None:
                raise HTTPException(404, "there is no token of that name")
            connection.execute(shares.delete().where(shares.c.classifier == identity, shares.c.token == token.id))
            if teach is not None:
                connection.execute(shares.insert().values(classifier=identity, token=token.id, teach=teach))

    def shared_with(self, identity: str) -> list[tuple[str, bool]]:
        """Names of tokens, and whether they may teach."""
        query = (sa.select(tokens.c.name, shares.c.teach).join_from(shares, tokens)
                 .where(shares.c.classifier == identity).order_by(tokens.c.name))
        with self.engine.connect() as connection:
            return [(row.name, row.teach) for row in connection.execute(query)]


def seen_by(who: Token | None) -> sa.Select[Any]:
    """Classifiers with their heads, and what was shared with a token."""
    mine = (shares.c.classifier == classifiers.c.id) & (shares.c.token == (who.id if who else ""))
    query = (sa.select(*classifiers.c, *COLUMNS, shares.c.teach)
             .select_from(classifiers.outerjoin(revisions, HEAD).outerjoin(shares, mine)))
    if who is not None and who.admin:
        return query
    return query.where((classifiers.c.owner == who.id) | shares.c.teach.is_not(None) if who
                       else classifiers.c.owner.is_(None))


def as_classifier(row: Any, who: Token | None) -> Classifier:
    """A row of `seen_by` as it is used."""
    values = as_dict(row)
    teach = values.pop("teach")
    head = {name.removeprefix("r_"): values.pop(name) for name in list(values) if name.startswith("r_")}
    is_owner = values["owner"] == (who.id if who else None) or bool(who and who.admin)
    access = Access.OWN if is_owner else Access.NONE if teach is None else Access.TEACH if teach else Access.READ
    return Classifier(**values, access=access, revision=None if head["number"] is None else as_revision(head))


def as_revision(values: dict[str, Any]) -> Revision:
    """A row of the table as it is used."""
    return Revision(**{name: value for name, value in values.items() if name != "classifier"})


def prune(connection: Connection, identity: str, last: int) -> list[str]:
    """Forget the revisions up to `last`; the files that no other revision needs."""
    old = (revisions.c.classifier == identity) & (revisions.c.number <= last)
    files = set(connection.execute(sa.select(revisions.c.file).where(old)).scalars())
    connection.execute(revisions.delete().where(old))
    query = sa.select(revisions.c.file).where(revisions.c.classifier == identity)
    return sorted(files - set(connection.execute(query).scalars()))


def lock_owner(connection: Connection, who: Token | None) -> None:
    """Have the changes of one owner wait for each other, so that none slips past a quota."""
    if who is not None:
        connection.execute(sa.select(tokens.c.id).where(tokens.c.id == who.id).with_for_update())

