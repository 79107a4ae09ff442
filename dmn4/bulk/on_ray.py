"""The same units on a Ray cluster, and the classifier as a step of a pipeline of Ray Data."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..images.files import Source
from .cluster import RETRIES, Item, joined, result_of, spread
from .local import without_deadly
from .model import model_file
from .reading import Seen, seen_of
from .rows import rows_of, schema
from .units import Unit
from .worker import Task, Worker

if TYPE_CHECKING:
    import pyarrow as pa

PICTURES, NAMES = ("image", "bytes"), ("path",)               # columns of Ray Data: read_images, read_binary_files


def run_ray(task: Task, units: Iterable[Unit], workers: int | None = None, address: str | None = None,
            gpus: float = 0) -> Iterator[tuple[int, "pa.Table"]]:
    """Number and rows of every unit, as they are ready; the rows are those of `run_local`, to the bit."""
    with joined(address, workers, gpus) as ray:
        model = ray.put(Path(task.model).read_bytes())        # every node fetches it once

        def rescue(item: Item) -> Item:
            mark = ray.remote(num_cpus=1, max_retries=RETRIES)(mark_deadly)
            return task, [model], result_of(ray, mark.remote(*item))

        yield from spread(ray, judge_there, ((task, [model], unit) for unit in units), workers, gpus, rescue)


LOADED: dict[Task, Worker] = {}                               # of this process, at most one


def judge_there(task: Task, model: list[Any], unit: Unit) -> tuple[int, "pa.Table"]:
    """Number and rows of a unit, on whatever node; the model is fetched only if this process does not hold it."""
    if task not in LOADED:
        LOADED.clear()
        with fetched(task, model) as here:
            LOADED[task] = Worker(here)
    return unit.number, LOADED[task](unit)


def mark_deadly(task: Task, model: list[Any], unit: Unit) -> Unit:
    """The unit, its pictures marked whose decoding ends a process, on whatever node."""
    with fetched(task, model) as here:
        return without_deadly(here, unit)


@contextmanager
def fetched(task: Task, model: list[Any]) -> Iterator[Task]:
    """The task with its model as a file of this node, for the while."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.dmn4")
        path.write_bytes(ray.get(model[0]))
        yield task.at(str(path))


class RayPredictor:
    """A classifier for `ray.data.Dataset.map_batches`: adds to every row what it says of the row's picture.

    `model`: a file or an address that every node can read. The pictures are in `column`: decoded arrays, encoded bytes
    or paths (None: `image`, `bytes` or `path`, the first that is there); only paths and other columns are handed on.

        ray.data.read_binary_files(folder, include_paths=True).map_batches(
            dmn4.RayPredictor, fn_constructor_args=["birds.dmn4"], batch_size=32, concurrency=4)
    """

    def __init__(self, model: str | Path, column: str | None = None, reject: bool | float = False,
                 device: str = "cpu") -> None:
        self.column = column
        with model_file(model) as path:
            self.worker = Worker(Task.of_file(path, reject=reject, device=device))

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        column = self._column(batch)
        sources: list[Source] = list(batch[column])
        names = [str(name) for name in batch.get("path", np.full(len(sources), "the picture"))]
        size, classifier = self.worker.classifier.parts_.transform.stored_size, self.worker.classifier
        seen: list[Seen] = [seen_of(name, source, size) for name, source in zip(names, sources, strict=True)]
        rows = [row | self.worker.task.made for row in rows_of(classifier, seen, self.worker.task.reject)]
        verdicts = {name: objects([row.get(name) for row in rows]) for name in schema().names if name != "path"}
        return {name: values for name, values in batch.items() if name != column or name in NAMES} | verdicts

    def _column(self, batch: dict[str, np.ndarray]) -> str:
        chosen = [name for name in ([self.column] if self.column else (*PICTURES, *NAMES)) if name in batch]
        if not chosen:
            wanted = repr(self.column) if self.column else "image, bytes or path"
            raise InputError(f"no column {wanted} in this data set; it has {', '.join(batch)}")
        return chosen[0]


def objects(values: list[Any]) -> np.ndarray:
    """A column of any values: (n,)."""
    column = np.empty(len(values), object)
    column[:] = values
    return column
