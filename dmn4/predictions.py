"""Predictions as rows, unreadable pictures among them: streamed, written as CSV or JSON, sorted into folders."""

import csv
import filecmp
import io
import os
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .checkpoints import write_file
from .data.folders import ImageSet
from .errors import InputError
from .images import SUFFIXES, Source, describe_source, find_images, read_image
from .pictures import batches, read_pixels

if TYPE_CHECKING:
    from .classifier import FewShotClassifier

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


def predict_each(classifier: "FewShotClassifier", images: Iterable[Source], reject: bool = False,
                 batch_size: int | None = None) -> Iterator[Prediction]:
    """A row for every picture, in order, while no more than a batch is in memory; an unreadable one is its error."""
    for batch in batches(images, batch_size or classifier.batch_size):
        with ThreadPoolExecutor(max_workers=4) as readers:
            found = list(readers.map(lambda source: pixels_or_error(classifier, source), batch))
        readable = [pixels for pixels in found if isinstance(pixels, Tensor)]
        judged = iter(judge(classifier, torch.cat(readable), reject) if readable else [])
        for source, pixels in zip(batch, found, strict=True):
            yield Prediction(source, error=pixels) if isinstance(pixels, str) else Prediction(source, **next(judged))


def pixels_or_error(classifier: "FewShotClassifier", source: Source) -> Tensor | str:
    """A picture as the classifier reads it (1, h, w, 3), or why it cannot be read."""
    try:
        return read_pixels([source], classifier.parts_.transform)
    except InputError as error:
        return str(error)


def judge(classifier: "FewShotClassifier", pixels: Tensor, reject: bool) -> list[dict[str, Any]]:
    """What is said of each of a few pictures, as fields of a Prediction: bytes (B, h, w, 3)."""
    judged = classifier.judge(pixels)
    classes, names = classifier.classes_.tolist(), [str(name) for name in classifier.classes_]
    said = []
    for probabilities, known in zip(judged.probabilities.tolist(), judged.known.tolist(), strict=True):
        best = max(range(len(classes)), key=probabilities.__getitem__)
        said.append({"label": None if reject and known < 0.5 else classes[best], "probability": probabilities[best],
                     "known": known, "probabilities": dict(zip(names, probabilities, strict=True))})
    return said


# ------------------------------------------------------------------------------------------------------ in and out

def gather(paths: Sequence[Path]) -> list[Path]:
    """The pictures at these paths: files as they are, folders by what is in them; a missing path is refused."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"there is no file or folder {str(path)!r}")
        found += find_images(path) if path.is_dir() else [path]
    if not found:
        places = ", ".join(repr(str(path)) for path in paths)
        raise InputError(f"no images in {places} (looked for {' '.join(SUFFIXES)})")
    return found


def readable(images: ImageSet) -> ImageSet:
    """The pictures that can be read, with a warning for each other one; a class without any is an InputError."""
    errors = why_left_out(images.images)
    left = images.rows([row for row, error in enumerate(errors) if not error])
    for label, count in enumerate(left.counts):
        if not count:
            raise InputError(f"none of the pictures of class {images.classes[label]!r} can be read: "
                             f"{next(error for row, error in enumerate(errors) if images.labels[row] == label)}")
    return left


def readable_files(paths: Sequence[Path]) -> list[Path]:
    """The files that can be read, with a warning for each other one; an InputError if none can."""
    errors = why_left_out(paths)
    if all(errors):
        raise InputError(f"none of the {len(paths)} pictures can be read; the first: {errors[0]}")
    return [path for path, error in zip(paths, errors, strict=True) if not error]


def why_left_out(sources: Iterable[Source]) -> list[str]:
    """What is wrong with each picture, or nothing (""), with a warning for each that cannot be read."""
    with ThreadPoolExecutor(max_workers=4) as readers:
        errors = list(readers.map(why_unreadable, sources))
    for error in filter(None, errors):
        warnings.warn(f"left out: {error}", stacklevel=3)
    return errors


def why_unreadable(source: Source) -> str:
    """Why a picture cannot be read, or nothing."""
    try:
        read_image(source, size=1)                            # as small as it can be decoded
    except InputError as error:
        return str(error)
    return ""


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


def sort_into(folder: Path, prediction: Prediction, link: bool = False) -> Path | None:
    """Copy (or link) a picture into folder/label, or folder/unknown; returns where. An unreadable one stays behind.

    A different picture of the same name gets a number behind its name; the same one is not copied twice.
    """
    if prediction.error:
        return None
    source = Path(str(prediction.image))
    home = folder / folder_name(UNKNOWN if prediction.label is None else str(prediction.label))
    home.mkdir(parents=True, exist_ok=True)
    target, number = home / source.name, 1
    while target.exists() and not filecmp.cmp(source, target, shallow=False):
        number += 1
        target = home / f"{source.stem}-{number}{source.suffix}"
    if not target.exists():
        target.symlink_to(source.resolve()) if link else copy_whole(source, target)
    return target


def folder_name(label: str) -> str:
    """A label as the name of a folder: never a way out of the folder above it."""
    return label.replace(os.sep, "_").replace("\0", "_").strip(". ") or "_"


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that the target is there whole or not at all."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    shutil.copy2(source, draft)
    os.replace(draft, target)


def arrivals(folder: Path, pause: float = 1.0) -> Iterator[Path]:
    """The pictures of a folder as they arrive, those already there first; each once it has stopped growing. No end."""
    sizes: dict[Path, int] = {}
    done: set[Path] = set()
    while True:
        for path in find_images(folder):
            size = path.stat().st_size
            if path not in done and sizes.get(path) == size:
                done.add(path)
                yield path
            sizes[path] = size
        time.sleep(pause)
