"""Feature maps of many pictures in several pieces, in memory or mapped from a file: only what is asked for is read.

They lie patch by patch, all channels of a patch side by side, as they are compared.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..methods.vectors import pooled

AT_ONCE = 1024                                                # maps in memory while all of them are gone through


@dataclass(frozen=True)
class Maps:
    """Maps of n pictures (n, c, H, W), float16, and the means of all their C channels; choosing some reads none."""

    pieces: tuple[Tensor, ...]                                # (p, H, W, C) each, float16, without gaps
    place: Tensor                                             # (n,)  of each map in the pieces laid end to end
    means: Tensor                                             # (n, C)  over the places of each map, float32

    @classmethod
    def of(cls, maps: Tensor, compared: int = 0) -> "Maps":
        """Maps that lie in one tensor (n, C, H, W), of which the first `compared` channels are kept (0: all)."""
        parts = [pooled(part.float()) for part in maps.split(AT_ONCE)]
        kept = maps[:, :compared] if compared else maps
        return cls((by_patch(kept),), torch.arange(len(maps)), torch.cat(parts))

    def __len__(self) -> int:
        return len(self.place)

    @property
    def sides(self) -> tuple[int, int, int]:
        """H, W, C."""
        height, width, channels = self.pieces[0].shape[1:]
        return height, width, channels

    def __getitem__(self, chosen: Tensor) -> "Maps":
        """Some of the maps: places or a mask."""
        return Maps(self.pieces, self.place[chosen], self.means[chosen])

    def patches(self) -> Tensor:
        """The maps themselves, patch by patch (n, H, W, C), float16."""
        rows = self.pieces[0].new_empty(len(self), math.prod(self.sides))
        start = 0
        for piece in self.pieces:
            inside = (self.place >= start) & (self.place < start + len(piece))                       # (n,)
            if inside.all():
                return chosen(piece, self.place - start).view(-1, *self.sides)
            rows[inside] = chosen(piece, self.place[inside] - start)
            start += len(piece)
        return rows.view(-1, *self.sides)

    def read(self) -> Tensor:
        """The maps themselves (n, C, H, W), float16."""
        return self.patches().permute(0, 3, 1, 2)

    def float(self) -> Tensor:
        """The maps themselves (n, C, H, W), float32."""
        return self.patches().float().permute(0, 3, 1, 2)

    def batches(self) -> Iterator[Tensor]:
        """The maps in order, a few at a time, patch by patch: (b, H, W, C), float16."""
        for rows in torch.arange(len(self)).split(AT_ONCE):
            yield self[rows].patches()

    def joined(self, other: "Maps") -> "Maps":
        """These maps, then the others. Of what is there no more is copied than is added, on average."""
        place = torch.cat([self.place, other.place + sum(map(len, self.pieces))])
        both = Maps(self.pieces + other.pieces, place, torch.cat([self.means, other.means]))
        return both.compact()

    def compact(self) -> "Maps":
        """The same maps in few pieces: small ones at the end become one, and most of what is left out goes."""
        if 2 * len(self) < sum(map(len, self.pieces)):
            return Maps((self.patches(),), torch.arange(len(self)), self.means)
        pieces = list(self.pieces)
        while len(pieces) > 2 and len(pieces[-2]) <= len(pieces[-1]):
            pieces[-2:] = [torch.cat(pieces[-2:])]
        return Maps(tuple(pieces), self.place, self.means)


def by_patch(maps: Tensor) -> Tensor:
    """Maps as they are kept: (n, C, H, W) -> (n, H, W, C), without gaps."""
    return maps.permute(0, 2, 3, 1).contiguous()


def chosen(piece: Tensor, places: Tensor) -> Tensor:
    """Some maps of a piece, each as a row: copied seven times faster than by indexing (p, H, W, C) -> (n, H W C)."""
    return piece.flatten(1).index_select(0, places)
