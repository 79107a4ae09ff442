"""Who may use the service: tokens that are shown once and stored as hashes."""

import hashlib
import hmac
import re
import secrets
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ...errors import InputError
from .database import as_dict, writing
from .records import Token
from .tables import tokens

FORM = re.compile(r"dmn4_([0-9a-f]{12})_([\w-]{43})", re.ASCII)
NAME = re.compile(r"[\w.@-]{1,60}")
NOBODY = "0" * 64                                             # what the secret of an unknown token is compared with


class Tokens:
    """The tokens of a store."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def add(self, name: str, admin: bool = False, **quotas: int | None) -> str:
        """A new token, as its owner has to keep it: it cannot be shown again."""
        if not NAME.fullmatch(name):
            raise InputError(f"the name of a token is 1 to 60 letters, digits and . @ _ -, not {ascii(name)[:60]}")
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        row: dict[str, Any] = {"id": identity, "name": name, "digest": digest(secret), "admin": admin,
                               "made": time.time(), **quotas}
        try:
            with writing(self.engine) as connection:
                connection.execute(tokens.insert().values(**row))
        except sa.exc.IntegrityError:
            raise InputError(f"there is a token {name!r} already (`dmn4 token list`); choose another name") from None
        return f"dmn4_{identity}_{secret}"

    def all(self) -> list[Token]:
        """All tokens, the oldest first; revoked ones as well, whose names stay taken."""
        with self.engine.connect() as connection:
            return [as_token(row) for row in connection.execute(tokens.select().order_by(tokens.c.made))]

    def revoke(self, name: str) -> None:
        """From the next request on, a token is worth nothing."""
        change = tokens.update().where(tokens.c.name == name, tokens.c.revoked.is_(None)).values(revoked=time.time())
        with writing(self.engine) as connection:
            if not connection.execute(change).rowcount:
                raise InputError(f"there is no token {name!r} to revoke; `dmn4 token list` shows them")

    def owner_of(self, text: str) -> Token | None:
        """Whose token this is; None if it is nobody's, or was revoked."""
        form = FORM.fullmatch(text)
        if form is None:
            return None
        with self.engine.connect() as connection:
            row = connection.execute(tokens.select().where(tokens.c.id == form[1])).first()
        known = hmac.compare_digest(digest(form[2]), NOBODY if row is None else row.digest)
        return as_token(row) if known and row is not None and row.revoked is None else None

    def exist(self) -> bool:
        """Whether there ever was a token: then the service stays closed, even after the last was revoked."""
        with self.engine.connect() as connection:
            return connection.execute(sa.select(tokens.c.id).limit(1)).first() is not None


def named(connection: Connection, name: str) -> Token | None:
    """The token of this name, unless it was revoked."""
    row = connection.execute(tokens.select().where(tokens.c.name == name, tokens.c.revoked.is_(None))).first()
    return None if row is None else as_token(row)


def digest(secret: str) -> str:
    """The hash that is stored. The secret is random and long, so it needs neither salt nor slowness."""
    return hashlib.sha256(secret.encode()).hexdigest()


def as_token(row: Any) -> Token:
    """A row of the table as it is used; without its hash."""
    return Token(**{name: value for name, value in as_dict(row).items() if name != "digest"})
