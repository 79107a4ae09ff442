"""Labelled pictures that the others would name differently, worst first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .shots import Shots

ROUNDS = 10                                                   # in each the classifier learns once more
Score = Callable[[Shots, Shots], Tensor]                      # support, pictures -> scores (Q, N)


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


def find_suspects(score: Score, probabilities: Callable[[Tensor], Tensor], shots: Shots,
                  names: list[Any]) -> list[Suspect]:
    """The suspects of a classifier: by how it scores pictures beside others, and its probabilities for scores.

    Pictures of a class that has only one are not judged.
    """
    judged, scores = judged_by_the_rest(score, shots.distinct())
    if not len(judged.labels):
        return []
    chances = probabilities(scores)                                                               # (Q, N)
    own = chances.gather(1, judged.labels[:, None])[:, 0]                                         # (Q,)
    best, other = chances.max(1)                                                                  # (Q,), (Q,)
    contradicted = (other != judged.labels).nonzero()[:, 0]
    worst_first = contradicted[(best - own)[contradicted].argsort(descending=True, stable=True)]
    plain = shots.rows(shots.look == 0)
    return [Suspect(int(judged.image[row]), names[judged.labels[row]], names[other[row]], float(best[row]),
                    float(own[row]), most_similar(plain, judged, row, int(other[row])),
                    most_similar(plain, judged, row, int(judged.labels[row]))) for row in worst_first.tolist()]


@torch.inference_mode()
def judged_by_the_rest(score: Score, shots: Shots) -> tuple[Shots, Tensor]:
    """The pictures of classes that have several, and what the others score them: (Q, N).

    In each of a few rounds every such class gives up a share of its pictures and keeps the rest.
    """
    plain = shots.rows(shots.look == 0)
    number = place_in_class(plain.labels) % ROUNDS                                                # (n,)
    number[plain.counts[plain.labels] == 1] = ROUNDS                                              # never judged
    places = [(number == turn).nonzero()[:, 0] for turn in range(ROUNDS)]
    parts = [plain.rows(place) for place in places if len(place)]
    scores = [score(shots.rows(~torch.isin(shots.image, part.image)), part) for part in parts]
    return plain.rows(torch.cat(places)), torch.cat(scores) if scores else torch.empty(0, len(plain.counts))


def place_in_class(labels: Tensor) -> Tensor:
    """How many pictures of the same class come before each one: (n,) -> (n,)."""
    order, counts = labels.argsort(stable=True), labels.bincount()                                # (n,), (N,)
    place = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[order]]
    return torch.empty_like(labels).scatter(0, order, place)


def most_similar(plain: Shots, judged: Shots, row: int, label: int) -> int:
    """The number of the picture of a class, other than itself, whose pooled vector is nearest to that of a row."""
    others = plain.rows((plain.labels == label) & (plain.image != judged.image[row]))
    alike = F.normalize(others.maps.means) @ F.normalize(judged.maps.means[row], dim=0)
    return int(others.image[int(alike.argmax())])
