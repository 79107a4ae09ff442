"""Backbones from elsewhere: what tells one from another, and options that are given as text."""

from collections.abc import Mapping
from typing import Any

from dmn4.errors import InputError
from dmn4.images import IMAGENET

from .base import Backbone, numbers

Colour = tuple[float, float, float]


class OutsideBackbone(Backbone):
    """A network whose weights lie elsewhere: a model file holds its name, its options and `sha256`, nothing more."""

    sha256: str = ""                                          # of the file or files of its weights


def three(option: str, value: Any) -> Colour:
    """Three numbers, one a colour, of an option: "0.5-0.5-0.5", a list, or one number for all."""
    if isinstance(value, int | float):
        return (float(value),) * 3
    values = numbers(option, value) if isinstance(value, str) else [float(each) for each in value]
    if len(values) != 3:
        raise InputError(f"{option} is {value!r}; three numbers joined by '-' are needed, one a colour")
    return values[0], values[1], values[2]


def prepare_as(backbone: Backbone, facts: Mapping[str, Any]) -> None:
    """Take image size, mean and deviation from what is known; ImageNet's where nothing is."""
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
