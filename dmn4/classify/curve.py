"""Have I labelled enough? How accurate a classifier is, and would be with more labelled pictures."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .held_out import Judge, place_in_class
from .shots import Shots

ROUNDS = 5                                                    # in each a fifth of every class is held out
BUDGET = 500                                                  # pictures held out, at most
SURE = 1.96                                                   # standard deviations: an interval of 95 %
SLOPE, SLOPES = 0.7, 0.25                                     # of a curve as it usually is, give or take: docs/results/
OFFSET, OFFSETS = 1.0, 2.0                                    # log-odds of being right, before anything is known
CLASSES = 1.0                                                 # log-odds by which classes differ from all
TIMES = (1, 2, 4)                                             # as many labelled pictures as now
ENOUGH = 0.01                                                 # a gain below it is not worth twice the labels
Progress = Callable[[Sequence[Any], str], Iterable[Any]]      # steps, words -> the same, with a bar


@dataclass(frozen=True)
class Point:
    """An accuracy with its 95 % interval."""

    shots: float                                              # labelled pictures of a class, on average
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class ClassCurve:
    """How often new pictures of one class are named rightly, now and with twice as many labelled ones."""

    label: Any
    shots: int                                                # labelled pictures
    judged: int                                               # of them were judged by the others
    now: Point
    twice: Point
    taken_for: tuple[tuple[Any, int], ...]                    # other names they were given, how often


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy against labelled pictures: measured with fewer, expected now, with twice and four times as many."""

    judged: int                                               # pictures that were judged by the others
    measured: tuple[Point, ...]
    expected: tuple[Point, ...]
    classes: tuple[ClassCurve, ...]                           # that have several pictures, the worst first

    @property
    def gain(self) -> float:
        """What twice as many labelled pictures would add to the accuracy."""
        return self.expected[1].accuracy - self.expected[0].accuracy

    @property
    def enough(self) -> bool:
        """Whether twice as many labelled pictures would add less than one point."""
        return self.gain < ENOUGH

    @property
    def weakest(self) -> tuple[Any, ...]:
        """The classes, three at most, of which new pictures are named wrongly most often."""
        return tuple(group.label for group in self.classes[:3] if group.now.accuracy < self.expected[0].accuracy)


@dataclass(frozen=True)
class Judged:
    """The held-out pictures at one size: each is judged by others of its class, `own` of them."""

    labels: Tensor                                            # (Q,)
    said: Tensor                                              # (Q,)
    own: Tensor                                               # (Q,)
    shots: float                                              # of all classes, on average

    @classmethod
    def joined(cls, parts: Sequence["Judged"]) -> "Judged":
        """The pictures of all parts."""
        labels, said, own = (torch.cat([getattr(part, name) for part in parts]) for name in ("labels", "said", "own"))
        return cls(labels, said, own, float(np.mean([part.shots for part in parts])))

    @property
    def right(self) -> Tensor:
        """Which were named rightly -> bool (Q,)."""
        return self.said == self.labels


def learning_curve(judge: Judge, shots: Shots, names: Sequence[Any],
                   progress: Progress = lambda steps, words: steps) -> LearningCurve:
    """The curve of a classifier: by how it judges pictures beside others.

    In each of a few rounds a share of every class is held out, and the classifier learns from one, two, four... of
    the others until it learns from all. Each picture is held out once, so the cost grows with the pictures.
    """
    shots = shots.distinct()
    steps = list(draws(shots))
    if not steps:
        raise InputError("no class has several different pictures: label at least two of each to see how often new "
                         "ones are named rightly")
    sizes: dict[float, list[Judged]] = {}
    for size, chosen, held_out in progress(steps, "learning from fewer pictures"):
        sizes.setdefault(size, []).append(judged(judge, shots, chosen, held_out))
    return summary([Judged.joined(part) for _, part in sorted(sizes.items())], shots.counts, names)


