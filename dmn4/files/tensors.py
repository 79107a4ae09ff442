"""Weights and other tensors as safetensors, never pickle."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..errors import InputError
from .whole import write_file

FORMAT = "dmn4 1"                                             # in the metadata of every file written here
LARGEST = 1e15                                                # of a weight; a product of two is still a float32


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


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name starts with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def check_finite(tensors: Mapping[str, Tensor], source: str) -> None:
    """Raise an InputError that names the first tensor with a number that no network can have learnt."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            low, high = (float(end) for end in tensor.detach().aminmax())
            if not (low > -LARGEST and high < LARGEST):       # NaN is neither
                wrong = high if low > -LARGEST else low
                raise InputError(f"{source!r} cannot be used: its tensor {name!r} holds {wrong:g}; the training went "
                                 "wrong, or the file is damaged")


def fill(network: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy tensors into the network, or raise an InputError that names the first that does not fit or holds NaN."""
    wanted = network.state_dict()
    for name in [*wanted, *tensors]:
        if name not in tensors or name not in wanted or tensors[name].shape != wanted[name].shape:
            shape = tuple(tensors[name].shape) if name in tensors else "absent"
            needed = tuple(wanted[name].shape) if name in wanted else "absent"
            raise InputError(f"checkpoint {source!r} belongs to another network: {name!r} is {shape}, not {needed}")
    check_finite(tensors, source)
    network.load_state_dict(dict(tensors))
