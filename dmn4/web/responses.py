"""What the service answers about itself and its classifiers, as its OpenAPI description shows it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from .store import Access, Classifier, Revision


class Problem(BaseModel):
    """Every error: one line that says what was found and what to do."""

    error: str


class About(BaseModel):
    """The service: its version, its backbone, what it accepts, what examples it can load and what it came with."""

    version: str
    backbone: str
    rules: list[str]
    limits: dict[str, float]
    samples: list[str]
    hosted: Annotated[list[str], Field(description="ids of the classifiers that came with the service")]
    token: Annotated[str | None, Field(description="the name of the token that asks; null: none is needed here")]
    lasting: Annotated[bool, Field(description="whether classifiers outlive the service")]


class Session(BaseModel):
    """Who is asking."""

    token: Annotated[str | None, Field(description="the name of the token; null: none is needed here")]
    admin: bool


class KnownClass(BaseModel):
    """A class and the numbers of its pictures."""

    label: str
    pictures: list[int]


class ClassifierState(BaseModel):
    """A classifier and how far its learning is. Picture numbers hold for one `revision`."""

    id: str
    state: Literal["learning", "ready", "failed"]
    done: Annotated[int, Field(description="pictures looked at")]
    total: Annotated[int, Field(description="pictures to look at")]
    error: Annotated[str | None, Field(description="why learning failed")]
    revision: int
    access: Annotated[Literal["read", "teach", "own"], Field(description="what the token that asks may do")]
    classes: list[KnownClass]


class Change(BaseModel):
    """A revision of a classifier that can be gone back to."""

    revision: int
    time: float
    who: Annotated[str | None, Field(description="the name of a token")]
    what: str
    pictures: int
    classes: int
    bytes: int


class Share(BaseModel):
    """A token that may use a classifier of another."""

    token: str
    may: Literal["read", "teach"]


class Event(BaseModel):
    """A line of the audit log."""

    id: int
    time: float
    who: str | None
    what: str
    classifier: str | None
    address: str | None
    request: str | None


class Health(BaseModel):
    """Whether the service is well."""

    status: str


class Question(BaseModel):
    """A photograph of a sample to ask about: where it is, and what it really shows."""

    picture: str
    answer: str


def classifier_state(known: Classifier) -> ClassifierState:
    """A classifier of the store as it is shown."""
    classes = [] if known.revision is None else [KnownClass(label=label, pictures=pictures)
                                                 for label, pictures in known.revision.classes]
    access: Any = Access.READ if known.hosted else known.access
    return ClassifierState(id=known.id, state=known.state, done=known.done, total=known.total, error=known.problem,
                           revision=known.head, access=access.name.lower(), classes=classes)


def as_change(revision: Revision) -> Change:
    """A revision as it is shown."""
    return Change(revision=revision.number, time=revision.made, who=revision.who, what=revision.what,
                  pictures=revision.pictures, classes=len(revision.classes), bytes=revision.bytes)
