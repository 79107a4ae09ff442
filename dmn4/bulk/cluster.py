"""A Ray cluster: joined or started, asked what it has, and given numbered work whose results come as they are ready."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from ..errors import InputError
from .local import cores

ENGINES = ("local", "ray")
RETRIES, FEW = 10, 2                                          # of work whose worker or node died; before a rescue
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "error"}
AHEAD = 2                                                     # pieces of work under way for each worker that fits


@contextmanager
def joined(address: str | None = None, workers: int | None = None, gpus: float = 0) -> Iterator[Any]:
    """Ray, connected to the cluster at `address` or to one started here, which ends with the block."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise InputError("engine 'ray' needs Ray: pip install 'dmn4[ray]'") from None
    if ray.is_initialized():                                  # the caller's own, and left as it is
        check_room(ray, gpus)
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    options = {"num_cpus": workers or cores(), "include_dashboard": False} if address is None else {"address": address}
    try:
        ray.init(**options, **quiet)
    except Exception as error:                                # Ray raises nearly every type there is
        text = " ".join(str(error).split())[:250]
        raise InputError(f"no Ray cluster answers at {address or 'this machine'!r}: {text}") from None
    try:
        check_room(ray, gpus)
        yield ray
    finally:
        ray.shutdown()


def room(ray: Any, gpus: float) -> int:
    """How many workers of one CPU and this share of a GPU fit into the cluster as it is now."""
    return sum(int(min(cpu, gpu / gpus if gpus else cpu)) for cpu, gpu in nodes_of(ray))


def nodes_of(ray: Any) -> list[tuple[float, float]]:
    """CPUs and GPUs of every node that is alive."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [(node.get("CPU", 0), node.get("GPU", 0)) for node in alive]


def check_room(ray: Any, gpus: float) -> None:
    """Raise an InputError if not a single worker would ever start."""
    if not room(ray, gpus):
        there = ", ".join(f"{cpu:g} CPU + {gpu:g} GPU" for cpu, gpu in nodes_of(ray))
        need = "1 CPU" + (f" and {gpus:g} GPU" if gpus else "")
        raise InputError(f"a worker needs {need} on one node; the cluster has {there or 'no nodes'}")


Item = tuple[Any, ...]                                        # arguments of a piece of work


def spread(ray: Any, work: Callable[..., Any], items: Iterable[Item], workers: int | None = None, gpus: float = 0,
           rescue: Callable[[Item], Item] | None = None) -> Iterator[Any]:
    """What `work` gives for the arguments of every item, as it is ready, no more under way than there is room for.

    Work whose process or node dies is done again elsewhere; nodes that join are used from then on. Where processes die
    of the same item again and again, `rescue` tells what to do in its place.
    """
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_calls=0, scheduling_strategy="SPREAD")(work)
    first, last = task.options(max_retries=RETRIES if rescue is None else FEW), task.options(max_retries=RETRIES)
    left, under_way, rescued = iter(items), dict[Any, Item](), set[Any]()
    while True:
        most = workers or AHEAD * max(1, room(ray, gpus))
        under_way |= {first.remote(*item): item for item in islice(left, max(0, most - len(under_way)))}
        if not under_way:
            return
        reference = ray.wait(list(under_way), num_returns=1)[0][0]
        item = under_way.pop(reference)
        try:
            yield result_of(ray, reference)
        except DeadWorkerError:
            if rescue is None or reference in rescued:
                raise
            reference = last.remote(*rescue(item))
            under_way[reference] = item
            rescued.add(reference)


class DeadWorkerError(InputError):
    """The processes that did a piece of work died, every one of them."""


def result_of(ray: Any, reference: Any) -> Any:
    """A result, or the InputError that says in one line why there is none."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise InputError(str(error.cause)) from None
        raise
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError) as error:
        raise DeadWorkerError(f"workers died again and again over the same work ({type(error).__name__}); the same "
                              "command goes on where it stopped") from None
