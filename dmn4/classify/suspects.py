"""Labelled pictures whose label is more probably wrong than right, judged by the other pictures; worst first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from .held_out import Judge, judge_held_out
from .shots import Shots


@dataclass(frozen=True)
class Suspect:
    """A labelled picture whose label the other labelled pictures contradict; pictures by number, in the order given."""

    picture: int
    label: Any                                                # as it was given
    looks_like: Any                                           # what the others would name it
    probability: float                                        # of that name
    probability_of_label: float
    nearest_there: int                                        # the most similar picture of the class it looks like
    nearest_here: int                                         # the most similar one of its own class


WRONG = 0.1                                                   # of the labels, before any is looked at


def find_suspects(judge: Judge, probabilities: Callable[[Tensor], Tensor], shots: Shots, names: list[Any],
                  wrong: float = WRONG) -> list[Suspect]:
    """The suspects of a classifier: by how it judges pictures beside others, and its probabilities for scores.

    If a share `wrong` of labels is wrong, this one more probably is than not where the best other class is more than
    (1 - wrong) / wrong times as probable as it. Pictures of a class that has only one are not judged.
    """
    if not 0 < wrong <= 0.5:
        raise InputError(f"wrong is {wrong}; it is the share of labels that may be wrong, above 0 and at most 0.5")
    answers = judge_held_out(judge, shots.distinct(), budget=len(shots.labels))
    if answers is None:
        return []
    chances = probabilities(answers.scores)                                                       # (Q, N)
    own_chance = chances.gather(1, answers.labels[:, None])[:, 0]                                 # (Q,)
    best, other = chances.max(1)                                                                  # (Q,), (Q,)
    contradicted = ((other != answers.labels) & (wrong * best > (1 - wrong) * own_chance)).nonzero()[:, 0]
    worst_first = contradicted[(own_chance / best)[contradicted].argsort(stable=True)]
    plain = shots.rows(shots.look == 0)
    return [Suspect(int(answers.image[row]), names[answers.labels[row]], names[other[row]], float(best[row]),
                    float(own_chance[row]), most_similar(plain, int(answers.image[row]), int(other[row])),
                    most_similar(plain, int(answers.image[row]), int(answers.labels[row])))
            for row in worst_first.tolist()]


def most_similar(plain: Shots, image: int, label: int) -> int:
    """The number of the picture of a class whose pooled vector is nearest to that of another picture."""
    others = plain.rows((plain.labels == label) & (plain.image != image))
    itself = plain.maps.means[plain.image == image][0]                                            # (C,)
    alike = F.normalize(others.maps.means) @ F.normalize(itself, dim=0)
    return int(others.image[int(alike.argmax())])
