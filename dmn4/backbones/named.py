"""Backbones from elsewhere by name: "hf:facebook/dinov2-small", "onnx:dino.onnx:mean=0.5-0.5-0.5", "timm:resnet18"."""

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dmn4.errors import InputError, check_options

from .base import Options
from .outside import OutsideBackbone

OWN = "its own"                                               # the weights of a backbone from elsewhere
KINDS = ("hf:NAME_OR_FOLDER", "timm:NAME", "onnx:FILE")
PREFIXES = tuple(kind.split(":")[0] + ":" for kind in KINDS)
NUMBERS = ("image_size", "map_size", "compared")
WRITTEN = re.compile(r"(?P<kind>\w+):(?P<place>.+?)(:(?P<options>\w+=[^:]*))?")


def is_outside(name: str) -> bool:
    """Whether a backbone of this name comes from elsewhere."""
    return name.startswith(PREFIXES)


def build_outside(name: str, options: Options, beside: Path | None = None) -> OutsideBackbone:
    """The backbone that a name such as "onnx:dino.onnx:mean=0.5-0.5-0.5" means.

    What is no longer at its place is looked for in the folder `beside`, that of a model file.
    """
    parts = WRITTEN.fullmatch(name)
    if parts is None:
        raise InputError(f"backbone {name!r} names nothing; write {' or '.join(KINDS)}")
    kind, place = parts["kind"], parts["place"]
    written = dict(item.split("=", 1) for item in (parts["options"] or "").split(",") if "=" in item)
    if beside is not None and not Path(place).exists() and (beside / Path(place).name).exists():
        place = str(beside / Path(place).name)
    backbone, kept = MAKERS[kind](place, written | options)
    backbone.name, backbone.options = f"{kind}:{kept.pop('place')}", {"map_size": backbone.map_size} | kept
    return backbone.eval()


def written(name: str, options: Mapping[str, Any]) -> str:
    """The one word that means a backbone from elsewhere with these options."""
    return name + ":" * bool(options) + ",".join(f"{option}={value}" for option, value in options.items())


def checked(owner: str, make: Callable[..., Any], options: Options) -> Options:
    """The options, whole numbers as such; an InputError for one that there is not."""
    known = dict(list(inspect.signature(make).parameters.items())[1:])           # the first is the place
    whole = {option: number_or_text(value) if option in NUMBERS else value for option, value in options.items()}
    check_options(owner, whole, known)
    return whole


def number_or_text(value: Any) -> Any:
    """The whole number that a text writes, or what it is otherwise."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


def from_onnx(place: str, options: Options) -> tuple[OutsideBackbone, Options]:
    """The backbone of an ONNX file, and what names it again."""
    from .onnxfile import OnnxFile

    path = Path(place).expanduser().resolve()
    return OnnxFile(path, **checked("an ONNX file", OnnxFile, options)), {"place": str(path)} | options


def from_hub(place: str, options: Options) -> tuple[OutsideBackbone, Options]:
    """The backbone of a model of Hugging Face, and what names it again: with its commit."""
    from .huggingface import HuggingFaceModel, local_folder

    revision = options.get("revision")
    rest = {option: value for option, value in options.items() if option != "revision"}
    folder, commit = local_folder(place, revision)
    backbone = HuggingFaceModel(folder, **checked("a model of Hugging Face", HuggingFaceModel, rest))
    pinned = {"place": str(folder)} if commit is None else {"place": place, "revision": commit}
    return backbone, pinned | rest


def from_timm(place: str, options: Options) -> tuple[OutsideBackbone, Options]:
    """The backbone of a model of timm, and what names it again."""
    from .timm import TimmModel

    return TimmModel(place, **checked("a model of timm", TimmModel, options)), {"place": place} | options


MAKERS = {"onnx": from_onnx, "hf": from_hub, "timm": from_timm}
