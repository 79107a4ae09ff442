"""A table of the paper as cells, each of which says how its number is made; and what a budget affords."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..evaluation.evaluate import Protocol
from ..evaluation.intervals import Accuracy
from ..training.cards import read_card
from .plans import Plan

DATA = {
    "miniimagenet": "miniImageNet (64/16/20 classes, 84 x 84)",
    "tieredimagenet": "tieredImageNet (351/97/160 classes)",
    "cub": "CUB-200-2011, cropped (100/50/50 classes)",
    "meta-inat": "meta-iNat (908/227 classes)",
    "tiered-meta-inat": "tiered meta-iNat (781/354 classes)",
}


def protocol_for(budget: str, shots: int) -> Protocol:
    """The episodes that a budget affords: the paper's 10 x 10,000; 10,000 (5 shots: 2,000); 100."""
    episodes = {"paper": 10_000, "cpu": 10_000 if shots == 1 else 2_000, "tiny": 100}[budget]
    return Protocol(shots=shots, episodes=episodes, repeats=10 if budget == "paper" else 1)


@dataclass(frozen=True)
class Cell:
    """One number of a table: where it stands, what the paper says, and how it is measured."""

    row: str
    column: str
    paper: float | None
    plan: Plan
    method: str                          # name:option=value,...
    shots: int = 1


@dataclass(frozen=True)
class Sheet:
    """A table of the paper at one budget."""

    title: str
    cells: Sequence[Cell]
    note: str = ""
    protocol: Callable[[str, int], Protocol] = protocol_for       # budget, shots -> episodes


@dataclass(frozen=True)
class Measured:
    """What became of a cell: a number and its card, or the reason why there is none."""

    accuracy: Accuracy | None = None
    card: str = ""
    reason: str = ""

    @classmethod
    def on(cls, card: Path, methods: Sequence[str]) -> "dict[str, Measured]":
        """The numbers of these methods on a result card."""
        results = read_card(card).get("results", {})
        missing = next((method for method in methods if method not in results), None)
        if missing is not None:
            raise InputError(f"{str(card)!r} holds no number of {missing!r}: remove its folder to measure it "
                             "again")
        return {method: cls(Accuracy(result["mean"], math.nan if half is None else half), str(card))
                for method in methods for result in [results[method]] for half in [result["half_width_t"]]}
