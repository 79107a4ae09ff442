"""Files that survive a crash: written beside their place, then moved there; weights as safetensors, never pickle."""

import contextlib
import functools
import hashlib
import json
import math
import os
import platform
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar, overload

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .errors import InputError

Buffer: TypeAlias = bytes | memoryview
Kind = TypeVar("Kind")
HOST = hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()      # tells drafts on a shared drive apart
FORMAT = "dmn4 1"                                             # in the metadata of every file written here
TEXT_LIMIT = 1 << 30                                          # bytes of a text or a table
LARGEST = 1e15                                                # of a weight; a product of two is still a float32
PAGE = 1 << 20                                                # bytes written at once where room cannot be reserved


def write_file(path: Path, content: bytes | str | Iterable[Buffer]) -> None:
    """Put `content` at `path` whole or not at all, also when the process is killed or the disk is full.

    It may come in parts, one after the other. A text becomes UTF-8; names of files in it that are none
    are written byte for byte.
    """
    beside = draft_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            content = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}; what was there before is intact") from None
    finally:                                                  # also after Ctrl-C; once it is moved nothing is there
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def draft_beside(path: Path) -> Path:
    """A new hidden name in the same folder; short, because the name of the file itself may be as long as can be."""
    remove_drafts(path.parent)
    return path.with_name(f".{secrets.token_hex(6)}.{HOST}.{os.getpid()}.part")


@functools.cache
def remove_drafts(folder: Path) -> None:
    """Remove from a folder, once, the drafts of processes of this machine that were killed."""
    for draft in folder.glob(f".*.{HOST}.*.part"):
        with contextlib.suppress(OSError, ValueError):
            if not is_alive(int(draft.name.split(".")[-2])):
                draft.unlink()


def is_alive(process: int) -> bool:
    """Whether there is a process of this number; yes where that cannot be asked."""
    if os.name != "posix":                                    # elsewhere this call would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:                                           # of another user
        return True
    return True


def write_json(path: Path, content: Any) -> None:
    """Put `content` at `path` as readable JSON; null stands for a number that is not finite."""
    write_file(path, json.dumps(finite(content), indent=2, allow_nan=False) + "\n")


def finite(content: Any) -> Any:
    """The same content with None in place of every number that is not finite."""
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


@overload
def read_json(path: Path) -> dict[str, Any]: ...
@overload
def read_json(path: Path, kind: type[Kind]) -> Kind: ...
def read_json(path: Path, kind: Any = None) -> Any:
    """The content of a JSON file, of this kind if one is named, or an InputError that names the file."""
    return parse_json(read_text(path), repr(str(path)), kind)


@overload
def parse_json(text: str, source: str) -> dict[str, Any]: ...
@overload
def parse_json(text: str, source: str, kind: type[Kind]) -> Kind: ...
@overload
def parse_json(text: str, source: str, kind: Any) -> Any: ...
def parse_json(text: str, source: str, kind: Any = None) -> Any:
    """The content of a JSON text, or an InputError that says where it came from and what is wrong.

    `kind` is any type that pydantic can check: a dataclass, dict[str, float], list[int]. Without one it is a dict of
    facts, finite and of bounded length.
    """
    from pydantic import TypeAdapter

    from .schema import Facts

    with matching(f"cannot read {source}"):
        return TypeAdapter(Facts if kind is None else kind).validate_json(text, strict=True)


@contextlib.contextmanager
def matching(trouble: str) -> Iterator[None]:
    """Inside, what does not match its schema is an InputError of one line that begins with `trouble`."""
    from pydantic import ValidationError

    from .schema import first_mistake

    try:
        yield
    except ValidationError as error:
        raise InputError(f"{trouble}: {first_mistake(error)}") from None


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """The text of an ordinary file of at most TEXT_LIMIT bytes, or an InputError that names it."""
    check_regular(path)
    try:
        if path.stat().st_size > TEXT_LIMIT:
            raise InputError(f"{str(path)!r} is larger than {TEXT_LIMIT / 1e9:.0f} GB, too large for a text")
        return path.read_text(encoding=encoding)
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {str(path)!r}: it is no UTF-8 text ({error.reason})") from None


def check_regular(path: Path) -> None:
    """Refuse what is no ordinary file: to open a pipe would be to wait for ever, a device has no end."""
    if not os.path.lexists(path):
        raise InputError(f"there is no file {str(path)!r}")
    if not os.path.isfile(path):
        kind = "a folder" if os.path.isdir(path) else "no ordinary file"
        raise InputError(f"cannot read {str(path)!r}: it is {kind}")


def reserve(file: BinaryIO, size: int) -> None:
    """Lengthen an open file by `size` zeros whose room is taken now, or raise an OSError.

    Writing into a map of a file without room would kill the process when the disk is full.
    """
    file.flush()
    if size and hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), file.tell(), size)
        return
    for place in range(0, size, PAGE):                        # no such call on this system: write the zeros
        file.write(bytes(min(PAGE, size - place)))
    file.flush()


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
            found = tuple(tensors[name].shape) if name in tensors else "absent"
            needed = tuple(wanted[name].shape) if name in wanted else "absent"
            raise InputError(f"checkpoint {source!r} belongs to another network: {name!r} is {found}, not {needed}")
    check_finite(tensors, source)
    network.load_state_dict(dict(tensors))
