"""The tables of the store. `migrations/` brings any older database to this form; a test compares the two."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(naming_convention={"uq": "uq_%(table_name)s_%(column_0_name)s",
                                       "fk": "fk_%(table_name)s_%(column_0_name)s"})

tokens = Table(
    "tokens", metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(60), nullable=False, unique=True),
    Column("digest", String(64), nullable=False),             # sha256 of the token, which is random
    Column("admin", Boolean, nullable=False),
    Column("made", Float, nullable=False),                    # seconds since 1970, as all times here
    Column("revoked", Float),
    Column("classifiers", Integer),                           # quotas; null: those of the service
    Column("pictures", Integer),
    Column("bytes", BigInteger))

classifiers = Table(
    "classifiers", metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(16), ForeignKey("tokens.id")),     # null: made while no tokens were needed
    Column("head", Integer, nullable=False),                  # the revision that answers; 0: none yet
    Column("done", Integer, nullable=False),                  # pictures looked at
    Column("total", Integer, nullable=False),
    Column("error", Text),
    Column("seen", Float, nullable=False),                    # when the service that teaches it last said so
    Column("changed", Float, nullable=False),
    Index("ix_classifiers_owner", "owner"))

revisions = Table(
    "revisions", metadata,
    Column("classifier", String(32), ForeignKey("classifiers.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("file", String(120), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("pictures", Integer, nullable=False),
    Column("classes", JSON, nullable=False),                  # [[label, [numbers of pictures]]]
    Column("made", Float, nullable=False),
    Column("who", String(60)),                                # the name of a token
    Column("what", Text, nullable=False))

shares = Table(
    "shares", metadata,
    Column("classifier", String(32), ForeignKey("classifiers.id", ondelete="CASCADE"), primary_key=True),
    Column("token", String(16), ForeignKey("tokens.id"), primary_key=True),
    Column("teach", Boolean, nullable=False))

audit = Table(
    "audit", metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("time", Float, nullable=False),
    Column("who", String(60)),
    Column("what", Text, nullable=False),
    Column("classifier", String(32)),
    Column("address", String(60)),
    Column("request", String(64)))
