"""Predictions beside the true labels: a row for each picture, a few counts, the confusion matrix."""

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..classify.verdict import NONE, Verdict
from ..images import Source
from .cells import is_text, on_screen
from .predictions import Prediction

LIKELY = 5                                                    # classes offered for a picture

@dataclass
class Row:
    """One picture of the report: what of its prediction the page needs."""

    image: Source
    name: str
    verdict: Verdict | None
    likely: tuple[tuple[str, float], ...]                     # the most probable classes
    truth: str | None                                         # None: nobody told
    error: str

    @classmethod
    def of(cls, prediction: Prediction, truth: Hashable | None = None) -> "Row":
        """What is kept of a prediction."""
        best = Counter(prediction.probabilities).most_common(LIKELY)
        return cls(prediction.image, prediction.name, prediction.verdict, tuple(best),
                   None if truth is None else str(truth), prediction.error)

    @property
    def shown_name(self) -> str:
        """What the picture is called; nothing if it is no file."""
        return on_screen(self.name) if isinstance(self.image, str | Path) else ""

    @property
    def path(self) -> str | None:
        """Where the picture lies; None: it is no file, or its name is no text, which a browser could not write."""
        known = isinstance(self.image, str | Path) and is_text(self.name)
        return os.path.abspath(self.name) if known else None


def folder_labels(paths: Sequence[Path], classes: Iterable[Any]) -> dict[str, str]:
    """The true labels of pictures that lie in folders named as classes, by path.

    A folder beside two such folders, of another name, holds pictures of none of the classes.
    """
    names = {str(name) for name in classes}
    known: dict[Path, set[str]] = {}
    for folder in {path.absolute().parent for path in paths}:
        if folder.name in names:
            known.setdefault(folder.parent, set()).add(folder.name)
    folders = {path: path.absolute().parent for path in paths}
    return {str(path): folder.name for path, folder in folders.items()
            if folder.name in names or len(known.get(folder.parent, ())) > 1}


def counted(rows: Sequence[Row], places: Mapping[str, int]) -> list[tuple[str, str]]:
    """The few numbers on top of the page, and what they are."""
    judged = [(row, row.verdict) for row in rows if row.verdict is not None]
    none = sum(verdict.label is None for _, verdict in judged)
    known = [(row, verdict) for row, verdict in judged if row.truth in places]
    strangers = [verdict for row, verdict in judged if row.truth is not None and row.truth not in places]
    best = sum(str(verdict.nearest) == row.truth for row, verdict in known)
    noticed = sum(verdict.label is None for verdict in strangers)
    refused = sum(verdict.label is None for _, verdict in known)
    numbers = [(f"{best:,} of {len(known):,}", "named rightly, if each has to be one of the classes", bool(known)),
               (f"{noticed:,} of {len(strangers):,}", f"strangers noticed as {NONE}", bool(strangers)),
               (f"{refused:,} of {len(known):,}", f"known ones taken for {NONE}", bool(known and none)),
               (f"{len(judged) - none:,}", "named", not known),
               (f"{none:,}", NONE, not known and none > 0),
               (f"{len(rows) - len(judged):,}", "could not be read", len(judged) < len(rows))]
    return [(number, words) for number, words, worth_telling in numbers if worth_telling]


@dataclass(frozen=True)
class Cell:
    """How many pictures of a true class were given a class; none of these is -1."""

    truth: int
    said: int
    count: int
    share: float                                              # of the pictures of the true class

    @property
    def right(self) -> bool:
        """Whether that was right."""
        return self.truth == self.said


def confusion(rows: Sequence[Row], places: Mapping[str, int]) -> list[list[Cell]]:
    """The confusion matrix of the classes that occur, a true class a line, none of these last; without labels empty."""
    from sklearn.metrics import confusion_matrix

    pairs = [(places.get(row.truth, -1), -1 if row.verdict.label is None else places[str(row.verdict.label)])
            for row in rows if row.verdict and row.truth is not None]
    occurring = sorted({place for pair in pairs for place in pair}, key=lambda place: (place < 0, place))
    if not pairs:
        return []
    counts = confusion_matrix([truth for truth, _ in pairs], [predicted for _, predicted in pairs], labels=occurring)
    return [[Cell(truth, predicted, int(count), round(count / line.sum(), 2))
             for predicted, count in zip(occurring, line, strict=True)]
            for truth, line in zip(occurring, counts, strict=True) if line.sum()]


def mistakes_of(matrix: list[list[Cell]]) -> list[Cell]:
    """The mistakes of a confusion matrix, the most frequent first."""
    return sorted((cell for line in matrix for cell in line if cell.count and not cell.right),
                  key=lambda cell: -cell.count)
