"""Probabilities one can trust: the temperature of a classifier's scores, from its labelled pictures and experience.

Whatever the pictures and the method, the best temperature turned out to be nearly the same multiple of the spread of
the scores, by a rule of ways and shots (docs/results/temperature-law.md, from examples/temperature_law.py). A handful
of held-out pictures then has to say only how far this classifier is from that.
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from .shots import Shots

START, BY_WAYS, BY_SHOTS = -0.90, 0.08, -0.31                 # the line through all that was measured
FAR = 0.35                                                    # how far others are from it: a Cauchy scale
STRANGE = 1.75                                                # what the own class adds to the spread, in classes
STRANGERS = 10                                                # pictures judged without their class, at most
Score = Callable[[Shots, Tensor], Tensor]                     # support, query maps (Q, C, H, W) -> scores (Q, N)


def usual_power(ways: int, shots: float) -> float:
    """Log of the usual temperature over the spread of the scores; `shots`: pictures of a class, on average."""
    return START + BY_WAYS * float(np.log(ways)) + BY_SHOTS * float(np.log(shots))


def fit_temperature(scores: Tensor, labels: Tensor, before: float, after: float) -> float:
    """The temperature of a classifier from scores of held-out pictures: (Q, N), (Q,) -> above 0.

    With as many shots as judged them `before` is the usual power, with all shots `after`.
    """
    spread = spread_of(scores)
    return spread * float(np.exp(after + best_power(scores / spread, labels, before, FAR) - before))


def single_shot_temperature(scores: Tensor, ways: int) -> float:
    """The temperature of a classifier with one picture a class, from `strange_scores`: (P, N - 1) -> above 0."""
    return spread_of(scores) / (1 - STRANGE / ways) * float(np.exp(usual_power(ways, 1)))


def best_power(scores: Tensor, labels: Tensor, usual: float = 0.0, far: float = np.inf) -> float:
    """Log of the temperature that makes the scores the best probabilities: (Q, N), (Q,) -> number.

    By their likelihood, times that of a power which is usually `usual`, give or take `far`: a Cauchy distribution, so
    that an unusual classifier can still convince.
    """
    scores = scores.double()

    def loss(power: float) -> float:
        said = (scores / np.exp(power)).log_softmax(1)                                            # (Q, N)
        return float(np.log1p(((power - usual) / far) ** 2) - said.gather(1, labels[:, None]).sum())

    return float(minimize_scalar(loss, bounds=(-6, 6), method="bounded").x)


def spread_of(scores: Tensor) -> float:
    """How far apart the scores of a picture are, on average: (Q, N) -> above 0."""
    return float(scores.double().std(1).mean()) or 1.0


def strange_scores(score: Score, shots: Shots) -> Tensor:
    """The scores of some pictures, each without its own class: (P, N - 1)."""
    plain = shots.rows(shots.look == 0)
    classes = torch.linspace(0, len(shots.counts) - 1, min(STRANGERS, len(shots.counts))).long().tolist()
    return torch.cat([score(shots.without(label)[0], plain.maps[plain.labels == label].float()) for label in classes])