def draws(shots: Shots) -> Iterator[tuple[float, Tensor, Tensor]]:
    """At most how many of each class are learnt from; which these are, and which are judged: numbers of pictures."""
    plain = shots.rows(shots.look == 0)
    several = plain.counts[plain.labels] > 1                                                      # (n,)
    folds = place_in_class(plain.labels) % ROUNDS                                                 # (n,)
    most = int(plain.counts.max())
    sizes = [2.0**power for power in range(64) if 2**power < most - math.ceil(most / ROUNDS)]
    for number in range(ROUNDS):
        held_out = plain.image[several & (folds == number)]
        few = held_out[torch.linspace(0, len(held_out) - 1, min(len(held_out), BUDGET // ROUNDS)).long()]
        rest = (~torch.isin(plain.image, held_out)).nonzero()[:, 0]
        rest = rest[torch.randperm(len(rest), generator=torch.Generator().manual_seed(number))]
        place = place_in_class(plain.labels[rest])                                                # (r,)
        for size in [*sizes, math.inf] if len(few) else []:
            yield size, plain.image[rest[place < size]], few


def judged(judge: Judge, shots: Shots, chosen: Tensor, held_out: Tensor) -> Judged:
    """The held-out pictures as the chosen ones would name them."""
    support = shots.rows(torch.isin(shots.image, chosen))
    pictures = shots.rows(torch.isin(shots.image, held_out) & (shots.look == 0))
    counts = support.counts
    return Judged(pictures.labels, judge(support, pictures)[0].argmax(1), counts[pictures.labels],
                  float(counts.float().mean()))


def summary(sizes: Sequence[Judged], counts: Tensor, names: Sequence[Any]) -> LearningCurve:
    """What the judgements at all sizes come to."""
    now, last = float(counts.float().mean()), sizes[-1]
    weight = 1 / len(sizes)                                   # the same pictures are judged at every size
    grown = np.concatenate([np.full(len(part.right), math.log(part.shots / now)) for part in sizes])
    every = Judged.joined(sizes)
    line = fitted(grown, every.right.numpy(), weight, np.array([OFFSET, SLOPE]), np.array([OFFSETS, SLOPES]))
    measured = tuple(wilson(part.shots, int(part.right.sum()), len(part.right)) for part in sizes)

    def of_class(label: int) -> ClassCurve:
        mine, shots = every.labels == label, int(counts[label])
        own_class = fitted((every.own[mine] / shots).log().numpy(), every.right[mine].numpy(), weight, line[0],
                     np.array([CLASSES, SLOPES]))
        mistakes = Counter(last.said[(last.labels == label) & ~last.right].tolist())
        return ClassCurve(names[label], shots, int((last.labels == label).sum()), expect(own_class, shots, 1),
                          expect(own_class, shots, 2), tuple((names[other], n) for other, n in mistakes.most_common()))

    classes = sorted(map(of_class, last.labels.unique().tolist()), key=lambda curve: curve.now.accuracy)
    return LearningCurve(len(last.labels), measured, tuple(expect(line, now, times) for times in TIMES), tuple(classes))


def fitted(grown: np.ndarray, right: np.ndarray, weight: float, mean: np.ndarray,
           spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The line through the log-odds of being right over the log of growth, and its covariance: (n,), (n,) -> (2,).

    The most probable line, if lines are usually as `mean` (2,), give or take `spread` (2,); each row counts `weight`.
    """
    rows = np.stack([np.ones_like(grown), grown], axis=1)                                         # (n, 2)
    prior, line = np.diag(spread**-2.0), mean.astype(float)
    for _ in range(30):                                       # Newton's steps; the function is concave
        chance = odds_to_chance(rows @ line)                                                      # (n,)
        slope = weight * rows.T @ (right - chance) - prior @ (line - mean)                        # (2,)
        curvature = weight * (rows.T * (chance * (1 - chance))) @ rows + prior                    # (2, 2)
        line = line + np.clip(np.linalg.solve(curvature, slope), -1, 1)
    return line, np.linalg.inv(curvature)


def expect(line: tuple[np.ndarray, np.ndarray], shots: float, times: float) -> Point:
    """The accuracy on the line with so many times the labelled pictures of now."""
    row = np.array([1.0, math.log(times)])
    middle, spread = row @ line[0], SURE * math.sqrt(row @ line[1] @ row)
    low, accuracy, high = (float(odds_to_chance(middle + sign * spread)) for sign in (-1, 0, 1))
    return Point(times * shots, accuracy, low, high)


def odds_to_chance(odds: np.ndarray) -> np.ndarray:
    """Log-odds as probabilities."""
    chances: np.ndarray = 1 / (1 + np.exp(-odds))
    return chances


def wilson(shots: float, right: int, count: int) -> Point:
    """The share of right answers and Wilson's interval."""
    share, room = right / count, SURE**2 / count
    middle = (share + room / 2) / (1 + room)
    spread = SURE / (1 + room) * math.sqrt(share * (1 - share) / count + room / (4 * count))
    return Point(shots, share, max(0.0, middle - spread), min(1.0, middle + spread))
