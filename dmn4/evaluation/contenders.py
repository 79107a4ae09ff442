"""What takes part in an evaluation: a trained backbone, a method, and the preprocessing the backbone expects."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..backbones import build_backbone
from ..backbones.base import Backbone
from ..backbones.loading import OPTIONS, check_weights, usual_transform
from ..errors import InputError
from ..files import load_tensors, parse_json
from ..images import Transform
from ..methods import build_method
from ..methods.base import Method
from ..recipes import parse_options
from ..training.checkpoints import load_model


@dataclass(frozen=True)
class Contender:
    """A backbone with its preprocessing, a method, and the facts that a result card tells of them."""

    backbone: Backbone
    method: Method
    transform: Transform
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedBackbone:
    """A backbone as it was found: with its preprocessing and, if it was trained with one, its method."""

    backbone: Backbone
    transform: Transform
    facts: dict[str, Any]
    method: Method | None = None

    def with_method(self, method: str = "") -> Contender:
        """A contender with the method written as "name:option=value,...", or with the one it was trained with."""
        if not method and self.method is None:
            raise InputError(f"weights {self.facts['weights']!r} were trained without a method: name one, such as dmn4")
        name, _, options = method.partition(":")
        trained_method = self.method if not method or (name == self.facts.get("method") and not options) else None
        chosen = trained_method or build_method(name, channels=self.backbone.out_channels, **parse_options(options))
        facts = self.facts | ({"method": name, "method_options": options} if method else {})
        if trained_method is None and chosen.needs_training:
            facts["untrained"] = True                          # its own layers are noise
        return Contender(self.backbone, chosen.eval(), self.transform, facts)


def load_trained(weights: str = "", backbone: str = "") -> TrainedBackbone:
    """The backbone in a run folder, in a weights file, or of a shipped name; without `weights` a random one.

    `backbone` is written as "name:option=value,..."; without it conv4, or what the file was trained with. Options come
    on top of those of the file.
    """
    path = Path(weights)
    if weights and path.is_dir():
        files = [path / name for name in ("model.safetensors", "backbone.safetensors") if (path / name).exists()]
        if not files:
            raise InputError(f"{weights!r} holds no weights yet (looked for model.safetensors, backbone.safetensors)")
        path = files[0]
    if not weights or not path.is_file():
        kind = backbone or "conv4"
        name, _, options = kind.partition(":")
        built = build_backbone(name, weights or None, **parse_options(options))
        return TrainedBackbone(built.eval(), usual_transform(built), {"backbone": kind, "weights": weights or "random"})
    return read_trained(path, backbone)


def read_trained(path: Path, backbone: str = "") -> TrainedBackbone:
    """The backbone of a weights file, and its method if the file holds a whole model."""
    name, _, options = backbone.partition(":")
    _, about = load_tensors(path)
    if "backbone" not in about:
        raise InputError(f"{str(path)!r} holds the state of a training; give its folder, or its backbone.safetensors")
    check_weights(str(path), about["backbone"], name or about["backbone"])
    more = parse_options(options)
    backbone_options = parse_json(about.get("options", "{}"), repr(str(path)), OPTIONS)
    facts = {"backbone": about["backbone"], "options": json.dumps(backbone_options | more),
             "weights": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}
    if "method" in about:
        model = load_model(path, **more)
        facts |= {"method": about["method"], "method_options": about.get("method_options", "{}")}
        return TrainedBackbone(model.backbone, usual_transform(model.backbone, about), facts, model.method)
    built = build_backbone(about["backbone"], path, **more)
    return TrainedBackbone(built.eval(), usual_transform(built, about), facts)
