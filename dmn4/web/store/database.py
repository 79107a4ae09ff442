"""A connection to the database of a store, brought to the newest form: SQLite or PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from ...errors import InputError

MIGRATIONS = Path(__file__).parent / "migrations"
PATIENCE = 20                                                 # seconds that a change waits for the one before it
LOCK = 0x646D6E34                                             # "dmn4", held while the tables are brought up to date


def connect(url: str) -> Engine:
    """The database at a URL, with the tables of this version; an InputError says why it cannot be had."""
    try:
        if url.startswith("sqlite"):
            engine = sa.create_engine(url, connect_args={"timeout": PATIENCE})
            sa.event.listen(engine, "connect", prepare_sqlite)
            sa.event.listen(engine, "begin", begin_sqlite)
        else:
            engine = sa.create_engine(url, pool_pre_ping=True, pool_size=10)
        upgrade(engine)
        return engine
    except ModuleNotFoundError as error:
        raise InputError(f"this store needs {error.name}: pip install 'dmn4[store]'") from None
    except (ArgumentError, SQLAlchemyError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot open the database of the store: {reason}") from None


def prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    """Readers beside a writer, changes on disk before they count, and no transactions but those that are asked for."""
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def begin_sqlite(connection: Connection) -> None:
    """Who wants to write takes the lock at once, so that nobody writes on what has changed meanwhile."""
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("write") else "BEGIN")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that changes something."""
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        yield connection


def upgrade(engine: Engine) -> None:
    """Bring the tables to the newest form; several replicas that start at once wait for each other."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        with writing(engine) as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise InputError(f"the store was written by a newer dmn4 ({error}): pip install -U dmn4") from None


def as_dict(row: Any) -> dict[str, Any]:
    """A row by the names of its columns."""
    return dict(row._mapping)
