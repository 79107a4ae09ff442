"""Backbones: images (B, 3, h, w) -> feature maps (B, C, H, W), chosen by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from dmn4.errors import InputError, choose

from . import conv4, efficientnet, resnet12, wrn
from .base import Backbone
from .efficientnet import EfficientNetLite
from .loading import check_weights, construct, fill, find_weights
from .named import KINDS, OWN, build_outside, is_outside

BACKBONES: dict[str, Callable[..., Backbone]] = {
    "conv4": conv4.Conv4,                                         # 84 -> 19x19x64
    "conv4-dn4": partial(conv4.Conv4, **conv4.DN4),               # 84 -> 21x21x64
    "conv4-classic": partial(conv4.Conv4, **conv4.CLASSIC),       # 84 -> 5x5x64
    "resnet12": resnet12.ResNet12,                                # 84 -> 5x5x640
    "wrn28-10": wrn.WideResNet,                                   # 84 -> 21x21x640
    "efficientnet_lite0": partial(EfficientNetLite, efficientnet.LITE0),   # 224 -> 7x7x320 (or another layer)
    "efficientnet_lite1": partial(EfficientNetLite, efficientnet.LITE1),   # 240 -> 8x8x320
    "efficientnet_lite2": partial(EfficientNetLite, efficientnet.LITE2),   # 260 -> 9x9x352
}

FORMS = {"conv4-classic": conv4.FORMS, "resnet12": resnet12.FORMS, "wrn28-10": wrn.FORMS}   # options of published forms


def build_backbone(name: str, weights: str | Path | None = None, **options: str | float) -> Backbone:
    """The backbone of this name; `weights` is None (random), a shipped name, or a .safetensors file.

    Options that a weights file was trained with need not be repeated. A name such as "hf:facebook/dinov2-small" or
    "onnx:dino.onnx" means a network from elsewhere, which brings its own weights.
    """
    if is_outside(name):
        if weights not in (None, OWN):
            raise InputError(f"backbone {name!r} brings its own weights: leave weights={str(weights)!r} out")
        return build_outside(name, options)
    make = BACKBONES[choose("backbone", name, [*BACKBONES, *KINDS])]
    if weights is None:
        return construct(name, make, options)
    weights_file = find_weights(name, weights)
    check_weights(weights_file.source, weights_file.backbone, name)
    backbone = construct(name, make, weights_file.options | options)
    fill(backbone, weights_file)
    return backbone
