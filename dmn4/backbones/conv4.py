"""Conv-4: four convolutions; the paper's form (84 -> 19x19x64) and, as options, the forms of its rivals."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from dmn4.errors import InputError, choose

from .base import Backbone, Options, activation, kaiming, numbers, widen, xavier

TINY = 1e-6                                    # below it a power has no slope worth following
LAST = ("bare", "signed", "full")
POOLED: dict[str, nn.Module] = {"map": nn.Identity(), "max": nn.AdaptiveMaxPool2d(1), "mean": nn.AdaptiveAvgPool2d(1)}
START: dict[str, Callable[[nn.Module], None]] = {"xavier": xavier, "kaiming": kaiming, "torch": lambda network: None}

DN4: Options = {"last": "full"}                                                                 # 84 -> 21x21
CLASSIC: Options = {"pools": 4, "slope": 0.0, "bias": True, "last": "full", "start": "torch"}   # 84 -> 5x5

FORMS: dict[str, Options] = {                  # options of conv4-classic for the rivals' own networks
    "mcl": {"bias": False, "slope": 0.2, "start": "xavier"},
    "feat": {"pooled": "max"},
    "rfs": {"pools": 3, "pooled": "mean", "start": "kaiming"},
    "covariance": {"pools": 3, "last": "signed", "bias": False},
    "metaoptnet": {"bias": False, "start": "kaiming"},
    "dc": {"blocks": "64-64-128-128"},
}


class Conv4(Backbone):
    """Four 3x3 convolutions of 64 channels; by default the DMN4 form, whose last layer is a bare, unpadded convolution.

    `blocks` names the channels of each and `width` multiplies them; the first `pools` blocks halve the map; `slope` 0
    is ReLU; `last` is "bare", "signed" (batch norm, no activation) or "full" (like the others); `pooled` reduces the
    map to its "max" or "mean"; squares of `window` x `window` places, `step` apart, are averaged into broader ones, and
    `power` other than 1 bends their descriptors (`Bend`).
    """

    def __init__(self, width: float = 1.0, blocks: str = "64-64-64-64", pools: int = 2, slope: float = 0.2,
                 bias: bool = False, last: str = "bare", pooled: str = "map", start: str = "xavier", window: int = 1,
                 step: int = 1, power: float = 1.0) -> None:
        super().__init__()
        choose("last block", last, LAST)
        channels = [3] + [widen(part, width) for part in numbers("blocks", blocks)]
        if len(channels) != 5:
            raise InputError(f"blocks is {blocks!r}; the channels of four blocks joined by '-' are needed")
        self.out_channels = channels[-1]
        self.blocks = nn.Sequential(*(
            block(channels[i], channels[i + 1], i < pools, slope, bias, last if i == 3 else "full") for i in range(4)))
        if window < 1 or step < 1:
            raise InputError(f"window is {window} and step {step}; both count places, from 1 on")
        self.broaden = nn.Identity() if window == step == 1 else nn.AvgPool2d(window, step)
        if not power > 0:
            raise InputError(f"power is {power}; a number above 0 is needed, and 1 changes nothing")
        self.bend = nn.Identity() if power == 1 else Bend(power)
        self.pool = POOLED[choose("pooled", pooled, POOLED)]
        self.minimum = 2 ** min(pools, 4) * (window + 2 * (last == "bare"))
        START[choose("start", start, START)](self)

    def features(self, images: Tensor) -> Tensor:
        maps: Tensor = self.pool(self.bend(self.broaden(self.blocks(images))))
        return maps


class Bend(nn.Module):
    """Unit descriptors, each value x as sign(x) |x|^power: below 1 the few largest values decide less.

    In a mean of places or of shots each then weighs about as much as another.
    """

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def forward(self, maps: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)"""
        unit = F.normalize(maps, dim=1)
        return unit.sign() * unit.abs().clamp_min(TINY) ** self.power


def block(inputs: int, outputs: int, pools: bool, slope: float, bias: bool, last: str) -> nn.Sequential:
    """Convolution, batch norm, max-pool, activation; without the ones that this block leaves out.

    The activation comes after the pool: it is rising, so the two commute, and it then sees a quarter of the values.
    """
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, 3, padding=0 if last == "bare" else 1, bias=bias)]
    if last != "bare":
        layers.append(nn.BatchNorm2d(outputs))
    if pools:
        layers.append(nn.MaxPool2d(2))
    if last == "full":
        layers.append(activation(slope))
    return nn.Sequential(*layers)
