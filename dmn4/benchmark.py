"""Speed and memory of the methods beside two yardsticks: the bare matrix products, and the plain dense formulation."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from .backbones import build_backbone
from .checkpoints import write_json
from .data.samples import draw_clutter
from .errors import InputError, choose
from .methods import METHODS, build_method
from .methods.descriptors import describe, pool_support
from .methods.neighbors import block_shape, similarities

BUSY = 0.5     # load average above which another job disturbs the figures


@dataclass(frozen=True)
class Case:
    """Maps of one kind of episode: 15 queries a class for five ways, 5 x 15 for more."""

    name: str
    backbone: str
    ways: int
    shots: int
    train: bool = True     # also time a training step
    dense: bool = True     # also time the dense formulation

    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Support maps, labels and query maps: drawn pictures through an untrained backbone."""
        torch.manual_seed(0)
        drawn = draw_clutter(min(self.ways, 20), self.shots + 15, size=84, seed=0)
        backbone = build_backbone(self.backbone).train()                 # batch statistics: it has no others yet
        with torch.no_grad():
            images = torch.as_tensor(drawn.images).permute(0, 3, 1, 2).float() / 255
            maps = torch.cat([backbone(part) for part in (images - 0.5).split(50)])
        by_class = maps.unflatten(0, (len(drawn.classes), self.shots + 15))
        support, query = by_class[:, : self.shots].flatten(0, 1), by_class[:5, self.shots :].flatten(0, 1)
        if self.ways > len(drawn.classes):
            repeats = -(-self.ways // len(drawn.classes))
            support = support.repeat(repeats, 1, 1, 1)[: self.ways * self.shots]
            support = support + 0.3 * torch.randn(support.shape, generator=torch.Generator().manual_seed(1))
        return support, torch.arange(self.ways).repeat_interleave(self.shots), query


CASES = [
    Case("conv4 5-way 1-shot", "conv4", 5, 1),
    Case("conv4 5-way 5-shot", "conv4", 5, 5),
    Case("resnet12 5-way 1-shot", "resnet12", 5, 1),
    Case("resnet12 5-way 5-shot", "resnet12", 5, 5),
    *(Case(f"conv4 {ways}-way 1-shot", "conv4", ways, 1, train=False, dense=False) for ways in (20, 100, 300, 1000)),
]


@dataclass
class Figures:
    """What one contestant took, round by round, and how much memory beyond its inputs."""

    seconds: list[float] = field(default_factory=list)
    floor_ratio: float = 0.0     # median over the rounds of time / floor of the same round
    dense_ratio: float | None = None     # how many times faster than the dense form of the same rule
    extra_mb: float = 0.0


# ------------------------------------------------------------------------------------------------------- the yardsticks

def bare_products(support: Tensor, labels: Tensor, query: Tensor) -> Callable[[], None]:
    """The floor: the matrix products of the search, in the same blocks, and nothing else."""
    pool, images = pool_support(support, labels), describe(query)
    number, columns = block_shape(images, pool)
    room = images.new_empty(number * images.shape[1] * columns)

    def run() -> None:
        for block in images.split(number):
            for _ in similarities(block, pool, columns, room):
                pass
    return run


def dense_scores(support: Tensor, labels: Tensor, query: Tensor, rule: str) -> Tensor:
    """phi(x, c) as one reads the paper: the whole similarity tensor, maxima with indices, one-hot columns -> (Q, N)."""
    ways = int(labels.max()) + 1
    pool = describe(support).flatten(0, 1)                                                    # (S, C)
    similarity = describe(query) @ pool.T                                                     # (Q, M, S)
    class_best = similarity.unflatten(2, (ways, -1)).max(-1).values                           # (Q, M, N)
    if rule == "dn4":
        return class_best.sum(1)
    nearest = similarity.max(2).indices                                                       # (Q, M)
    if rule == "mn4":
        column = similarity
    else:
        first, second = class_best.topk(2, dim=-1).values.unbind(-1)                          # (Q, M) each
        column = torch.full_like(similarity, -torch.inf).scatter(2, nearest[..., None], (first - second)[..., None])
    back = column.max(1).indices                                                              # (Q, S)
    kept = back.gather(1, nearest) == torch.arange(nearest.shape[1], device=nearest.device)   # (Q, M)
    return (class_best * kept[..., None]).sum(1)


DENSE = ("dn4", "mn4", "dmn4")


# ----------------------------------------------------------------------------------------------------------- the timing

def contestants(case: Case, methods: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that runs on the maps of a case, by name; the floor first."""
    support, labels, query = case.maps()
    targets = torch.arange(5).repeat_interleave(15)
    yield "floor", bare_products(support, labels, query)

    def scored(head: Callable[..., Tensor]) -> Callable[[], Any]:
        def run() -> None:
            with torch.no_grad():
                head(support, labels, query)
        return run

    def trained(head: Callable[..., Tensor]) -> Callable[[], Any]:
        maps = [support.clone().requires_grad_(), query.clone().requires_grad_()]

        def run() -> None:
            torch.autograd.grad(F.cross_entropy(head(maps[0], labels, maps[1]), targets), maps)
        return run

    for name in methods:
        head = build_method(name, channels=support.shape[1])
        yield name, scored(head)
        if case.train and trains(head, support[:2], query[:1]):
            yield f"{name} train", trained(head)
        if case.dense and name in DENSE:
            plain = lambda s, y, q, rule=name: dense_scores(s, y, q, rule)  # noqa: E731
            yield f"{name} dense", scored(plain)
            yield f"{name} dense train", trained(plain)


def trains(head: torch.nn.Module, support: Tensor, query: Tensor) -> bool:
    """Whether gradients flow through a method to the maps."""
    return bool(head(support.clone().requires_grad_(), torch.arange(len(support)), query).requires_grad)


def race(runners: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Figures]:
    """Run all contestants in turn, `rounds` times; each time is divided by the floor's of the same round."""
    figures = {name: Figures(extra_mb=peak_memory(run) / 1e6) for name, run in runners.items()}
    for _ in track(range(rounds), description="rounds", transient=True):
        for name, run in runners.items():
            start = time.perf_counter()
            run()
            figures[name].seconds.append(time.perf_counter() - start)
    for name, figure in figures.items():
        figure.floor_ratio = middle_ratio(figure, figures["floor"])
        base, _, train = name.partition(" ")
        dense = figures.get(f"{base} dense {train}".strip())
        if dense is not None and "dense" not in train:
            figure.dense_ratio = middle_ratio(dense, figure)
    return figures


def middle_ratio(one: Figures, other: Figures) -> float:
    """The median over the rounds of one time over another."""
    return statistics.median(a / b for a, b in zip(one.seconds, other.seconds, strict=True))


def peak_memory(run: Callable[[], Any]) -> int:
    """The most bytes that torch held at a time beyond what it held before: counted, not sampled."""
    run()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")          # the profiler is chatty
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():   # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def machine() -> dict[str, Any]:
    """Where and how busy: what a reader needs to trust the figures."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
            "threads": torch.get_num_threads(), "torch": torch.__version__, "load": round(load, 2),
            "trusted": load < BUSY}


# ------------------------------------------------------------------------------------------------------------ the table

def benchmark_heads(rounds: int, out: Path, words: list[str], methods: list[str]) -> dict[str, Any]:
    """Race the methods on every case whose name holds one of `words`; prints tables and writes a JSON file."""
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    if not cases:
        raise InputError(f"no case matches {', '.join(words)}; there are: {'; '.join(case.name for case in CASES)}")
    if rounds < 1:
        raise InputError(f"rounds is {rounds}; at least one is needed")
    names = [choose("method", name, METHODS) for name in methods] or list(DENSE)
    about, console = machine(), Console()
    if not about["trusted"]:
        console.print(f"[yellow]load {about['load']}: another job is running, these figures are not to be trusted")
    results: dict[str, Any] = {"machine": about, "rounds": rounds, "cases": {}}
    for case in cases:
        figures = race(dict(contestants(case, names)), rounds)
        results["cases"][case.name] = {name: asdict(figure) for name, figure in figures.items()}
        console.print(table(case, figures))
        write_json(out, results)
    console.print(f"every figure: {out}")
    return results


def table(case: Case, figures: dict[str, Figures]) -> Table:
    """The figures of a case for a terminal of 80 columns."""
    shown = Table("contestant", title=case.name, title_justify="left")
    for heading in ("ms", "x floor", "dense / it", "extra MB"):
        shown.add_column(heading, justify="right")
    for name, figure in figures.items():
        faster = "" if figure.dense_ratio is None else f"{figure.dense_ratio:.1f}"
        shown.add_row(name, f"{1e3 * statistics.median(figure.seconds):.2f}", f"{figure.floor_ratio:.2f}", faster,
                      f"{figure.extra_mb:.1f}")
    return shown
