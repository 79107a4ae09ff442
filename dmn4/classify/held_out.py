"""Labelled pictures judged by the others: what calibration, and the search for wrong labels, are read from."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .shots import Shots

ROUNDS = 10                                                   # at most; in each the classifier learns once more
BUDGET = 300                                                  # pictures held out for a calibration, at most


@dataclass(frozen=True)
class Answers:
    """What a classifier says of pictures that it did not learn from."""

    scores: Tensor                                            # (Q, N)
    fit: Tensor                                               # (Q,)  how well each picture fits its best class
    labels: Tensor                                            # (Q,)
    image: Tensor                                             # (Q,)  number of the picture
    shots: float                                              # pictures of a class it learnt from, on average


Judge = Callable[[Shots, Shots], tuple[Tensor, Tensor]]       # support, pictures -> scores (Q, N) and fit (Q,)


def judge_held_out(judge: Judge, shots: Shots, budget: int = BUDGET) -> Answers | None:
    """The pictures of classes that have several, each judged without itself; None where there are none.

    In each of a few rounds every such class gives up a share of its pictures, one or more, and keeps the rest. At most
    `budget` pictures are judged, so the cost grows with the classes as learning does.
    """
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    learnt_from: list[float] = []
    left = budget
    for held_out in rounds(shots):
        if left <= 0:
            break
        chosen = held_out[torch.linspace(0, len(held_out) - 1, min(left, len(held_out))).long()]
        support = shots.rows(~torch.isin(shots.image, chosen))
        pictures = shots.rows(torch.isin(shots.image, chosen) & (shots.look == 0))
        parts.append((*judge(support, pictures), pictures.labels, pictures.image))
        learnt_from.append(float(support.counts.float().mean()))
        left -= len(chosen)
    if not parts:
        return None
    scores, fit, labels, image = (torch.cat(column) for column in zip(*parts, strict=True))
    return Answers(scores, fit, labels, image, sum(learnt_from) / len(learnt_from))


def rounds(shots: Shots) -> list[Tensor]:
    """The pictures that are held out together, by number; of a class with one picture none, of others never all."""
    plain = shots.rows(shots.look == 0)
    place = place_in_class(plain.labels)                                                          # (n,)
    several = plain.counts[plain.labels] > 1                                                      # (n,)
    parts = (plain.image[several & (place % ROUNDS == number)] for number in range(ROUNDS))
    return [part for part in parts if len(part)]


def place_in_class(labels: Tensor) -> Tensor:
    """How many pictures of the same class come before each one: (n,) -> (n,)."""
    order = labels.argsort(stable=True)
    start = labels.bincount().cumsum(0) - labels.bincount()                                       # (N,)
    place = torch.empty_like(labels)
    place[order] = torch.arange(len(labels)) - start[labels[order]]
    return place
