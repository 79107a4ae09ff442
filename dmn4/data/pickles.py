"""Pickled arrays without running a pickle: only arrays, lists, dicts, strings and numbers come out.

A pickle names the functions that rebuild its content. Here the few that arrays need are replaced by the stand-ins
below, which copy bytes and nothing else; any other name is refused before it is looked up.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from dmn4.errors import InputError

DEPTH = 20                                                         # lists in lists in lists: no data set needs more


def read_pickle(path: str | Path) -> Any:
    """The lists, dicts, strings, numbers and arrays in a pickle file, Python 2 or 3."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _plain(_Reader(file, encoding="latin1").load(), DEPTH)
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except _RefusedError as error:
        raise InputError(f"{str(path)!r} asks for {error}, which no data set needs; it was not run") from None
    except Exception as error:                                     # a damaged pickle raises nearly every type there is
        reason = str(error) or type(error).__name__
        raise InputError(f"cannot read {str(path)!r} as a pickle of arrays: {reason}") from None


class _RefusedError(Exception):
    """A name that a pickle of arrays does not need."""


class _Type:
    """Stands in for numpy.dtype: kind and width, such as `u1`, and later the byte order."""

    __slots__ = ("code",)

    def __init__(self, code: str, *_: object) -> None:
        if not isinstance(code, str) or code[:1] not in "biufSUO" or not code[1:].isdigit():
            raise _RefusedError(f"an array of type {code!r}")
        self.code = code

    def __setstate__(self, state: tuple) -> None:
        order = state[1]
        self.code = order + self.code.lstrip("<>|=") if order in ("<", ">", "|") else self.code


class _Array:
    """Stands in for the function that rebuilds numpy arrays; filled by its state, made an array by `_plain`."""

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray | list | None = None

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, by_columns, content = state
        if isinstance(content, list):                              # an array of objects: its members were read safely
            self.value = content
        else:
            raw = content.encode("latin1") if isinstance(content, str) else content
            self.value = np.frombuffer(raw, dtype=kind.code).reshape(shape, order="F" if by_columns else "C")


class _Frame:
    """Stands in for `numpy.core.numeric._frombuffer`, which pickles of protocol 5 use."""

    __setstate__ = None

    def __new__(cls, raw: bytes, kind: _Type, shape: tuple, order: str) -> Any:
        return np.frombuffer(raw, dtype=kind.code).reshape(shape, order="F" if order == "F" else "C")


class _Number:
    """Stands in for the function that rebuilds numpy scalars."""

    __setstate__ = None

    def __new__(cls, kind: _Type, raw: bytes | str) -> Any:
        return np.frombuffer(raw.encode("latin1") if isinstance(raw, str) else raw, dtype=kind.code)[0].item()


class _Bytes:
    """Stands in for `_codecs.encode`, by which old protocols write bytes."""

    __setstate__ = None

    def __new__(cls, text: str, encoding: str = "latin1") -> Any:
        return text.encode("latin1")


class _Name:
    """Stands in for a class that is only passed on, as `numpy.ndarray` is."""

    __setstate__ = None


_ARRAYS = {"_reconstruct": _Array, "scalar": _Number, "_frombuffer": _Frame}
STAND_INS: dict[tuple[str, str], type] = {
    **{(f"numpy.{core}.{part}", name): stand_in for core in ("core", "_core") for part in ("multiarray", "numeric")
       for name, stand_in in _ARRAYS.items()},
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Name,
    ("_codecs", "encode"): _Bytes,
    ("collections", "OrderedDict"): dict,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in STAND_INS:
            raise _RefusedError(f"{module}.{name}")
        return STAND_INS[module, name]


def _plain(value: Any, depth: int) -> Any:
    """The value with arrays in place of their stand-ins; anything but the plain types is refused."""
    if depth == 0:
        raise _RefusedError("lists in lists without end")
    if isinstance(value, _Array):
        value = value.value
    if isinstance(value, list | tuple):
        return [_plain(member, depth - 1) for member in value]
    if isinstance(value, dict):
        return {_text(key): _plain(member, depth - 1) for key, member in value.items()}
    if value is None or isinstance(value, str | bytes | bytearray | int | float | np.ndarray):
        return value
    raise _RefusedError(f"a {type(value).__name__}")


def _text(key: Any) -> Any:
    """Keys that Python 2 wrote as bytes, as text."""
    return key.decode("latin1") if isinstance(key, bytes) else key
