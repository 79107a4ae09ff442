"""One machine: processes that read, decode and judge, each a unit at a time."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool as ProcessPoolError
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InputError
from .units import Unit
from .worker import Task, Worker, decode_unit, judge_unit

if TYPE_CHECKING:
    import pyarrow as pa


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_local(task: Task, units: Iterable[Unit], workers: int | None = None) -> Iterator[tuple[int, "pa.Table"]]:
    """Number and rows of every unit, as they are ready. `workers`: processes (None: one for each core; 0: this one)."""
    if workers == 0:
        yield from run_here(task, units)
        return
    under_way: dict[int, Unit] = {}
    left = iter(units)
    while True:
        try:
            yield from run_processes(task, left, workers or cores(), under_way)
            return
        except ProcessPoolError:
            found = [without_deadly(task, unit) for unit in under_way.values()]
            if found == list(under_way.values()):
                raise InputError("a worker process was killed, perhaps for want of memory; the same command goes on "
                                 "where it stopped, with fewer --workers if it happens again") from None
            left = chain(found, left)


def run_processes(task: Task, units: Iterable[Unit], workers: int,
                  under_way: dict[int, Unit]) -> Iterator[tuple[int, "pa.Table"]]:
    """The same by so many processes; `under_way` holds the units that were handed out and did not come back."""
    from joblib import Parallel, delayed

    def handed_out() -> Iterator[Any]:
        for unit in units:
            under_way[unit.number] = unit
            yield delayed(judge_unit)(task, unit)

    pool = Parallel(workers, backend="loky", return_as="generator_unordered", pre_dispatch="2*n_jobs",
                    batch_size=1, inner_max_num_threads=1)
    for number, rows in pool(handed_out()):
        del under_way[number]
        yield number, rows


def without_deadly(task: Task, unit: Unit) -> Unit:
    """The unit, its pictures marked whose decoding ends a process: each such process gives its life for one."""
    from joblib.externals.loky import ProcessPoolExecutor

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "place")
        while True:
            try:
                with ProcessPoolExecutor(1) as process:
                    process.submit(decode_unit, task, unit, place).result()
                return unit
            except ProcessPoolError:
                tried = unit.deadly | ({int(place.read_text())} if place.exists() else set())
                if tried == unit.deadly:                      # it dies before or between the pictures
                    return unit
                unit = replace(unit, deadly=tried)


def run_here(task: Task, units: Iterable[Unit]) -> Iterator[tuple[int, "pa.Table"]]:
    """The same in this process, whose number of threads is left as it was."""
    threads = torch.get_num_threads()
    worker = Worker(task)
    try:
        for unit in units:
            torch.set_num_threads(1 if task.device == "cpu" else threads)
            rows = worker(unit)
            torch.set_num_threads(threads)
            yield unit.number, rows
    finally:
        torch.set_num_threads(threads)
