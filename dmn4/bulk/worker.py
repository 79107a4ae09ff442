"""A classifier that turns units into rows: what every process and every actor runs."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from ..classify.keeping import opened
from ..classify.plain import PlainClassifier
from ..files import check_regular
from ..images.looks import batches
from .addresses import is_remote
from .reading import decoded, found_in, pictures
from .rows import as_table, rows_of
from .units import Unit

if TYPE_CHECKING:
    import pyarrow as pa

READERS, WAITING = 2, 16                                      # threads that decode; those that wait for a store as well


@dataclass(frozen=True)
class Task:
    """What a worker is asked: which classifier, and how."""

    model: str                                                # a file of the machine that the worker runs on
    sha256: str                                               # of its content
    reject: bool | float = False
    device: str = "cpu"
    backbone: nn.Module | None = field(default=None, compare=False)    # only if it was made elsewhere

    @classmethod
    def of_file(cls, model: Path, **asked: object) -> "Task":
        """The task of this model file."""
        check_regular(model)
        with open(model, "rb") as file:
            return cls(str(model), hashlib.file_digest(file, "sha256").hexdigest(), **asked)  # type: ignore[arg-type]

    def at(self, model: str) -> "Task":
        """The same with the model file in another place."""
        return replace(self, model=model)

    @property
    def made(self) -> dict[str, str]:
        """What every row says of where it comes from."""
        from .. import __version__

        return {"model": self.sha256[:16], "version": __version__}


class Worker:
    """Judges units; on a CPU with one thread, so that as many workers as cores keep all of them busy."""

    def __init__(self, task: Task) -> None:
        if task.device == "cpu":
            torch.set_num_threads(1)
        self.task = task
        self.classifier = opened(PlainClassifier, task.model, task.backbone, task.device)

    def __call__(self, unit: Unit) -> "pa.Table":
        """The rows of a unit, in its order. They depend on the unit and on the task alone."""
        size, rows = self.classifier.batch_size, []
        is_elsewhere = self.task.device != "cpu" or any(is_remote(unit.address(piece)) for piece in unit.pieces[:1])
        seen = pictures(unit, self.classifier.parts_.transform.stored_size, size, WAITING if is_elsewhere else READERS)
        for batch in batches(seen, size):
            rows += rows_of(self.classifier, batch, self.task.reject)
        return as_table(rows, self.task.made)


@lru_cache(maxsize=1)
def worker_of(task: Task) -> Worker:
    """The worker of this process; the classifier is loaded once."""
    return Worker(task)


def decode_unit(task: Task, unit: Unit, place: Path) -> None:
    """Decode the pictures of a unit one by one; a file tells the place of the one that is tried, should this end."""
    size = worker_of(task).classifier.parts_.transform.stored_size
    for number, picture in enumerate(found_in(unit)):
        place.write_text(str(number))
        decoded(picture, size)


def judge_unit(task: Task, unit: Unit) -> tuple[int, "pa.Table"]:
    """Number and rows of a unit."""
    return unit.number, worker_of(task)(unit)
