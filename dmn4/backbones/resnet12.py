"""ResNet-12 (84 -> 5x5x640), the paper's form; pre-training, rival and descriptor-size forms are options."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmn4.errors import InputError, choose

from .base import Backbone, Options, activation, kaiming, numbers, widen
from .dropblock import drop_squares

SHORTCUTS = {"1x1": 1, "3x3": 3}
POOLING = {"floor": False, "ceil": True}

FORMS: dict[str, Options] = {
    "pretrain": {"drop": 0.1, "square": 5},
    "pretrain-cifar": {"drop": 0.1, "square": 2},
    "meta-baseline": {"blocks": "64-128-256-512"},
    "tapnet": {"blocks": "64-128-256-512", "slope": 0.0, "shortcut": "3x3", "pooling": "ceil",
               "drop": "0.3-0.2-0.2-0.2", "square": 0},
}

# The descriptor-size table: r descriptors of d dimensions. r = 400 needs 80-pixel images; 84 pixels give 441.
# The paper does not say which pools go in (b), nor the earlier widths in (c): these are the plainest readings.
ABLATIONS: dict[str, Options] = {
    "a: 25 x 640": {},
    "a: 100 x 320": {"blocks": "64-160-320"},
    "a: 400 x 160": {"blocks": "64-160"},
    "b: 25 x 640": {},
    "b: 100 x 640": {"pools": 3},
    "b: 400 x 640": {"pools": 2},
    "c: 100 x 64": {"blocks": "64-160-64"},
    "c: 100 x 160": {"blocks": "64-160-160"},
    "c: 100 x 320": {"blocks": "64-160-320"},
}


class ResNet12(Backbone):
    """Residual blocks of three convolutions, no stem; by default four blocks without dropout (meta-training).

    `blocks` names the channels of each block and `width` multiplies them; the first `pools` blocks halve the map.
    `drop` is one rate or one a block ("0.3-0.2-0.2-0.2"); from the third block on it is spent on squares of side
    `square` (DropBlock; 0: ordinary dropout everywhere). Drops happen in train mode only.
    """

    def __init__(self, width: float = 1.0, blocks: str = "64-160-320-640", pools: int = 4, drop: float | str = 0.0,
                 square: int = 5, slope: float = 0.1, shortcut: str = "1x1", pooling: str = "floor") -> None:
        super().__init__()
        channels = [3] + [widen(part, width) for part in numbers("blocks", blocks)]
        rates = drop_rates(drop, len(channels) - 1)
        kernel = SHORTCUTS[choose("shortcut", shortcut, SHORTCUTS)]
        ceil = POOLING[choose("pooling", pooling, POOLING)]
        self.blocks = nn.Sequential(*(
            Block(channels[i], channels[i + 1], slope, kernel, nn.MaxPool2d(2, ceil_mode=ceil) if i < pools else None,
                  rate, square if i >= 2 else 0) for i, rate in enumerate(rates)))
        self.out_channels = channels[-1]
        self.minimum = 1 if ceil else 2 ** min(pools, len(rates))
        kaiming(self)

    def features(self, images: Tensor) -> Tensor:
        maps: Tensor = self.blocks(images)
        return maps


class Block(nn.Module):
    """Three convolutions beside a shortcut, then activation, pool and drop."""

    def __init__(self, inputs: int, outputs: int, slope: float, shortcut: int, pool: nn.Module | None, rate: float,
                 square: int) -> None:
        super().__init__()
        self.path = nn.Sequential(convolution(inputs, outputs, 3), activation(slope),
                                  convolution(outputs, outputs, 3), activation(slope),
                                  convolution(outputs, outputs, 3))
        self.shortcut = convolution(inputs, outputs, shortcut)
        self.pool = nn.Identity() if pool is None else pool
        self.activation = activation(slope)
        self.rate, self.square = rate, square

    def forward(self, maps: Tensor) -> Tensor:
        maps = self.activation(self.pool(self.path(maps) + self.shortcut(maps)))   # max and a rising function commute
        if not self.training or not self.rate:
            return maps
        if not self.square:
            return F.dropout(maps, self.rate)
        passes = self.shortcut.get_buffer("1.num_batches_tracked")   # batch norm counts, and saves, training passes
        return drop_squares(maps, self.rate, self.square, passes)


def convolution(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    """A padded convolution without bias, and its batch norm."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs))


def drop_rates(drop: float | str, blocks: int) -> list[float]:
    """One drop rate a block, from one number for all or as many as there are blocks."""
    rates = [float(drop)] * blocks if isinstance(drop, float | int) else numbers("drop", drop)
    if len(rates) != blocks or not all(0 <= rate < 1 for rate in rates):
        raise InputError(f"drop is {drop!r}; one rate from 0 to below 1, or {blocks} of them joined by '-', is needed")
    return rates


def ablation_sizes(side: int) -> dict[str, tuple[int, int]]:
    """The real (r, d), descriptors and dimensions, of each network of the table for images of this side."""
    with torch.device("meta"):                                # shapes alone, no arithmetic
        maps = {label: ResNet12(**options)(torch.empty(2, 3, side, side)) for label, options in ABLATIONS.items()}
    return {label: (of.shape[2] * of.shape[3], of.shape[1]) for label, of in maps.items()}
