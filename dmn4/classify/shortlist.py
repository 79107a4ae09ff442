"""Of many classes a few are compared closely: a linear head names them, the method matches the picture with those.

The head is one small product with the mean of the map. Only the maps of the classes that it names are read, so
an answer costs about the same whether there are a hundred classes or ten thousand.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..errors import InputError
from ..methods.base import DescriptorMethod, Learnt, Method, compares_descriptors
from ..methods.checks import check_map
from ..methods.linear_head import LinearHead
from ..methods.vectors import class_means
from .shots import Shots

USUAL = 12                                                    # docs/results/shortlist.md


def length_of(shortlist: int | None, method: Method, ways: int, adopts: bool = False) -> int:
    """How many of so many classes are compared closely: `shortlist`, or by itself as many as never cost accuracy.

    All of them for a method that compares no descriptors, and for one that `adopts` descriptors of unlabelled pictures.
    """
    able = compares_descriptors(method) and not adopts
    if shortlist is None:
        return min(USUAL, ways) if able else ways
    if shortlist < 2:
        raise InputError(f"shortlist is {shortlist}; at least two classes have to be compared")
    if shortlist < ways and not able:
        raise InputError(f"shortlist={shortlist} was given, but this method has no shorter way than to compare all "
                         f"{ways} classes: leave it out")
    return min(shortlist, ways)


@dataclass(frozen=True)
class Near:
    """The classes that a picture is compared with closely, and what the method has learnt of those."""

    classes: Tensor                                           # (L,)  ascending
    rows: Tensor                                              # (n,)  of the support: their pictures
    labels: Tensor                                            # (n,)  their places in `classes`
    learnt: Learnt


@dataclass(frozen=True)
class Whole:
    """All classes are compared with every picture."""

    method: Method
    learnt: Learnt
    labels: Tensor                                            # (n,)  of the support
    directions: Tensor                                        # (n, C)  of the support, as the head sees them

    def scores(self, maps: Tensor, means: Tensor, likely: Tensor) -> Tensor:
        """The method's scores, whatever the head says: (Q, c, H, W), (Q, C), (Q, N) -> (Q, N)."""
        return self.method.answer_kept(self.learnt, maps, means)

    def nearest(self, directions: Tensor, classes: Tensor) -> Tensor:
        """The largest cosine of each picture with one of a class's pictures: (Q, C), its class (Q,) -> (Q,)."""
        cosines = directions @ self.directions.T                                                  # (Q, n)
        return cosines.masked_fill(self.labels.to(classes.device) != classes[:, None], -1).amax(1)

    def near(self, likely: Tensor) -> Near:
        """All classes, whatever the head says."""
        return Near(torch.arange(int(self.labels.max()) + 1), torch.arange(len(self.labels)), self.labels, self.learnt)

    def spread(self, listed: Tensor, near: Near, likely: Tensor) -> Tensor:
        """The scores of all classes from those of the classes near a picture, which are all: (N,) -> (N,)."""
        return listed


@dataclass(frozen=True)
class Shortlist:
    """Labelled pictures of many classes, of which `length` are compared closely with a picture."""

    method: DescriptorMethod
    support: Shots
    head: LinearHead
    length: int

    @cached_property
    def members(self) -> tuple[Tensor, list[int]]:
        """The rows of the support class by class (n,), and where each class begins there; the end of the last."""
        return self.support.labels.argsort(stable=True), [0, *self.support.labels.bincount().cumsum(0).tolist()]

    @cached_property
    def middle(self) -> Tensor:
        """The mean of the class means -> (C,)."""
        return class_means(self.support.maps.means, self.support.labels).mean(0).to(self.head.centre.device)

    def nearest(self, directions: Tensor, classes: Tensor) -> Tensor:
        """The largest cosine of each picture with one of a class's pictures: (Q, C), its class (Q,) -> (Q,)."""
        order, starts = self.members
        means = self.support.maps.means
        return torch.stack([(self.head.directions(means[order[starts[one] : starts[one + 1]]].to(asked)) @ asked).amax()
                            for asked, one in zip(directions, classes.tolist(), strict=True)])

    def near(self, likely: Tensor) -> Near:
        """The classes to compare a picture with, and what is learnt of them: what the head says of it (N,) -> Near."""
        return self.of_classes(likely.topk(self.length).indices.sort().values)

    def of_classes(self, classes: Tensor) -> Near:
        """What the method learns of some classes, ascending (L,)."""
        order, starts = self.members
        rows = [order[starts[place] : starts[place + 1]] for place in classes.tolist()]
        labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([*map(len, rows)]))
        maps = self.support.maps[torch.cat(rows)].float().to(self.head.centre.device)            # (n, c, H, W)
        check_map("support", maps)
        derived = self.method.narrowed(maps, labels.to(maps.device), self.middle, self.head, classes)
        shape = torch.Size([len(self.head.centre), *maps.shape[2:]])
        return Near(classes, torch.cat(rows), labels, Learnt(derived, shape))

    def scores(self, maps: Tensor, means: Tensor, likely: Tensor) -> Tensor:
        """The method's scores, and estimates for classes beyond the shortlist, which the head names.

        Maps (Q, c, H, W), their means (Q, C), what the head says of them (Q, N) -> (Q, N).
        """
        pictures = zip(maps.split(1), means.split(1), likely, strict=True)
        return torch.cat([self.score(*picture) for picture in pictures])

    def score(self, maps: Tensor, mean: Tensor, likely: Tensor) -> Tensor:
        """The same for one picture: (1, c, H, W), (1, C), (N,) -> (1, N)."""
        near = self.near(likely)
        return self.spread(self.method.answer_kept(near.learnt, maps, mean)[0], near, likely)[None]

    def spread(self, listed: Tensor, near: Near, likely: Tensor) -> Tensor:
        """The scores of all classes from those of the shortlist: (L,), Near, what the head says (N,) -> (N,)."""
        return estimated(listed, near.classes, likely)


def estimated(listed: Tensor, classes: Tensor, likely: Tensor) -> Tensor:
    """Scores of all classes from those of a few: (L,), which they are (L,), what the head says of all (N,) -> (N,).

    A class beyond the shortlist is as far below the lowest score in it as the head says, both in units of their spread.
    """
    near = likely[classes]                                                                       # (L,)
    unit = listed.std() / near.std().clamp_min(1e-12)
    scores = listed.amin() + unit * (likely - near.amin()).clamp(max=0)                          # (N,)
    return scores.index_copy(0, classes, listed)
