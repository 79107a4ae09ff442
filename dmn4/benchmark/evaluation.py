"""An episode over stored maps, beside its head alone and beside embedding its pictures anew."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
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
from ..evaluate import Protocol
from ..maps import embed_all, pictures
from ..memory import keep_freed_memory
from ..methods.ablation import score_rules
from ..playing import right_shares
from ..table import Table, reads_means
from .race import race, report

FOUR = ["dmn4", "mn4", "dn4", "protonet"]                          # the paper's comparison, on the same episodes
CASES = {f"{name} {shots}-shot": (methods, shots)
         for name, methods in (("dmn4", ["dmn4"]), ("all four", FOUR), ("protonet", ["protonet"])) for shots in (1, 5)}
EPISODES, SPLIT = 10_000, 12_000     # what the embedding of a split is shared by: miniImageNet's test, the protocol

Pair = tuple[Tensor, Tensor]         # of support and of query


@dataclass(frozen=True)
class Cost:
    """Seconds of one episode; ratios are medians over the rounds."""

    head: float            # the methods on maps that lie ready
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
    tables = {name: Table(images, {one: trained.enter(one) for one in methods}, shots)
              for name, (methods, shots) in CASES.items()}
    plain = {name: plain_ratio(table, rounds) for name, table in tables.items()}
    keep_freed_memory()                                            # it cannot be undone, so the plain form came first
    start = time.perf_counter()
    embed_all(trained.backbone, images, trained.transform)
    once = (time.perf_counter() - start) / len(images) * SPLIT / EPISODES
    costs = {name: cost(table, rounds, plain[name], once) for name, table in tables.items()}
    write_json(out, {"machine": about, "rounds": rounds, "cases": {name: asdict(one) for name, one in costs.items()}})
    console.print(cost_table(costs))
    console.print(f"every figure: {out}")
    return costs


def plain_ratio(table: Table, rounds: int) -> float:
    """How many times the head an episode takes that embeds its pictures in the plain way."""
    runners = {"floor": head_alone(table), "plain": embedding_anew(table, table.backbone.features)}
    return race(runners, rounds)["plain"].floor_ratio * table.at_once


def cost(table: Table, rounds: int, plain: float, once: float) -> Cost:
    """What an episode of one case costs in every form; `once` are the seconds of its share of embedding the split."""
    figures = race({"floor": head_alone(table), "stored": over_the_store(table),
                    "embedded": embedding_anew(table, table.backbone)}, rounds)
    head = statistics.median(figures["floor"].seconds) / table.at_once
    played, embedded = figures["stored"].floor_ratio, figures["embedded"].floor_ratio * table.at_once     # in heads
    stored = played + once / head
    return Cost(head, head * stored, head * embedded, head * plain, played - 1, embedded / stored, plain / stored)


def head_alone(table: Table) -> Callable[[], Any]:
    """The methods called on the maps of an episode that lie ready, as often as `over_the_store` plays episodes.

    One that reads nothing but means gets those.
    """
    episode = next(episodes(table))
    maps, *means = ((store[episode.support], store[episode.query]) for store in (*table.stores, *table.means))
    return torch.no_grad()(lambda: [heads(table, episode.support_labels, maps, *means) for _ in range(table.at_once)])


def heads(table: Table, labels: Tensor, maps: Pair, means: Pair | None = None) -> dict[str, Tensor]:
    """The scores of every method on the maps of support and query, or on their means; rules share a search."""
    scores = score_rules(maps[0], labels, maps[1], table.rules) if table.rules else {}
    for name, method in table.methods.items():
        if name not in scores:
            support, query = means if means and reads_means(method) else maps
            scores[name] = method(support, labels, query)
    return scores


def over_the_store(table: Table) -> Callable[[], Any]:
    """What `evaluate` does for each episode: draw it, take its maps, score them, count; quick methods play many."""
    drawn = episodes(table)
    return lambda: table.play(list(islice(drawn, table.at_once)))


def embedding_anew(table: Table, backbone: Callable[[Tensor], Tensor]) -> Callable[[], Any]:
    """An episode with its own pictures embedded, in one batch; bare `features` keep PyTorch's own layout."""
    drawn = episodes(table)

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        one = next(drawn)
        maps = backbone(table.transform(pictures(table.images, torch.cat([one.support, one.query]))))
        scores = heads(table, one.support_labels, (maps[: len(one.support)], maps[len(one.support) :]))
        return right_shares({name: score[None] for name, score in scores.items()}, [one])
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
