"""The cells of a table as tasks on a Ray cluster: each training starts when the one that it needs is done."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ..bulk.cluster import ENGINES, RETRIES, joined, result_of
from ..errors import InputError, choose
from .workshop import Crew, Step, Wait, Workshop, alone


def on_engine(engine: str = "local", address: str | None = None, workers: int | None = None, gpus: float = 0) -> Crew:
    """Who works: this process, or the workers of a Ray cluster."""
    if choose("engine", engine, ENGINES) == "local":
        if address is not None or workers is not None or gpus:
            raise InputError("--address, --workers and --gpus-per-worker are for --engine ray")
        return alone
    if address is not None and workers is not None:
        raise InputError("--workers is for a cluster that is started here: the one at --address has the CPUs it has")
    return partial(on_ray, address, workers, gpus)


@contextmanager
def on_ray(address: str | None, workers: int | None, gpus: float, workshop: Workshop,
           steps: Sequence[Step]) -> Iterator[Wait]:
    """Every step as a task, its needs first. All nodes read and write the same folders; what died is done again."""
    with joined(address, workers, gpus) as ray:
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=RETRIES, scheduling_strategy="SPREAD")(work_there)
        there, home, ends = replace(workshop, crew=alone, shown=False), os.getcwd(), dict[str, Any]()
        for step in steps:
            ends[step.key] = task.remote(home, there, step.work, *[ends[key] for key in step.needs])
        yield lambda key: result_of(ray, ends[key])


def work_there(home: str, workshop: Workshop, work: Any, *needs: object) -> None:
    """Do a step on whatever node, in the folder of the machine that asked; its result lies in the workshop's folder."""
    try:
        os.chdir(home)
    except OSError as error:
        raise InputError(f"a worker cannot use the folder {home!r} ({error.strerror}): all nodes need the same one, "
                         "such as a mounted share") from None
    torch.set_num_threads(1)
    work(workshop)
