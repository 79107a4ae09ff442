"""A fitted classifier in one file, `*.dmn4`: safetensors with a JSON text in the header; nothing in it is executed.

Tensors are written one after the other without a copy of all, and mapped, not read, when the file is opened.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError
from ..files import Buffer, write_file
from .description import VERSION, Description, parse

KEY = "dmn4-classifier"                                       # the entry of the header that holds the JSON text
NAMES = {torch.float64: "F64", torch.int64: "I64", torch.float32: "F32", torch.int32: "I32", torch.bfloat16: "BF16",
         torch.float16: "F16", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}


@dataclass(frozen=True)
class Column:
    """A tensor that is never there as a whole: its type, its shape, and its content in parts, in order."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    parts: Callable[[], Iterable[Tensor | Buffer]]


def write_modelfile(path: Path, tensors: Mapping[str, Tensor | Column], about: Mapping[str, Any]) -> None:
    """Put tensors and what is known `about` them at `path`, whole or not at all."""
    text = json.dumps({"version": VERSION, **about}, allow_nan=False)
    write_file(path, streamed({name: as_column(tensor) for name, tensor in tensors.items()}, {KEY: text}))


def as_column(tensor: Tensor | Column) -> Column:
    """A tensor in one part."""
    return tensor if isinstance(tensor, Column) else Column(tensor.dtype, tuple(tensor.shape), lambda: [tensor])


def streamed(columns: Mapping[str, Column], texts: Mapping[str, str]) -> Iterator[Buffer]:
    """The parts of a safetensors file. Equal content gives equal bytes; wide numbers come first, so that all align."""
    order = sorted(columns, key=lambda name: (-columns[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(texts)}
    end = 0
    for name in order:
        column = columns[name]
        start, end = end, end + column.dtype.itemsize * torch.Size(column.shape).numel()
        header[name] = {"dtype": NAMES[column.dtype], "shape": list(column.shape), "data_offsets": [start, end]}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        for part in columns[name].parts():
            yield content(part) if isinstance(part, Tensor) else part


def content(tensor: Tensor) -> memoryview:
    """The bytes of a tensor."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def read_modelfile(path: Path) -> tuple[dict[str, Tensor], Description]:
    """Tensors, mapped, and description of a model file, or an InputError that says in one line what it is instead."""
    name = repr(str(path))
    if not path.is_file():
        raise InputError(f"{name} is a folder, not a model file" if path.is_dir() else f"there is no model file {name}")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                raise InputError(f"{name} is a safetensors file, but no classifier of dmn4: make one with `dmn4 fit`")
            return {key: file.get_tensor(key) for key in file.keys()}, parse(text, name)    # noqa: SIM118 (not a dict)
    except InputError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read model file {name}: damaged, truncated, or not a dmn4 file ({error})") from None
