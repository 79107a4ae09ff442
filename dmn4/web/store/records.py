"""Rows of the store as the rest of the service sees them."""

import time
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

SILENT = 30.0                                                 # seconds after which who taught is taken for gone


class Access(IntEnum):
    """What a token may do with a classifier; each includes those before it."""

    NONE = 0
    READ = 1
    TEACH = 2
    OWN = 3


@dataclass(frozen=True)
class Token:
    """Who may use the service, and how much of it; quotas that are None are those of the service."""

    id: str
    name: str
    admin: bool
    made: float = 0.0
    revoked: float | None = None
    classifiers: int | None = None
    pictures: int | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Caller:
    """Who makes a request, from where, and which one it is."""

    token: Token | None = None                                # None: nobody has to say who they are
    address: str = ""
    request: str = ""

    @property
    def name(self) -> str | None:
        """The name of the token."""
        return self.token.name if self.token else None

    @property
    def admin(self) -> bool:
        """Whether it may look after the service: who runs it for themselves may, and an admin's token."""
        return self.token is None or self.token.admin


@dataclass(frozen=True)
class Revision:
    """A classifier as it was after a change, and the file that holds it."""

    number: int
    file: str
    sha256: str
    bytes: int
    pictures: int
    classes: list[Any]                                        # (label, numbers of its pictures)
    made: float
    who: str | None
    what: str

    @property
    def labels(self) -> list[str]:
        """The names of the classes."""
        return [label for label, _ in self.classes]


@dataclass(frozen=True)
class Classifier:
    """A classifier: who owns it, how far its learning is, and the revision that answers, if there is one."""

    id: str
    owner: str | None = None
    head: int = 0
    done: int = 0
    total: int = 0
    error: str | None = None
    seen: float = field(default_factory=time.time)
    changed: float = field(default_factory=time.time)
    revision: Revision | None = None
    access: Access = Access.OWN
    hosted: bool = False                                      # it came with the service and stays as it is

    @property
    def problem(self) -> str | None:
        """Why learning failed, also where the service that taught it is gone."""
        if self.error is None and self.revision is None and time.time() - self.seen > SILENT:
            return "the service ended while it learnt this classifier; delete it and teach it again"
        return self.error

    @property
    def state(self) -> Literal["learning", "ready", "failed"]:
        """learning, ready or failed; what is ready is on disk."""
        return "ready" if self.revision else "failed" if self.problem else "learning"
