"""What a network from elsewhere gives, as maps: channels first or last, or tokens, found by a trial."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dmn4.errors import InputError


@dataclass(frozen=True)
class Layout:
    """How to read the output of a network: "maps" (B, C, H, W), "channels last" (B, H, W, C) or "tokens" (B, T, C).

    Of tokens the first `extra` belong to no place (class, registers).
    """

    kind: str
    channels: int
    extra: int = 0

    @classmethod
    def of(cls, output: Tensor, source: str) -> "Layout":
        """The layout of what a network gave for one square picture."""
        shape = tuple(output.shape)
        if len(shape) == 4 and shape[1] == shape[2] != shape[3]:
            return cls("channels last", shape[3])
        if len(shape) == 4:
            return cls("maps", shape[1])
        places = math.isqrt(shape[1]) if len(shape) == 3 else 0
        if places < 2:
            raise InputError(f"{source} gives {shape} for one picture; a map (1, channels, height, width) or tokens "
                             "(1, places, channels) are needed: choose another layer")
        return cls("tokens", shape[2], shape[1] - places**2)

    def maps(self, output: Tensor, height: int, width: int) -> Tensor:
        """The output for pictures of this size as maps (B, C, H, W)."""
        if self.kind == "maps":
            return output
        if self.kind == "channels last":
            return output.permute(0, 3, 1, 2)
        sides = grid(output.shape[1] - self.extra, height, width)
        maps: Tensor = output[:, self.extra:].transpose(1, 2).unflatten(2, sides)
        return maps


def grid(places: int, height: int, width: int) -> tuple[int, int]:
    """The rows and columns of so many places whose shape is nearest to that of the picture."""
    shapes = [(rows, places // rows) for rows in range(1, places + 1) if places % rows == 0]
    return min(shapes, key=lambda shape: abs(math.log(shape[1] * height / (shape[0] * width))))


def averaged(maps: Tensor, side: int) -> Tensor:
    """Maps of at most `side` x `side` places, each the mean of an equal part of the picture: (B, C, H, W)."""
    height, width = maps.shape[2:]
    if max(height, width) <= side:
        return maps
    return parts(height, min(height, side)).to(maps) @ maps @ parts(width, min(width, side)).T.to(maps)


def parts(size: int, side: int) -> Tensor:
    """How much each of `size` places has of `side` equal parts of their row; a part adds up to 1: (side, size)."""
    edges, place = torch.linspace(0, size, side + 1), torch.arange(size)
    inside = edges[1:, None].minimum(place + 1) - edges[:-1, None].maximum(place)
    return inside.clamp_min(0) * side / size
