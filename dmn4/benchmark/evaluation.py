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
from rich.table import Table
from torch import Tensor

from ..data.samples import draw_clutter
from ..episodes.maps import embed_all, pictures
from ..episodes.sampling import Episode
from ..episodes.scoring import right_shares
from ..evaluation.contenders import load_trained
from ..evaluation.evaluate import Protocol
from ..evaluation.split import EmbeddedSplit
from ..files import write_json
from ..memory import keep_freed_memory
from ..methods.together import score_together
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
    images, trained = draw_clutter(10, 20, size=84, seed=0), load_trained()
    splits = {case: EmbeddedSplit(images, {name: trained.with_method(name) for name in methods}, shots)
              for case, (methods, shots) in CASES.items()}
    plain = {name: plain_ratio(split, rounds) for name, split in splits.items()}
    keep_freed_memory()                                            # it cannot be undone, so the plain form came first
    start = time.perf_counter()
    embed_all(trained.backbone, images, trained.transform)
    once = (time.perf_counter() - start) / len(images) * SPLIT / EPISODES
    costs = {name: cost(split, rounds, plain[name], once) for name, split in splits.items()}
    write_json(out, {"machine": about, "rounds": rounds, "cases": {name: asdict(cost) for name, cost in costs.items()}})
    console.print(cost_table(costs))
    console.print(f"every figure: {out}")
    return costs


def plain_ratio(split: EmbeddedSplit, rounds: int) -> float:
    """How many times the head an episode takes that embeds its pictures in the plain way."""
    runners = {"floor": head_alone(split), "plain": embedding_anew(split, split.backbone.features)}
    return race(runners, rounds)["plain"].floor_ratio * split.at_once


def cost(split: EmbeddedSplit, rounds: int, plain: float, once: float) -> Cost:
    """What an episode of one case costs in every form; `once` are the seconds of its share of embedding the split."""
    figures = race({"floor": head_alone(split), "stored": over_the_store(split),
                    "embedded": embedding_anew(split, split.backbone)}, rounds)
    head = statistics.median(figures["floor"].seconds) / split.at_once
    played, embedded = figures["stored"].floor_ratio, figures["embedded"].floor_ratio * split.at_once     # in heads
    stored = played + once / head
    return Cost(head, head * stored, head * embedded, head * plain, played - 1, embedded / stored, plain / stored)


def head_alone(split: EmbeddedSplit) -> Callable[[], Any]:
    """The methods called on the maps of an episode that lie ready, as often as `over_the_store` plays episodes.

    One that reads nothing but means gets those.
    """
    episode = next(episodes(split))
    maps, *means = ((store[episode.support], store[episode.query]) for store in (*split.stores, *split.means))
    return torch.no_grad()(lambda: [heads(split, episode.support_labels, maps, *means) for _ in range(split.at_once)])


def heads(split: EmbeddedSplit, labels: Tensor, maps: Pair, means: Pair | None = None) -> dict[str, Tensor]:
    """The scores of every method on the maps of support and query, or on their means; rules share a search."""
    scores = score_together(maps[0], labels, maps[1], split.sharing) if split.sharing else {}
    for name, method in split.methods.items():
        if name not in scores:
            support, query = means if means and method.reads_means else maps
            scores[name] = method(support, labels, query)
    return scores


def over_the_store(split: EmbeddedSplit) -> Callable[[], Any]:
    """What `evaluate` does for each episode: draw it, take its maps, score them, count; quick methods play many."""
    drawn = episodes(split)
    return lambda: split.play(list(islice(drawn, split.at_once)))


def embedding_anew(split: EmbeddedSplit, backbone: Callable[[Tensor], Tensor]) -> Callable[[], Any]:
    """An episode with its own pictures embedded, in one batch; bare `features` keep PyTorch's own layout."""
    drawn = episodes(split)

    @torch.no_grad()
    def run() -> dict[str, Tensor]:
        episode = next(drawn)
        maps = backbone(split.transform(pictures(split.images, torch.cat([episode.support, episode.query]))))
        scores = heads(split, episode.support_labels, (maps[: len(episode.support)], maps[len(episode.support) :]))
        return right_shares({name: score[None] for name, score in scores.items()}, [episode])
    return run


def episodes(split: EmbeddedSplit) -> Iterator[Episode]:
    """The episodes of the protocol, the same for every contestant."""
    return Protocol(shots=split.shots).draw(split.images.labels)


def cost_table(costs: dict[str, Cost]) -> Table:
    """The costs for a terminal of 80 columns."""
    shown = Table("case", title=f"one of {EPISODES:,} episodes over {SPLIT:,} embedded pictures", title_justify="left")
    for heading in ("head, ms", "stored", "beyond head", "embedded anew", "plainly"):
        shown.add_column(heading, justify="right")
    for name, cost in costs.items():
        shown.add_row(name, f"{1e3 * cost.head:.2f}", f"{1e3 * cost.stored:.2f}", f"{100 * cost.beyond:.0f} %",
                      f"{cost.embedded_ratio:.1f} x", f"{cost.plain_ratio:.1f} x")
    return shown
