"""Backbones from elsewhere: what tells one from another, and options that are given as text."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from dmn4.errors import InputError
from dmn4.images import IMAGENET

from .base import Backbone, numbers
from .layout import averaged

MAP_SIZE = 14                                                 # docs/results/networks.md
Colour = tuple[float, float, float]


class OutsideBackbone(Backbone):
    """A network whose weights lie elsewhere: a model file holds its name, its options and `sha256`, nothing more."""

    sha256: str = ""                                          # of the file or files of its weights
    source: str = ""                                          # their place, for messages
    compared: int = 0                                         # the first channels, which are matched; 0: all
    map_size: int = MAP_SIZE                                  # places in a row; of larger maps means are taken

    def features(self, images: Tensor) -> Tensor:
        with refusing(self.source, images):
            return averaged(self.whole_maps(images), self.map_size)

    def whole_maps(self, images: Tensor) -> Tensor:
        """All places that the network gives: (B, 3, h, w) -> (B, C, H, W)."""
        raise NotImplementedError


@contextmanager
def refusing(source: str, images: Tensor) -> Iterator[None]:
    """Inside, what a network cannot do with pictures of this size is one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:                                # every library has its own kinds
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise InputError(f"{source!r} cannot look at pictures of {images.shape[2]} x {images.shape[3]} pixels: "
                         f"{reason[-200:]}") from None


def three(option: str, value: Any) -> Colour:
    """Three numbers, one a colour, of an option: "0.5-0.5-0.5", a list, or one number for all."""
    if isinstance(value, int | float):
        return (float(value),) * 3
    values = numbers(option, value) if isinstance(value, str) else [float(each) for each in value]
    if len(values) != 3:
        raise InputError(f"{option} is {value!r}; three numbers joined by '-' are needed, one a colour")
    return values[0], values[1], values[2]


def prepare_as(backbone: OutsideBackbone, facts: Mapping[str, Any], map_size: int) -> None:
    """Take image size, mean and deviation from what is known; ImageNet's where nothing is."""
    if map_size < 1:
        raise InputError(f"map_size is {map_size}; a number of places in a row, at least 1, is needed")
    backbone.map_size = map_size
    usual: dict[str, Any] = {"image_size": 224, "mean": IMAGENET[0], "std": IMAGENET[1]}
    known = usual | {name: value for name, value in facts.items() if value is not None}
    backbone.image_size = int(known["image_size"])
    backbone.mean, backbone.std = three("mean", known["mean"]), three("std", known["std"])


def whole_number(layer: int | str | None) -> int | None:
    """The number of a layer, which may be given as text."""
    try:
        return None if layer is None else int(layer)
    except ValueError:
        raise InputError(f"layer is {layer!r}; the number of a layer is needed, such as 9 or -2") from None
