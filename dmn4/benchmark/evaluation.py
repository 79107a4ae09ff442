"""An episode over stored maps, beside its head alone and beside embedding its pictures anew."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table as Shown
from torch import Tensor

from ..checkpoints import write_json
from ..contenders import find_trained
from ..data.samples import draw_clutter
from ..episodes import Episode
from ..evaluate import Protocol, Table
from ..maps import embed_all, pictures
from ..memory import keep_freed_memory
from .race import race, report

CASES = [("dmn4", 1), ("dmn4", 5), ("protonet", 1), ("protonet", 5)]
EPISODES, SPLIT = 10_000, 12_000     # what the embedding of a split is shared by: miniImageNet's test, the protocol


@dataclass(frozen=True)
class Cost:
    """Seconds of one episode; ratios are medians over the rounds."""

    head: float            # the method on maps that lie ready
    stored: float          # drawn, its maps taken from the store, scored; and its share of embedding the split once
    embedded: float        # its pictures embedded as the store was: channels last, freed memory kept
    plain: float           # its pictures embedded as PyTorch does it unasked
    beyond: float          # stored over head, less one
    embedded_ratio: float  # embedded over stored
    plain_ratio: float     # plain over stored


def benchmark_evaluation(rounds: int, out: Path) -> dict[str, Cost]:
    """Time an episode of each case; prints a table and writes a JSON file."""
    console = Console()
    about = report(console)
    images, trained = draw_clutter(10, 20, size=84, seed=0), find_trained()
    tables = {case: Table(images, {case[0]: trained.enter(case[0])}, case[1]) for case in CASES}
    plain = {case: plain_ratio(one, rounds) for case, one in tables.items()}
    keep_freed_memory()                                            # it cannot be undone, so the plain form came first
    start = time.perf_counter()
    embed_all(trained.backbone, images, trained.transform)
    once = (time.perf_counter() - start) / len(images) * SPLIT / EPISODES
    costs = {f"{method} {shots}-shot": cost(one, rounds, plain[method, shots], once)
             for (method, shots), one in tables.items()}
    write_json(out, {"machine": about, "rounds": rounds, "cases": {name: asdict(one) for name, one in costs.items()}})
    console.print(cost_table(costs))
    console.print(f"every figure: {out}")
    return costs


def plain_ratio(table: Table, rounds: int) -> float:
    """How many times the head an episode takes that embeds its pictures in the plain way."""
    runners = {"floor": head_alone(table), "plain": embedding_anew(table, table.backbone.features)}
    return race(runners, rounds)["plain"].floor_ratio


def cost(table: Table, rounds: int, plain: float, once: float) -> Cost:
    """What an episode of one case costs in every form; `once` are the seconds of its share of embedding the split."""
    figures = race({"floor": head_alone(table), "stored": over_the_store(table),
                    "embedded": embedding_anew(table, table.backbone)}, rounds)
    head = statistics.median(figures["floor"].seconds)
    stored = figures["stored"].floor_ratio + once / head           # in heads, as the two others
    return Cost(head, head * stored, head * figures["embedded"].floor_ratio, head * plain,
                figures["stored"].floor_ratio - 1, figures["embedded"].floor_ratio / stored, plain / stored)


def head_alone(table: Table) -> Callable[[], Any]:
    """The method itself, on maps of an episode that lie ready; on their means if it reads nothing else."""
    [method], episode, maps = table.methods.values(), next(episodes(table)), (table.means or table.stores)[0]
    support, query = maps[episode.support], maps[episode.query]
    return torch.no_grad()(lambda: method(support, episode.support_labels, query))


def over_the_store(table: Table) -> Callable[[], Any]:
    """What `evaluate` does for each episode: draw it, take its maps, score them, count."""
    drawn = episodes(table)
    return lambda: table.play(next(drawn))


def embedding_anew(table: Table, backbone: Callable[[Tensor], Tensor]) -> Callable[[], Any]:
    """The same with the episode's own pictures embedded, in one batch; bare `features` keep PyTorch's own layout."""
    [method], drawn = table.methods.values(), episodes(table)

    @torch.no_grad()
    def run() -> Tensor:
        one = next(drawn)
        maps = backbone(table.transform(pictures(table.images, torch.cat([one.support, one.query]))))
        scores: Tensor = method(maps[: len(one.support)], one.support_labels, maps[len(one.support) :])
        return (scores.argmax(1) == one.query_labels).float().mean()
    return run


def episodes(table: Table) -> Iterator[Episode]:
    """The episodes of the protocol, the same for every contestant."""
    return Protocol(shots=table.shots).draw(table.images.labels)


def cost_table(costs: dict[str, Cost]) -> Shown:
    """The costs for a terminal of 80 columns."""
    shown = Shown("case", title=f"one of {EPISODES:,} episodes over {SPLIT:,} embedded pictures", title_justify="left")
    for heading in ("head, ms", "stored", "beyond head", "embedded anew", "plainly"):
        shown.add_column(heading, justify="right")
    for name, one in costs.items():
        shown.add_row(name, f"{1e3 * one.head:.2f}", f"{1e3 * one.stored:.2f}", f"{100 * one.beyond:.0f} %",
                      f"{one.embedded_ratio:.1f} x", f"{one.plain_ratio:.1f} x")
    return shown
