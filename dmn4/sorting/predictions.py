"""Predictions as rows, unreadable pictures among them: streamed, written as CSV or JSON."""

import hashlib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..classify.verdict import Verdict
from ..errors import InputError
from ..files import check_regular, write_file
from ..images import Source, describe_source
from ..images.looks import batches, read_pixels
from .cells import is_text, on_screen, read_table, table_text

if TYPE_CHECKING:
    from ..classify.plain import PlainClassifier

COLUMNS = ("image", "label", "nearest", "probability", "known", "perhaps", "error")
SAVE_EVERY = 30.0                                             # seconds between two states of a growing table


@dataclass(frozen=True)
class Prediction:
    """What is said of one picture, or why it could not be read."""

    image: Source
    verdict: Verdict | None = None                            # None: it could not be read
    probabilities: dict[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def label(self) -> Any:
        """The class, or None: none of the classes, or not readable."""
        return self.verdict and self.verdict.label

    @property
    def known(self) -> float:
        """The share of known pictures that fit no better; NaN if unknown."""
        return self.verdict.known if self.verdict else float("nan")

    @property
    def probability(self) -> float:
        """The probability of the nearest class, given that it is one of them; NaN if the picture is not readable."""
        return self.verdict.probability if self.verdict else float("nan")

    @property
    def name(self) -> str:
        """The path of the picture."""
        return str(self.image) if isinstance(self.image, str | Path) else describe_source(self.image)

    @property
    def row(self) -> dict[str, str]:
        """This prediction as a line of a table."""
        verdict = self.verdict
        texts = ("", "", "", "", "") if verdict is None else (
            verdict.words, str(verdict.nearest), number(verdict.probability), number(verdict.known),
            "; ".join(map(str, verdict.perhaps)))
        return dict(zip(COLUMNS, (self.name, *texts, self.error), strict=True))

    @property
    def line(self) -> str:
        """This prediction as a line of text: picture, label, probability or error, with tabs between them.

        Where sets were asked for, the other classes that it may be stand behind them.
        """
        verdict = self.verdict
        cells = (f"error: {self.error}",) if verdict is None else (verdict.words, verdict.chance, verdict.others)
        return "\t".join(map(on_screen, (self.name, *filter(None, cells))))

    @property
    def as_dict(self) -> dict[str, Any]:
        """This prediction as JSON holds it."""
        verdict = self.verdict
        fields = dict.fromkeys(("label", "nearest", "probability", "known")) | {"perhaps": []} if verdict is None else {
            "label": plain_label(verdict.label), "nearest": plain_label(verdict.nearest),
            "probability": verdict.probability, "known": None if verdict.known != verdict.known else verdict.known,
            "perhaps": [*map(plain_label, verdict.perhaps)]}
        return {"image": self.name, **fields, "probabilities": self.probabilities, "error": self.error}


def number(value: float) -> str:
    """A probability in a table, never written as certain; empty if it is unknown."""
    return "" if value != value else f"{min(max(value, 0.0001), 0.9999):.4f}"


def plain_label(label: Any) -> Any:
    """A label as JSON holds it."""
    return label if label is None or isinstance(label, int | float) else str(label)


def predict_each(classifier: "PlainClassifier", images: Iterable[Source], reject: bool | float = False,
                 batch_size: int | None = None, coverage: float | None = None) -> Iterator[Prediction]:
    """A row for every picture, in order, while no more than a batch is in memory; an unreadable one is its error."""
    for batch in batches(images, batch_size or classifier.batch_size):
        with ThreadPoolExecutor(max_workers=4) as readers:
            looked_at = list(readers.map(lambda source: pixels_or_error(classifier, source), batch))
        readable = [pixels for pixels in looked_at if isinstance(pixels, Tensor)]
        judged = iter(judge(classifier, torch.cat(readable), reject, coverage) if readable else [])
        for source, pixels in zip(batch, looked_at, strict=True):
            yield Prediction(source, error=pixels) if isinstance(pixels, str) else Prediction(source, **next(judged))


def pixels_or_error(classifier: "PlainClassifier", source: Source) -> Tensor | str:
    """A picture as the classifier reads it (1, h, w, 3), or why it cannot be read."""
    try:
        return read_pixels([source], classifier.parts_.transform)
    except InputError as error:
        return str(error)


def judge(classifier: "PlainClassifier", pixels: Tensor, reject: bool | float,
          coverage: float | None = None) -> list[dict[str, Any]]:
    """What is said of each of a few pictures, as fields of a Prediction: bytes (B, h, w, 3)."""
    judged, names = classifier.judge(pixels), [str(name) for name in classifier.classes_]
    return [{"verdict": verdict, "probabilities": dict(zip(names, row, strict=True))} for verdict, row in
            zip(classifier.verdicts(judged, reject, coverage), judged.probabilities.tolist(), strict=True)]


# ------------------------------------------------------------------------------------------------------- as a table

class Table:
    """Rows of predictions, kept in a CSV file if one is named: replaced as a whole every half minute and at the end.

    Each row names the model it comes from. With `resume` the rows that the file holds already are kept, if they are of
    the same model, and `done` tells which pictures they are of; with `retry` those that are errors are dropped.
    """

    def __init__(self, path: Path | None = None, model: str = "", resume: bool = False, retry: bool = False) -> None:
        if resume and path is None:
            raise InputError("--resume goes on with the table of --csv FILE: name it")
        if retry and not resume:
            raise InputError("--retry-errors tries again what --resume finds in the table: give both")
        self.path, self.model, self.saved = path, model, time.monotonic()
        self.rows = self._rows_before(path, retry) if path is not None and resume else []
        self.done = {row["image"] for row in self.rows}
        self.errors = self.count = self.odd_names = 0
        self.first_error = ""

    def _rows_before(self, path: Path, retry: bool) -> list[dict[str, str]]:
        """The rows of an earlier run; an InputError that names the first that comes from another model."""
        rows = read_table(path, (*COLUMNS, "model"))
        other = next((row["model"] for row in rows if row["model"] != self.model), None)
        if other is not None:
            raise InputError(f"{str(path)!r} holds rows of {other!r}, not of {self.model!r}: go on with that one, "
                             "or start a new table")
        return [row for row in rows if not (retry and row["error"])]

    def add(self, prediction: Prediction) -> None:
        """Take one more row; the picture itself is not kept."""
        self.rows.append(prediction.row | {"model": self.model})
        self.count += 1
        self.errors += bool(prediction.error)
        self.odd_names += not is_text(prediction.name)
        self.first_error = self.first_error or prediction.error
        if time.monotonic() - self.saved > SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is not None:
            write_file(self.path, table_text((*COLUMNS, "model"), self.rows))
        self.saved = time.monotonic()


def model_name(path: Path, reject: object = False) -> str:
    """What tells the answers of this model file from those of any other: its name, content, and how it is asked."""
    import dmn4

    check_regular(path)
    with open(path, "rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{path.name} {content[:12]} (dmn4 {dmn4.__version__})" + (f" reject={reject}" if reject else "")
