"""A fitted classifier in one file, `*.dmn4`: safetensors with a JSON text in the header; nothing in it is executed."""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError
from ..files import packed, write_file

VERSION = 2
KEY = "dmn4-classifier"                                       # the entry of the header that holds the JSON text


def write_modelfile(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Put tensors and what is known `about` them at `path`, whole or not at all."""
    text = json.dumps({"version": VERSION, **about}, allow_nan=False)
    write_file(path, packed(tensors, {KEY: text}))


def read_modelfile(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and description of a model file, or an InputError that says in one line what the file is instead."""
    name = repr(str(path))
    if not path.is_file():
        raise InputError(f"{name} is a folder, not a model file" if path.is_dir() else f"there is no model file {name}")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                raise InputError(f"{name} is a safetensors file, but no classifier of dmn4: make one with `dmn4 fit`")
            about = json.loads(text)
            if about["version"] > VERSION:
                raise InputError(f"{name} was written by a newer dmn4 (file version {about['version']}, this one reads "
                                 f"{VERSION}): upgrade with `pip install -U dmn4`")
            return {key: file.get_tensor(key) for key in file.keys()}, about    # noqa: SIM118 (not a dict)
    except InputError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read model file {name}: damaged, truncated, or not a dmn4 file ({error})") from None


def pack_bytes(contents: list[bytes]) -> dict[str, Tensor]:
    """Byte strings as two tensors: everything in a row (total,), and where each one ends (n,)."""
    joined = torch.frombuffer(bytearray(b"".join(contents) or b"\0"), dtype=torch.uint8)
    return {"bytes": joined, "ends": torch.tensor([len(content) for content in contents]).cumsum(0)}


def unpack_bytes(joined: Tensor, ends: Tensor) -> list[bytes]:
    """The byte strings that `pack_bytes` joined."""
    content, places = joined.numpy().tobytes(), [0, *ends.tolist()]
    return [content[start:end] for start, end in pairwise(places)]
