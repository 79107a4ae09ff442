"""Texts and JSON: written whole, read within bounds."""

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, overload

from ..errors import InputError
from .whole import check_regular, write_file

Kind = TypeVar("Kind")
TEXT_LIMIT = 1 << 30                                          # bytes of a text or a table


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
