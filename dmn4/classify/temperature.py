"""The temperature that turns scores into probabilities: from a law, corrected by what held-out pictures say.

Whatever the pictures, the best temperature turned out to follow ways and shots: for dmn4-linear in itself, for other
methods as a multiple of the spread of their scores (docs/results/temperature-law.md, from examples/temperature_law.py).
So a handful of held-out pictures only has to say how far this classifier is from that.
"""


import numpy as np
import torch
from torch import Tensor

from ..methods.base import Law, Method
from .held_out import Answers, Judge
from .shots import Shots

SPREADS = Law(-0.90, 0.08, -0.31)                             # of the temperature over the spread of the scores
FAR = 0.35                                                    # how far others are from a law: a Cauchy scale
STRANGE = 1.75                                                # what the own class adds to the spread, in classes
STRANGERS = 10                                                # pictures judged without their class, at most


def find_temperature(method: Method, judge: Judge, shots: Shots, answers: Answers | None) -> tuple[float, float]:
    """The temperatures of a classifier, as it was when held-out pictures were judged and as it is with all shots."""
    ways = len(shots.counts)
    after = float(shots.counts.float().mean())
    before = answers.shots if answers else after
    unit = 1.0 if method.temperature_law else spread(judge, shots, answers)
    law = method.temperature_law or SPREADS
    usual = law.power(ways, before)
    power = usual if answers is None else best_power(answers.scores / unit, answers.labels, usual, FAR)
    return unit * float(np.exp(power)), unit * float(np.exp(power + law.power(ways, after) - usual))


def spread(judge: Judge, shots: Shots, answers: Answers | None) -> float:
    """How far apart the scores of a picture are; with one picture a class those of strangers tell."""
    ways = len(shots.counts)
    if answers is not None:
        return spread_of(answers.scores)
    if ways == 2:
        return spread_of(judge(shots, shots)[0])              # of the two pictures themselves: too wide, so cautious
    return spread_of(strange_scores(judge, shots)) / (1 - STRANGE / ways)


def strange_scores(judge: Judge, shots: Shots) -> Tensor:
    """The scores of some single pictures, each without its own class: (P, N - 1)."""
    classes = torch.linspace(0, len(shots.counts) - 1, min(STRANGERS, len(shots.counts))).long().tolist()
    return torch.cat([judge(shots.without(label)[0], shots.rows((shots.look == 0) & (shots.labels == label)))[0]
                      for label in classes])


def spread_of(scores: Tensor) -> float:
    """How far apart the scores of a picture are, on average: (Q, N) -> above 0."""
    return float(scores.double().std(1).mean()) or 1.0


def best_power(scores: Tensor, labels: Tensor, usual: float = 0.0, far: float = np.inf) -> float:
    """Log of the temperature that makes the scores the best probabilities: (Q, N), (Q,) -> number.

    By their likelihood, times that of a power which is usually `usual`, give or take `far`: a Cauchy distribution, so
    that an unusual classifier can still convince.
    """
    from scipy.optimize import minimize_scalar

    scores = scores.double()

    def loss(power: float) -> float:
        log_chances = (scores / np.exp(power)).log_softmax(1)                                     # (Q, N)
        return float(np.log1p(((power - usual) / far) ** 2) - log_chances.gather(1, labels[:, None]).sum())

    return float(minimize_scalar(loss, bounds=(usual - 4, usual + 4), method="bounded").x)
