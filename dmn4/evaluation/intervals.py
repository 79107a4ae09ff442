"""Means over episodes and their 95 % intervals; differences of two methods on the same episodes."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..errors import choose

FORMULAS = ("t", "normal")


@dataclass(frozen=True)
class Accuracy:
    """Mean accuracy over episodes and the half-width of its 95 % interval, as shares of 1."""

    mean: float
    half_width: float
    formula: str = "t"

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} ± {100 * self.half_width:.2f}"


def half_width(values: np.ndarray, formula: str = "t") -> float:
    """Half of the 95 % interval of a mean: (n,) -> number.

    "t": Student's factor and the sample deviation (DMN4, RFS). "normal": 1.96 and the population deviation (FRN, DSN).
    """
    if choose("interval formula", formula, FORMULAS) == "normal":
        return float(1.96 * values.std() / len(values) ** 0.5)
    if len(values) < 2:
        return float("nan")
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)


def accuracy_of(values: np.ndarray, formula: str = "t") -> Accuracy:
    """Accuracies of episodes (repeats, episodes) -> the mean of the repeats' means and of their half-widths."""
    return Accuracy(float(values.mean()), float(np.mean([half_width(row, formula) for row in values])), formula)


@dataclass(frozen=True)
class Difference:
    """How much better the first of two methods is, on the same episodes."""

    mean: float
    half_width: float       # of the paired difference (t form)
    p_value: float          # of the paired t-test: how often chance alone gives a difference this large
    tighter: float          # interval of the difference of two separate evaluations over the paired one

    def __str__(self) -> str:
        return f"{100 * self.mean:+.2f} ± {100 * self.half_width:.2f}"


def paired_difference(first: np.ndarray, second: np.ndarray) -> Difference:
    """The difference of two rows of accuracies on the same episodes: any shape, both alike."""
    first, second = first.ravel(), second.ravel()
    gaps = first - second                                              # (n,)
    mean, width = float(gaps.mean()), half_width(gaps)
    separate = float(np.hypot(half_width(first), half_width(second)))  # as if each had drawn its own episodes
    if width == 0:                                                     # the same lead in every episode
        return Difference(mean, width, float(mean == 0), float("inf"))
    return Difference(mean, width, float(stats.ttest_rel(first, second).pvalue), separate / width)
