"""One machine: processes that read, decode and judge, each a unit at a time."""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch

from ..errors import InputError
from .units import Unit
from .worker import Task, Worker, judge_unit

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
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    pool = Parallel(workers or cores(), backend="loky", return_as="generator_unordered", pre_dispatch="2*n_jobs",
                    batch_size=1, inner_max_num_threads=1)
    try:
        yield from pool(delayed(judge_unit)(task, unit) for unit in units)
    except TerminatedWorkerError:
        raise InputError("a worker process was killed, perhaps for want of memory; the same command goes on where it "
                         "stopped, with fewer --workers if it happens again") from None


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
