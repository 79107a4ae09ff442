"""Promises about new pictures, made from held-out ones: probabilities, "none of these", and sets of classes.

Whether a picture is of any class is a question about its fit: the largest score of the linear head, and how near the
nearest picture of that class is. A known picture fits as badly as the worst tenth of the held-out ones in about one
case of ten; so refusing those that fit worse refuses about a tenth of the known ones, whatever the pictures (conformal
prediction). Sets of classes are found alike.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..methods.base import Method
from .held_out import Answers, Judge, judge_held_out
from .shots import Shots
from .temperature import find_temperature

UNCALIBRATED = "uncalibrated"
SURE = 0.9                                                    # of the interval that a promise states


@dataclass(frozen=True)
class Calibration:
    """What turns scores into probabilities and fits into "one of these"; plain numbers, stored with the model."""

    temperature: float = 1.0                                  # of the scores
    fits: tuple[float, ...] = ()                              # of the held-out pictures, ascending
    chances: tuple[float, ...] = ()                           # that each was given for its own class, ascending

    @property
    def held_out(self) -> int:
        """Pictures that were judged without themselves."""
        return len(self.fits)

    def rejects(self, share: float) -> bool:
        """Whether there are enough held-out pictures to refuse this share of the known ones, and no more."""
        return self.place(share) > 0

    def probabilities(self, scores: Tensor) -> Tensor:
        """The probability of each class, given that it is one of them: (Q, N) -> (Q, N)."""
        return (scores.double() / self.temperature).softmax(1)

    def known(self, fit: Tensor) -> Tensor:
        """The share of known pictures that fit as badly or worse, (Q,) -> (Q,); NaN if nothing was held out."""
        if not self.fits:
            return torch.full((len(fit),), torch.nan, dtype=torch.float64)
        below = (torch.tensor(self.fits, dtype=torch.float64) <= fit.double()[:, None]).sum(1)    # (Q,)
        return (below + 1).double() / (self.held_out + 1)

    def supports(self, coverage: float) -> bool:
        """Whether enough pictures were held out to leave a class out of a set of this coverage."""
        return self.place(1 - coverage) > 0

    def place(self, share: float) -> int:
        """How many of the held-out pictures may be beyond a limit that this share of pictures is beyond."""
        return math.floor(share * (self.held_out + 1) + 1e-9)

    def contains(self, probabilities: Tensor, coverage: float) -> Tensor:
        """The classes that hold a picture's own with this probability: (Q, N) -> bool (Q, N).

        The limit lies between two held-out pictures where the share does. All classes, where too few pictures were
        held out to leave any out.
        """
        if not self.supports(coverage):
            return torch.ones_like(probabilities, dtype=torch.bool)
        position = (1 - coverage) * (self.held_out + 1)                                       # counted from 1
        return probabilities >= float(np.interp(position, range(1, self.held_out + 1), self.chances))

    def promise(self, share: float) -> str:
        """What refusing this share means with so many held-out pictures, in words."""
        if not self.rejects(share):
            return f"{UNCALIBRATED}: {self.needs(share)}, so no picture is refused"
        low, high = self.refused(share)
        return (f"refuses about {share:.0%} of known pictures ({low:.0%} to {high:.0%}, judged by {self.held_out} "
                "held-out pictures)")

    def needs(self, share: float) -> str:
        """How many held-out pictures refusing this share takes, and how many there are, in words."""
        return (f"refusing {share:.0%} of known pictures takes {math.ceil(1 / share) - 1} held-out ones and there are "
                f"{self.held_out} (only classes with several pictures can hold one out)")

    def refused(self, share: float) -> tuple[float, float]:
        """The interval that holds the share of known pictures really refused, in nine of ten classifiers like this."""
        from scipy.stats import beta

        place = self.place(share)
        low, high = beta.ppf([(1 - SURE) / 2, (1 + SURE) / 2], place, self.held_out + 1 - place)
        return float(low), float(high)


@torch.inference_mode()
def calibrate(method: Method, judge: Judge, shots: Shots) -> Calibration:
    """The calibration of a classifier, from its labelled pictures alone."""
    shots = shots.distinct()
    answers = judge_held_out(judge, shots)
    before, after = find_temperature(method, judge, shots, answers)
    if answers is None:
        return Calibration(after)
    return Calibration(after, ascending(answers.fit), ascending(own_chances(answers, before)))


def own_chances(answers: Answers, temperature: float) -> Tensor:
    """The probability that each picture was given for its own class -> (Q,)."""
    chances = (answers.scores.double() / temperature).softmax(1)
    return chances.gather(1, answers.labels[:, None])[:, 0]


def ascending(values: Tensor) -> tuple[float, ...]:
    """Numbers in order."""
    return tuple(values.double().sort().values.tolist())
