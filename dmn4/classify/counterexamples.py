"""Pictures that are known not to be of a class, or to be of none: classes that they are mistaken for lose score."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..methods.base import HEAD_PRIOR
from ..methods.linear_head import LinearHead, fit_head
from .pictures import Pictures
from .shots import Shots

ALL = -1                                                      # the label of a picture that is of none of the classes


@dataclass(frozen=True)
class Counterexamples:
    """The means of their maps, and what each is not."""

    means: Tensor                                             # (m, C)
    labels: Tensor                                            # (m,)  the class that it is not, or ALL
    pictures: Pictures

    @classmethod
    def none(cls) -> "Counterexamples":
        """Before any was taught."""
        return cls(torch.empty(0, 0), torch.empty(0, dtype=torch.long), Pictures())

    def __len__(self) -> int:
        return len(self.labels)

    def joined(self, other: "Counterexamples") -> "Counterexamples":
        """These, then the others."""
        if not len(self):
            return other
        return Counterexamples(torch.cat([self.means, other.means]), torch.cat([self.labels, other.labels]),
                               self.pictures + other.pictures)

    def rows(self, chosen: Tensor) -> "Counterexamples":
        """Some of them: bool (m,)."""
        kept = self.pictures.chosen(chosen.nonzero()[:, 0].tolist())
        return Counterexamples(self.means[chosen], self.labels[chosen], kept)

    def renumbered(self, before: Iterable[Hashable], after: Iterable[Hashable]) -> "Counterexamples":
        """The same among other classes; those of a class that is gone go with it."""
        places = {name: place for place, name in enumerate(after)}
        numbers = torch.tensor([*(places.get(name, ALL) for name in before), ALL])
        labels = numbers[self.labels]                                                        # ALL, -1, is the last
        stay = (labels != ALL) | (self.labels == ALL)
        return Counterexamples(self.means, labels, self.pictures).rows(stay)

    def names(self, classes: list[Any]) -> list[Any]:
        """What each is not, by name; None: it is of none of the classes."""
        return [None if label == ALL else classes[label] for label in self.labels.tolist()]


@dataclass(frozen=True)
class Objections:
    """A linear head in which every counterexample is a class of its own, beside the real ones."""

    head: LinearHead                                          # N classes, then m counterexamples
    against: Tensor                                           # bool (N, m)  which speak against which class

    @classmethod
    def of(cls, counterexamples: Counterexamples, shots: Shots, blocks: list[int]) -> "Objections":
        """What counterexamples say beside labelled pictures."""
        ways, count = len(shots.counts), len(counterexamples)
        means = torch.cat([shots.maps.means, counterexamples.means])
        labels = torch.cat([shots.labels, ways + torch.arange(count)])
        against = (counterexamples.labels == ALL) | (counterexamples.labels == torch.arange(ways)[:, None])
        return cls(fit_head(means, labels, blocks, HEAD_PRIOR), against)

    def weigh(self, means: Tensor) -> tuple[Tensor, Tensor]:
        """What the head says of the classes, and what each loses, for means (Q, C) -> (Q, N), (Q, N).

        A class loses by how much the picture is more like one of its counterexamples than like the class.
        """
        likely, others = self.head.scores(means).split(list(self.against.shape), dim=1)           # (Q, N), (Q, m)
        nearest = others[:, None].masked_fill(~self.against.to(others.device), -torch.inf).amax(2)    # (Q, N)
        return likely, (nearest - likely).clamp(min=0)

    @staticmethod
    def heard(scores: Tensor, likely: Tensor, losses: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of a method, and what the head says, less the losses: (Q, N) each -> (Q, N), (Q, N).

        A unit of the head is as large among the scores as the classes spread there, beside how they spread in the head.
        """
        unit = scores.std(1, keepdim=True) / likely.std(1, keepdim=True).clamp_min(1e-12)         # (Q, 1)
        return scores - losses * unit, likely - losses
