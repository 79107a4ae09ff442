"""The first form of the store."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("made", sa.Float, nullable=False),
        sa.Column("revoked", sa.Float),
        sa.Column("classifiers", sa.Integer),
        sa.Column("pictures", sa.Integer),
        sa.Column("bytes", sa.BigInteger),
        sa.UniqueConstraint("name", name="uq_tokens_name"))
    op.create_table(
        "classifiers",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("owner", sa.String(16), sa.ForeignKey("tokens.id", name="fk_classifiers_owner")),
        sa.Column("head", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("seen", sa.Float, nullable=False),
        sa.Column("changed", sa.Float, nullable=False))
    op.create_index("ix_classifiers_owner", "classifiers", ["owner"])
    classifier = sa.ForeignKey("classifiers.id", ondelete="CASCADE")
    op.create_table(
        "revisions",
        sa.Column("classifier", sa.String(32), classifier, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("file", sa.String(120), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("pictures", sa.Integer, nullable=False),
        sa.Column("classes", sa.JSON, nullable=False),
        sa.Column("made", sa.Float, nullable=False),
        sa.Column("who", sa.String(60)),
        sa.Column("what", sa.Text, nullable=False))
    op.create_table(
        "shares",
        sa.Column("classifier", sa.String(32), sa.ForeignKey("classifiers.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("token", sa.String(16), sa.ForeignKey("tokens.id"), primary_key=True),
        sa.Column("teach", sa.Boolean, nullable=False))
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("time", sa.Float, nullable=False),
        sa.Column("who", sa.String(60)),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("classifier", sa.String(32)),
        sa.Column("address", sa.String(60)),
        sa.Column("request", sa.String(64)))


def downgrade() -> None:
    """Drop the tables."""
    for table in ("audit", "shares", "revisions", "classifiers", "tokens"):
        op.drop_table(table)
