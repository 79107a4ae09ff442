"""Predictions as rows, unreadable pictures among them: streamed, written as CSV or JSON, sorted into folders."""

import csv
import io
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import write_file
from ..images import Source, describe_source
from ..images.looks import batches, read_pixels

if TYPE_CHECKING:
    from .plain import PlainClassifier

UNKNOWN = "unknown"                                           # what a table calls "none of these"
COLUMNS = ("image", "label", "probability", "known", "error")
SAVE_EVERY = 30.0                                             # seconds between two states of a growing table


@dataclass(frozen=True)
class Prediction:
    """What is said of one picture, or why it could not be read."""

    image: Source
    label: Any = None                                         # None: none of the classes, or not readable
    probability: float = float("nan")                         # of the most probable class
    known: float = float("nan")                               # probability that it is one of the classes at all
    probabilities: dict[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def name(self) -> str:
        """The path of the picture."""
        return str(self.image) if isinstance(self.image, str | Path) else describe_source(self.image)

    @property
    def row(self) -> dict[str, str]:
        """This prediction as a line of a table."""
        label = "" if self.error else UNKNOWN if self.label is None else str(self.label)
        numbers = ["" if number != number else f"{number:.4f}" for number in (self.probability, self.known)]
        return dict(zip(COLUMNS, (self.name, label, *numbers, self.error), strict=True))

    @property
    def line(self) -> str:
        """This prediction as a line of text: picture, label, probability or error, with tabs between them."""
        row = self.row
        return f"{self.name}\t" + (f"error: {self.error}" if self.error else f"{row['label']}\t{row['probability']}")

    @property
    def as_dict(self) -> dict[str, Any]:
        """This prediction as JSON holds it."""
        numbers = {name: None if value != value else value for name, value in
                   (("probability", self.probability), ("known", self.known))}
        label = self.label if self.label is None or isinstance(self.label, int | float) else str(self.label)
        return {"image": self.name, "label": label, **numbers, "probabilities": self.probabilities, "error": self.error}


def predict_each(classifier: "PlainClassifier", images: Iterable[Source], reject: bool = False,
                 batch_size: int | None = None) -> Iterator[Prediction]:
    """A row for every picture, in order, while no more than a batch is in memory; an unreadable one is its error."""
    for batch in batches(images, batch_size or classifier.batch_size):
        with ThreadPoolExecutor(max_workers=4) as readers:
            found = list(readers.map(lambda source: pixels_or_error(classifier, source), batch))
        readable = [pixels for pixels in found if isinstance(pixels, Tensor)]
        judged = iter(judge(classifier, torch.cat(readable), reject) if readable else [])
        for source, pixels in zip(batch, found, strict=True):
            yield Prediction(source, error=pixels) if isinstance(pixels, str) else Prediction(source, **next(judged))


def pixels_or_error(classifier: "PlainClassifier", source: Source) -> Tensor | str:
    """A picture as the classifier reads it (1, h, w, 3), or why it cannot be read."""
    try:
        return read_pixels([source], classifier.parts_.transform)
    except InputError as error:
        return str(error)


def judge(classifier: "PlainClassifier", pixels: Tensor, reject: bool) -> list[dict[str, Any]]:
    """What is said of each of a few pictures, as fields of a Prediction: bytes (B, h, w, 3)."""
    judged = classifier.judge(pixels)
    classes, names = classifier.classes_.tolist(), [str(name) for name in classifier.classes_]
    said = []
    columns = judged.probabilities.tolist(), judged.known.tolist(), judged.none_of_these.tolist()
    for probabilities, known, is_none in zip(*columns, strict=True):
        best = max(range(len(classes)), key=probabilities.__getitem__)
        said.append({"label": None if reject and is_none else classes[best], "probability": probabilities[best],
                     "known": known, "probabilities": dict(zip(names, probabilities, strict=True))})
    return said


# ------------------------------------------------------------------------------------------------------ in and out

class Table:
    """Rows of predictions, kept in a CSV file if one is named: replaced as a whole every half minute and at the end.

    With `resume` the rows that the file holds already are kept, and `done` tells which pictures they are of.
    """

    def __init__(self, path: Path | None = None, resume: bool = False) -> None:
        if resume and path is None:
            raise InputError("--resume goes on with the table of --csv FILE: name it")
        self.path, self.saved = path, time.monotonic()
        self.rows = read_csv(path) if path is not None and resume else []
        self.done = {row["image"] for row in self.rows}
        self.errors = self.count = 0
        self.first_error = ""

    def add(self, prediction: Prediction) -> None:
        """Take one more row; the picture itself is not kept."""
        self.rows.append(prediction.row)
        self.count += 1
        self.errors += bool(prediction.error)
        self.first_error = self.first_error or prediction.error
        if time.monotonic() - self.saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is not None:
            out = io.StringIO()
            writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
            write_file(self.path, out.getvalue())
        self.saved = time.monotonic()


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a table of predictions; none if there is no such file."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise InputError(f"{str(path)!r} is not a table of predictions: its first line is {reader.fieldnames}")
    return rows
