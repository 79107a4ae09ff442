"""What a training leaves behind: the state to go on from, a backbone, a whole model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones import build_backbone
from ..backbones.base import Backbone
from ..backbones.loading import OPTIONS
from ..errors import InputError
from ..files import check_finite, fill, load_tensors, parse_json, part, save_tensors
from ..methods import build_method
from .model import FewShotModel

# ---------------------------------------------------------------------------------------------- the state of a training

def save_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, about: Mapping[str, Any],
               mean: nn.Module | None = None) -> None:
    """Write everything a training needs to go on: weights, their mean, optimiser state and its own notes."""
    state = optimizer.state_dict()["state"]                   # parameter number -> name -> tensor
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"optimizer.{number}.{name}": value for number, values in state.items()
                for name, value in values.items() if isinstance(value, Tensor)}
    if mean is not None:
        tensors |= {f"mean.{name}": tensor for name, tensor in mean.state_dict().items()}
    save_tensors(path, tensors, about)


def load_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer,
               mean: nn.Module | None = None) -> dict[str, str]:
    """Fill network, mean and optimiser from `path`; returns the notes. Groups (learning rates) stay as built."""
    tensors, about = load_tensors(path)
    fill(network, part(tensors, "network."), str(path))
    if mean is not None:
        fill(mean, part(tensors, "mean."), str(path))
    state: dict[int, dict[str, Tensor]] = {}
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for name, tensor in part(tensors, "optimizer.").items():
        number, _, key = name.partition(".")
        if not (number.isdecimal() and int(number) < len(weights) and tensor.shape in ((), weights[int(number)].shape)):
            raise InputError(f"checkpoint {str(path)!r} belongs to another training: its optimiser holds {name!r}")
        state.setdefault(int(number), {})[key] = tensor
    check_finite(tensors, str(path))
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return about


# ------------------------------------------------------------------------------------------------------- trained models

def save_backbone(path: Path, backbone: Backbone, about: Mapping[str, Any]) -> None:
    """Write a backbone alone, in the form that `build_backbone(name, weights=path)` reads."""
    save_tensors(path, backbone.state_dict(), {"backbone": backbone.name, "options": backbone.options, **about})


def average_backbones(sources: Sequence[Path], path: Path) -> None:
    """Write the mean of the weights of several trainings of one backbone, each a run folder or a file of weights.

    Trainings that began with the same weights end near each other, and their mean is often better than each of them
    (Wortsman et al., "Model soups", ICML 2022).
    """
    files = [source / "backbone.safetensors" if source.is_dir() else source for source in sources]
    loaded = [load_tensors(file) for file in files]
    first, about = loaded[0]
    wanted = form(first, about)
    if not wanted["backbone"]:
        raise InputError(f"{str(files[0])!r} holds the state of a training; give its folder, or backbone.safetensors")
    for file, facts in zip(files, (form(*backbone) for backbone in loaded), strict=True):
        for fact in wanted | facts:
            if facts.get(fact) != wanted.get(fact):
                raise InputError(f"{str(file)!r} has {fact} {facts.get(fact)!r}, {str(files[0])!r} "
                                 f"{wanted.get(fact)!r}: only weights of one network can be averaged")
    means = {name: torch.stack([tensors[name].double() for tensors, _ in loaded]).mean(0).to(tensor.dtype)
             for name, tensor in first.items()}
    shared = {fact: text for fact, text in about.items() if fact not in ("epoch", "val")}     # of one training alone
    save_tensors(path, means, shared | {"mean_of": [str(source) for source in sources]})


def form(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> dict[str, Any]:
    """What weights must have in common to be averaged: their network, the pictures it expects, the shape of each."""
    return ({fact: about.get(fact) for fact in ("backbone", "options", "transform", "size")}
            | {name: tuple(tensor.shape) for name, tensor in tensors.items()})


def save_model(path: Path, model: FewShotModel, about: Mapping[str, Any]) -> None:
    """Write a model with the names and options that rebuild it."""
    names = {"backbone": model.backbone.name, "options": model.backbone.options,
             "method": model.name, "method_options": model.options}
    save_tensors(path, model.state_dict(), names | dict(about))


def load_model(path: Path, **more: Any) -> FewShotModel:
    """The model of a file written by `save_model`, in evaluation mode; no settings are needed.

    `more` options of the backbone come on top of its own.
    """
    tensors, about = load_tensors(path)
    if "method" not in about or "backbone" not in about:
        raise InputError(f"checkpoint {str(path)!r} holds no model; give the model.safetensors of a run")
    source = f"checkpoint {str(path)!r}"
    backbone = build_backbone(about["backbone"], **(parse_json(about.get("options", "{}"), source, OPTIONS) | more))
    options = parse_json(about.get("method_options", "{}"), source, OPTIONS)
    method = build_method(about["method"], channels=backbone.out_channels, **options)
    model = FewShotModel(backbone, method, about["method"], options)
    fill(model, tensors, str(path))
    return model.eval()
