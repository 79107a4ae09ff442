"""The labelled pictures of a classifier as feature maps: joined, forgotten, and chosen as a method wants them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..images.looks import places_of
from ..methods.base import Method
from .maps import Maps


@dataclass(frozen=True)
class Shots:
    """Maps of labelled pictures, one row for each look at a picture; float16, as they are also stored."""

    maps: Maps       # (n, C, H, W)  float16
    labels: Tensor   # (n,)  0..N-1
    look: Tensor     # (n,)  which of LOOKS; 0 is the picture itself
    image: Tensor    # (n,)  number of the picture

    def rows(self, chosen: Tensor) -> "Shots":
        """Some of the rows: places or a mask."""
        return Shots(self.maps[chosen], self.labels[chosen], self.look[chosen], self.image[chosen])

    @classmethod
    def of(cls, maps: Tensor, labels: Tensor, look: Tensor, image: Tensor, compared: int = 0) -> "Shots":
        """Shots whose maps are one tensor (n, C, H, W), of which the first `compared` channels are kept (0: all)."""
        return cls(Maps.of(maps, compared), labels, look, image)

    @classmethod
    def stacked(cls, parts: list["Shots"]) -> "Shots":
        """The rows of all parts, in order; pictures keep their numbers."""
        columns = zip(*((part.maps.read(), part.labels, part.look, part.image) for part in parts), strict=True)
        maps, labels, look, image = (torch.cat(column) for column in columns)
        return cls.of(maps, labels, look, image)

    def joined(self, other: "Shots") -> "Shots":
        """These rows, then the others, whose pictures are numbered on."""
        numbered = other.image + (int(self.image.max()) + 1 if len(self.image) else 0)
        return Shots(self.maps.joined(other.maps), torch.cat([self.labels, other.labels]),
                     torch.cat([self.look, other.look]), torch.cat([self.image, numbered]))

    def without(self, label: int) -> tuple["Shots", list[int]]:
        """The rows of all other classes, labels and pictures numbered anew; and the pictures that stay."""
        left = self.rows(self.labels != label)
        stay, image = left.image.unique(return_inverse=True)
        return Shots(left.maps, left.labels - (left.labels > label).long(), left.look, image), stay.tolist()

    def moved(self, image: int, label: int) -> "Shots":
        """The same rows, those of one picture with another label."""
        return Shots(self.maps, self.labels.where(self.image != image, label), self.look, self.image)

    def without_picture(self, image: int) -> "Shots":
        """The rows of all other pictures, numbered anew."""
        left = self.rows(self.image != image)
        return Shots(left.maps, left.labels, left.look, left.image - (left.image > image).long())

    def closed_up(self) -> tuple["Shots", Tensor]:
        """Labels numbered anew without those that no row has; and the labels that stay, in order."""
        stay, labels = self.labels.unique(return_inverse=True)
        return Shots(self.maps, labels, self.look, self.image), stay

    def renamed(self, labels: Tensor) -> "Shots":
        """The same rows with other labels: the new one of each class (N,)."""
        return Shots(self.maps, labels[self.labels], self.look, self.image)

    def distinct(self) -> "Shots":
        """The rows of the first of identical pictures in a class; which are identical their maps tell."""
        plain = self.rows(self.look == 0)
        means = torch.cat([plain.maps.means, plain.labels[:, None]], dim=1)           # (pictures, C + 1)
        same = means.unique(dim=0, return_inverse=True)[1]                                           # (pictures,)
        first = torch.full((int(same.max()) + 1,), len(same)).scatter_reduce(0, same, torch.arange(len(same)), "amin")
        return self.rows(torch.isin(self.image, plain.image[first]))

    @property
    def counts(self) -> Tensor:
        """Pictures of each class, views not counted -> (N,)."""
        return self.labels[self.look == 0].bincount()

    def support(self, method: Method) -> "Shots":
        """The rows a method is given: the pictures, and the views it asks for in classes of as few shots as it says."""
        few = method.views_shots is None or (self.counts <= method.views_shots)[self.labels]         # (n,)
        wanted = torch.isin(self.look, torch.tensor(places_of(method.views), dtype=torch.long))      # (n,)
        return self.rows((self.look == 0) | (wanted & torch.as_tensor(few)))

    def plain(self) -> tuple[Tensor, Tensor]:
        """Maps in float32 and labels, as a method takes them: (n, C, H, W), (n,)."""
        return self.maps.float(), self.labels
