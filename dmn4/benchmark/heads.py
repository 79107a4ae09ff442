"""Every method on stored maps: time, ratio to the floor and to the dense formulation, extra memory."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor

from ..backbones import build_backbone
from ..data.samples import draw_clutter
from ..errors import InputError, choose
from ..files import write_json
from ..methods import METHODS, build_method
from ..methods.mn4_semi import DMN4Semi, MN4Semi
from .race import Figures, race, report
from .yardsticks import bare_products, dense_scores

DENSE = ("dn4", "mn4", "dmn4")
PARTS = {("deepemd", "conv4 5-way 5-shot"): {"epochs": 1}}     # minutes in full: one epoch of its refinement


@dataclass(frozen=True)
class Case:
    """Maps of one kind of episode: 15 queries a class for five ways, 5 x 15 for more."""

    name: str
    backbone: str
    ways: int
    shots: int
    train: bool = True     # also time a training step
    dense: bool = True     # also time the dense formulation
    every: bool = True     # for every method; otherwise for the descriptor methods alone
    unlabelled: int = 0    # time the adoption of descriptors from so many images, and nothing else

    def maps(self) -> tuple[Tensor, Tensor, Tensor]:
        """Support maps, labels and query maps: drawn pictures through an untrained backbone, in its layout."""
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
        support, query = (part.contiguous(memory_format=torch.channels_last) for part in (support, query))
        return support, torch.arange(self.ways).repeat_interleave(self.shots), query


CASES = [
    Case("conv4 5-way 1-shot", "conv4", 5, 1),
    Case("conv4 5-way 5-shot", "conv4", 5, 5),
    Case("resnet12 5-way 1-shot", "resnet12", 5, 1),
    Case("resnet12 5-way 5-shot", "resnet12", 5, 5),
    *(Case(f"conv4 {ways}-way 1-shot", "conv4", ways, 1, train=False, dense=False, every=False)
      for ways in (20, 100, 300, 1000)),
    Case("conv4 200 unlabelled, 5-way 5-shot", "conv4", 5, 5, unlabelled=200),
]


def contestants(case: Case, methods: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that runs on the maps of a case, by name; the floor first."""
    if case.unlabelled:
        yield from adopters(case)
        return
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
            loss = F.cross_entropy(head(maps[0], labels, maps[1]), targets)
            torch.autograd.grad(loss, maps, allow_unused=True)       # a solver outside the graph stops it
        return run

    for name in methods:
        part = PARTS.get((name, case.name), {})
        head = build_method(name, channels=support.shape[1], **part).eval()
        yield " ".join([name, *(f"{option}={value}" for option, value in part.items())]), scored(head)
        if case.train and trains(head, support[:2], query[:1]):
            yield f"{name} train", trained(head)
        if case.dense and name in DENSE:
            plain = lambda s, y, q, rule=name: dense_scores(s, y, q, rule)  # noqa: E731
            yield f"{name} dense", scored(plain)
            yield f"{name} dense train", trained(plain)


def adopters(case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The semi-supervised rules at work on many unlabelled images; the floor is their products with the pool."""
    support, labels, query = case.maps()
    repeats = -(-case.unlabelled // len(query))
    unlabelled = query.repeat(repeats, 1, 1, 1)[: case.unlabelled]
    unlabelled = unlabelled + 0.3 * torch.randn(unlabelled.shape, generator=torch.Generator().manual_seed(1))
    yield "floor", bare_products(support, labels, unlabelled)
    yield "mn4-semi", partial(MN4Semi().derive_with, support, labels, unlabelled)
    yield "dmn4-semi", partial(DMN4Semi().derive_with, support, labels, unlabelled)


def trains(head: torch.nn.Module, support: Tensor, query: Tensor) -> bool:
    """Whether gradients flow through a method to the maps."""
    return bool(head(support.clone().requires_grad_(), torch.arange(len(support)), query).requires_grad)


def benchmark_heads(rounds: int, out: Path, words: list[str], methods: list[str]) -> dict[str, Any]:
    """Race the methods on every case whose name holds one of `words`; prints tables and writes a JSON file."""
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    if not cases:
        raise InputError(f"no case matches {', '.join(words)}; there are: {'; '.join(case.name for case in CASES)}")
    if rounds < 1:
        raise InputError(f"rounds is {rounds}; at least one is needed")
    names = [choose("method", name, METHODS) for name in methods]
    console = Console()
    about = report(console)
    results: dict[str, Any] = {"machine": about, "rounds": rounds, "cases": {}}
    for case in cases:
        figures = race(dict(contestants(case, names or list(METHODS if case.every else DENSE))), rounds)
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
                      "once" if figure.extra_mb is None else f"{figure.extra_mb:.1f}")
    return shown
