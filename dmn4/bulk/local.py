"""One machine: processes that read, decode and judge, each a unit at a time."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool as ProcessPoolError
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InputError
from .units import Unit
from .worker import Task, Worker, decode_unit, judge_unit

if TYPE_CHECKING:
    import pyarrow as pa

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
IDLE = 300                                                    # seconds until a process without work ends


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_local(task: Task, units: Iterable[Unit], workers: int | None = None) -> Iterator[tuple[int, "pa.Table"]]:
    """Number and rows of every unit, as they are ready. `workers`: processes (None: one for each core; 0: this one)."""
    if workers == 0:
        yield from run_here(task, units)
        return
    left = iter(units)
    while True:
        under_way: dict[Any, Unit] = {}
        try:
            yield from run_processes(task, left, workers or cores(), under_way)
            return
        except ProcessPoolError:
            marked = [without_deadly(task, unit) for unit in under_way.values()]
            if marked == list(under_way.values()):
                raise InputError("a worker process was killed, perhaps for want of memory; the same command goes on "
                                 "where it stopped, with fewer --workers if it happens again") from None
            left = chain(marked, left)


def run_processes(task: Task, units: Iterable[Unit], workers: int,
                  under_way: dict[Any, Unit]) -> Iterator[tuple[int, "pa.Table"]]:
    """The same by so many processes; `under_way` holds the units that were handed out and did not come back."""
    pool, left = processes(workers), iter(units)
    try:
        while True:
            for unit in islice(left, 2 * workers - len(under_way)):
                under_way[pool.submit(judge_unit, task, unit)] = unit
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                judged = future.result()
                del under_way[future]
                yield judged
    finally:
        for future in under_way:
            future.cancel()


def processes(workers: int) -> Any:
    """So many processes of one thread each, kept for the next run that comes soon."""
    from joblib.externals.loky import get_reusable_executor

    return get_reusable_executor(workers, timeout=IDLE, env=dict.fromkeys(THREADS, "1"))


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
