"""What the service answers, as its OpenAPI description shows it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..classify.classifier import FewShotClassifier, Judgement
from .store import Entry

Rule = Literal["dn4", "mn4", "dmn4"]


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
    classes: list[KnownClass]


class Prediction(BaseModel):
    """What is said of a picture. `label` is the most probable class even if `none_of_these` holds."""

    label: str
    none_of_these: bool
    probability: Annotated[float, Field(description="of `label`, given that it is one of the classes")]
    known: Annotated[float | None, Field(description="probability that it is one of the classes; null: uncalibrated")]
    probabilities: dict[str, float]
    scores: Annotated[dict[str, float], Field(description="phi(x, c) of the method")]


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


class Question(BaseModel):
    """A photograph of a sample to ask about: where it is, and what it really shows."""

    picture: str
    answer: str


def classifier_state(entry: Entry) -> ClassifierState:
    """An entry of the store as it is shown."""
    classes = [] if entry.classifier is None else known_classes(entry.classifier)
    return ClassifierState(id=entry.id, state=entry.state, done=entry.done, total=entry.total, error=entry.error,
                      revision=entry.revision, classes=classes)


def known_classes(classifier: FewShotClassifier) -> list[KnownClass]:
    """Classes with the numbers of their pictures."""
    plain = classifier.shots_.rows(classifier.shots_.look == 0)
    return [KnownClass(label=label, pictures=plain.image[plain.labels == number].tolist())
            for number, label in enumerate(classifier.classes_.tolist())]


def as_prediction(classes: list[str], judged: Judgement) -> Prediction:
    """A judgement of one picture as it is shown."""
    scores, probabilities, known = judged.scores[0].tolist(), judged.probabilities[0].tolist(), float(judged.known[0])
    best = max(range(len(classes)), key=probabilities.__getitem__)
    return Prediction(label=classes[best], none_of_these=bool(judged.none_of_these[0]), probability=probabilities[best],
                      known=None if known != known else known, probabilities=named(classes, probabilities),
                      scores=named(classes, scores))


def named(classes: list[str], values: list[float]) -> dict[str, Any]:
    """Values by class."""
    return dict(zip(classes, values, strict=True))
