"""Files that survive a crash: written beside their place, then moved there; weights as safetensors, never pickle."""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .backbones import build_backbone
from .backbones.base import Backbone
from .errors import InputError
from .methods import build_method
from .model import FewShotModel

FORMAT = "dmn4 1"                                             # in the metadata of every file written here


def write_file(path: Path, content: bytes | str) -> None:
    """Put `content` at `path` whole or not at all, also when the process is killed or the disk is full."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; what was there before is intact") from None


def write_json(path: Path, content: Any) -> None:
    """Put `content` at `path` as readable JSON."""
    write_file(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file, or an InputError that names it."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from None


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write tensors and what is known `about` them (strings as they are, the rest as JSON) to a safetensors file."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in about.items()}
    write_file(path, packed(tensors, {"format": FORMAT} | texts))


def packed(tensors: Mapping[str, Tensor], texts: dict[str, str]) -> bytes:
    """The bytes of a safetensors file. Equal content gives equal bytes, so that equal trainings have equal checksums.

    The library writes the texts in an order of chance, so the header is written anew, its entries in order.
    """
    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = save(whole, texts)
    end = 8 + int.from_bytes(content[:8], "little")           # eight bytes tell the length of the header
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[end:]


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and texts of a file that `save_tensors` wrote, or an InputError that says what the file is instead."""
    if not path.is_file():
        raise InputError(f"there is no checkpoint {str(path)!r}")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read checkpoint {str(path)!r}: damaged, or not a safetensors file ({error})"
                         ) from None
    if about.get("format") != FORMAT:
        raise InputError(f"{str(path)!r} is a safetensors file, but not a checkpoint of dmn4 "
                         f"(its format is {about.get('format')!r}, not {FORMAT!r})")
    return tensors, about


# ---------------------------------------------------------------------------------------------- the state of a training

def save_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, about: Mapping[str, Any]) -> None:
    """Write everything a training needs to go on: weights, optimiser state and its own notes, in one file."""
    state = optimizer.state_dict()["state"]                   # parameter number -> name -> tensor
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"optimizer.{number}.{name}": value for number, values in state.items()
                for name, value in values.items() if isinstance(value, Tensor)}
    save_tensors(path, tensors, about)


def load_state(path: Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Fill network and optimiser from `path`; returns the notes. Groups (learning rates) stay as they were built."""
    tensors, about = load_tensors(path)
    fill(network, part(tensors, "network."), str(path))
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in part(tensors, "optimizer.").items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return about


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name starts with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def fill(network: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy tensors into the network, or raise an InputError that names the first one that does not fit."""
    wanted = network.state_dict()
    for name in [*wanted, *tensors]:
        if name not in tensors or name not in wanted or tensors[name].shape != wanted[name].shape:
            found = tuple(tensors[name].shape) if name in tensors else "absent"
            needed = tuple(wanted[name].shape) if name in wanted else "absent"
            raise InputError(f"checkpoint {source!r} belongs to another network: {name!r} is {found}, not {needed}")
    network.load_state_dict(dict(tensors))


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
    for file, found in zip(files, (form(*one) for one in loaded), strict=True):
        for fact in wanted | found:
            if found.get(fact) != wanted.get(fact):
                raise InputError(f"{str(file)!r} has {fact} {found.get(fact)!r}, {str(files[0])!r} "
                                 f"{wanted.get(fact)!r}: only weights of one network can be averaged")
    means = {name: torch.stack([tensors[name].double() for tensors, _ in loaded]).mean(0).to(one.dtype)
             for name, one in first.items()}
    own = {fact: text for fact, text in about.items() if fact not in ("epoch", "val")}        # of one training alone
    save_tensors(path, means, own | {"mean_of": [str(source) for source in sources]})


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
    backbone = build_backbone(about["backbone"], **(json.loads(about["options"]) | more))
    options = json.loads(about["method_options"])
    method = build_method(about["method"], channels=backbone.out_channels, **options)
    model = FewShotModel(backbone, method, about["method"], options)
    fill(model, tensors, str(path))
    return model.eval()
