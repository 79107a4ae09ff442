"""What the service answers about pictures, as its OpenAPI description shows it: verdicts, evidence, doubts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from ..classify.suspects import Suspect as Found
    from ..classify.verdict import Judgement, Verdict

Rule = Literal["dn4", "mn4", "dmn4"]
RULES = ("dn4", "mn4", "dmn4")                                # what the page can show, and a model file may name


class Prediction(BaseModel):
    """What is said of a picture. `label` is the most probable class even if `none_of_these` holds.

    `line`, `words`, `chance` and `others` are the verdict as everything in the package writes it.
    """

    label: str
    none_of_these: bool
    probability: Annotated[float, Field(description="of `label`, given that it is one of the classes")]
    known: Annotated[float | None, Field(description="share of known pictures that fit no better; null: unknown")]
    probabilities: dict[str, float]
    scores: Annotated[dict[str, float], Field(description="phi(x, c) of the method")]
    perhaps: Annotated[list[str], Field(description="the classes that hold its own nine times in ten, the most "
                                                    "probable first; all, if too few pictures were held out to know")]
    doubtful: Annotated[bool, Field(description="worth a look: none of these, or less than nine in ten sure")]
    line: Annotated[str, Field(description="'wren (87 %)' or 'none of these (nearest: wren, 41 %)'")]
    words: Annotated[str, Field(description="the label, or 'none of these'")]
    chance: Annotated[str, Field(description="'87 %' or 'nearest: wren, 41 %'")]
    others: Annotated[str, Field(description="'or perhaps lemon, orange', or nothing")]
    percents: Annotated[dict[str, str], Field(description="the probabilities in words")]


class Suspect(BaseModel):
    """A picture learnt from that the others would name differently; pictures by number."""

    picture: int
    label: Annotated[str, Field(description="as it was taught")]
    looks_like: Annotated[str, Field(description="what the others would name it")]
    probability: Annotated[float, Field(description="of that name")]
    percent: Annotated[str, Field(description="the same in words")]
    nearest_there: Annotated[int, Field(description="the most similar picture of the class it looks like")]
    nearest_here: Annotated[int, Field(description="the most similar one of its own class")]


class Accuracy(BaseModel):
    """How often new pictures are named rightly, with so many labelled pictures of a class; a 95 % interval."""

    shots: float
    accuracy: float
    low: float
    high: float
    words: Annotated[str, Field(description="'87 % (80 to 92)'")]


class TakenFor(BaseModel):
    """Another name that pictures of a class were given."""

    label: str
    pictures: int


class ClassAccuracy(BaseModel):
    """How well a class is told from the others, now and with twice as many labelled pictures."""

    label: str
    shots: Annotated[int, Field(description="labelled pictures")]
    judged: Annotated[int, Field(description="of them were judged by the others")]
    now: Accuracy
    twice: Accuracy
    confused: Annotated[str, Field(description="what its pictures were taken for: 'lemon (2), plum'")]
    taken_for: list[TakenFor]


class Curve(BaseModel):
    """Have I labelled enough? From labelled pictures that the others judged."""

    judged: int
    enough: Annotated[bool, Field(description="twice as many labelled pictures would add less than one point")]
    advice: str
    next: Annotated[str, Field(description="what to label next; empty: nothing in particular")]
    measured: Annotated[list[Accuracy], Field(description="with fewer labelled pictures")]
    expected: Annotated[list[Accuracy], Field(description="now, with twice and with four times as many")]
    classes: Annotated[list[ClassAccuracy], Field(description="that have several pictures, the worst first")]


class Partner(BaseModel):
    """The support descriptor that a place of the query chose."""

    model_config = ConfigDict(populate_by_name=True)
    label: Annotated[int, Field(alias="class")]
    image: Annotated[int, Field(description="number of the picture")]
    place: Annotated[int, Field(description="row of `support_boxes`")]
    cosine: float


class Descriptor(BaseModel):
    """A place of the query: where it is (left, top, right, bottom as shares), whether it counts, and for whom."""

    box: list[float]
    kept: bool
    tau: Annotated[float, Field(description="the lead of the nearest class over the next")]
    votes: Annotated[list[float], Field(description="what it gives to each class, if it counts")]
    partner: Partner


class Rules(BaseModel):
    """What a rule keeps, the class sums it comes to, and its verdict."""

    kept: list[int]
    scores: list[float]
    verdict: str


class Explanation(BaseModel):
    """Why: what was kept of the picture, what it matched, how it voted."""

    model_config = ConfigDict(extra="allow")
    method: str
    rule: str
    classes: list[str]
    verdict: str
    dn4_verdict: str
    scores: list[float]
    scores_before: list[float]
    rules: dict[str, Rules]
    grid: list[int]
    support_labels: list[int]
    support_boxes: list[list[float]]
    descriptors: list[Descriptor]
    prediction: Annotated[Prediction, Field(description="the verdict, as a prediction alone would say it")]


def as_prediction(classes: list[str], judged: "Judgement", said: "Verdict") -> Prediction:
    """A judgement of one picture, and the verdict on it, as they are shown."""
    from ..classify.verdict import percent  # with torch, which the service itself does without

    chances = judged.probabilities[0].tolist()
    return Prediction(label=said.nearest, none_of_these=said.label is None, probability=said.probability,
                      known=None if said.known != said.known else said.known,
                      probabilities=named(classes, chances), scores=named(classes, judged.scores[0].tolist()),
                      perhaps=list(said.perhaps), doubtful=said.doubtful, line=said.line, words=said.words,
                      chance=said.chance, others=said.others, percents=named(classes, map(percent, chances)))


def as_suspect(found: "Found") -> Suspect:
    """A suspect as it is shown."""
    from ..classify.verdict import percent

    return Suspect(picture=found.picture, label=found.label, looks_like=found.looks_like,
                   probability=found.probability, percent=percent(found.probability),
                   nearest_there=found.nearest_there, nearest_here=found.nearest_here)


def named(classes: list[str], values: Iterable[Any]) -> dict[str, Any]:
    """Values by class."""
    return dict(zip(classes, values, strict=True))
