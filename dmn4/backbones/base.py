"""What every backbone shares: the call `backbone(images) -> maps`, its preferred preprocessing, and its checks."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dmn4.errors import InputError
from dmn4.images.batches import DMN4_MEAN, DMN4_STD

Options = dict[str, Any]                                      # strings and numbers by name


class Backbone(nn.Module):
    """Images (B, 3, h, w) -> feature maps (B, C, H, W).

    `mean` and `std` are the preferred normalisation, one number a colour, on pixels scaled to 0..1; `image_size` is
    the side the network was designed for. Any side from `minimum` on works.
    """

    mean: tuple[float, float, float] = DMN4_MEAN
    std: tuple[float, float, float] = DMN4_STD
    image_size: int = 84
    minimum: int = 1
    out_channels: int
    name: str = ""                                            # with `options`, what build_backbone was asked for
    options: Options = {}
    __call__: Callable[..., Tensor]                           # nn.Module says Any

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps of a batch: (B, 3, h, w) -> (B, C, H, W).

        The channels of a place lie together in memory, whatever the layout of the images. On two CPU cores, shared
        with other work, EfficientNet was 2.3-2.8 x and Conv-4 1.8 x (in training 1.1 x) as fast so.
        """
        check_images(images, self.minimum)
        return self.features(images.contiguous(memory_format=torch.channels_last))

    def features(self, images: Tensor) -> Tensor:
        """The network itself, on checked images: (B, 3, h, w) -> (B, C, H, W)."""
        raise NotImplementedError


def check_images(images: Tensor, minimum: int) -> None:
    """Raise an InputError unless `images` is a floating-point batch (B, 3, h, w) with sides of at least `minimum`."""
    if images.ndim != 4 or images.shape[1] != 3:
        raise InputError(f"images have shape {tuple(images.shape)}; (images, 3, height, width) is needed")
    if not images.is_floating_point():
        raise InputError(f"images are {images.dtype}; floating-point images are needed")
    height, width = images.shape[2:]
    if min(height, width) < minimum:
        raise InputError(f"images are {height} x {width} pixels; this backbone needs at least {minimum} x {minimum}")


def activation(slope: float) -> nn.Module:
    """LeakyReLU with this slope, or ReLU for slope 0."""
    return nn.LeakyReLU(slope, inplace=True) if slope else nn.ReLU(inplace=True)


def widen(channels: float, width: float) -> int:
    """`channels` times the width factor, a whole number of at least one."""
    if not width > 0:
        raise InputError(f"width is {width!r}; a factor above 0 is needed")
    return max(1, round(channels * width))


def numbers(option: str, text: str) -> list[float]:
    """The numbers of an option such as "64-160-320-640", or an InputError that shows it."""
    try:
        return [float(part) for part in text.split("-")]
    except ValueError:
        raise InputError(f"{option} is {text!r}; numbers joined by '-' are needed") from None


def kaiming(network: nn.Module, mode: Literal["fan_in", "fan_out"] = "fan_out") -> None:
    """Draw convolution weights Kaiming-normal (for leaky_relu at its default slope); biases start at 0.

    Not those without content (meta): for them torch would import its compiler, which takes longer than a look.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d) and not layer.weight.is_meta:
            nn.init.kaiming_normal_(layer.weight, mode=mode, nonlinearity="leaky_relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def xavier(network: nn.Module) -> None:
    """Draw convolution weights Xavier-uniform; biases start at 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
