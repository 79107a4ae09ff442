"""WRN-28-10 (84 -> 21x21x640), a wide residual network of 12 pre-activation blocks; rival forms are options."""

import torch.nn.functional as F
from torch import Tensor, nn

from dmn4.errors import choose

from .base import Backbone, Options, kaiming, widen

LAST = ("bare", "relu")

FORMS: dict[str, Options] = {
    "mcl": {"bias": False, "last": "relu", "pooled": 5},
    "feat": {"drop": 0.5, "last": "relu", "pooled": 1},
}


class WideResNet(Backbone):
    """A stem and three stages of four blocks, 160-320-640 channels; by default the DMN4 form, which ends bare.

    `width` multiplies the channels of the stages; `drop` is the dropout between a block's convolutions; `last` "relu"
    adds batch norm and ReLU at the end; `pooled` is the side to which the map is averaged (0: as it comes).
    """

    def __init__(self, width: float = 1.0, bias: bool = True, drop: float = 0.0, last: str = "bare",
                 pooled: int = 0) -> None:
        super().__init__()
        choose("last layer", last, LAST)
        channels = [16] + [widen(stage, width) for stage in (160, 320, 640) for _ in range(4)]
        strides = [1, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1]
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=bias)
        self.blocks = nn.Sequential(*(
            Block(channels[i], channels[i + 1], stride, bias, drop) for i, stride in enumerate(strides)))
        self.out_channels = channels[-1]
        self.last = (nn.Sequential(nn.BatchNorm2d(self.out_channels), nn.ReLU(inplace=True)) if last == "relu"
                     else nn.Identity())
        self.pool = nn.AdaptiveAvgPool2d(pooled) if pooled else nn.Identity()
        kaiming(self)

    def features(self, images: Tensor) -> Tensor:
        maps: Tensor = self.pool(self.last(self.blocks(self.stem(images))))
        return maps


class Block(nn.Module):
    """BN-ReLU-convolution, dropout, BN-ReLU-convolution (with the stride), beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, bias: bool, drop: float) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True),
                                   nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias))
        self.second = nn.Sequential(nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                                    nn.Conv2d(outputs, outputs, 3, stride, padding=1, bias=bias))
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=bias)
        self.drop = drop

    def forward(self, maps: Tensor) -> Tensor:
        inside = F.dropout(self.first(maps), self.drop, self.training)
        added: Tensor = self.second(inside) + self.shortcut(maps)
        return added
