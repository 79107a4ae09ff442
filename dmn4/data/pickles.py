"""Pickled arrays without running a pickle: only arrays, lists, dicts, strings and numbers come out.

A pickle names the functions that rebuild its content. Here the few that arrays need are replaced by the stand-ins
below, which copy bytes and nothing else; any other name is refused before it is looked up. A pickle of a few bytes can
also ask for any amount of memory or time, so what comes out of it is counted: it may not be larger than its file.
"""

import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dmn4.errors import InputError

from ..files import check_regular
from .reading import reason

DEPTH = 20                                                         # lists in lists in lists: no data set needs more
CONTAINERS = 8_000_000                                             # lists, dicts, tuples; tieredImageNet: 3 million
SLACK = 1000                                                       # members and bytes beyond what the file could hold


def read_pickle(path: str | Path) -> Any:
    """The lists, dicts, strings, numbers and arrays in a pickle file, Python 2 or 3."""
    path = Path(path)
    check_regular(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _Plain(size).value(_Reader(file, size).load())
    except _RefusedError as error:
        raise InputError(f"{str(path)!r} asks for {reason(error)}, which no data set needs; it was not run") from None
    except Exception as error:                                     # a damaged pickle raises nearly every type there is
        raise InputError(f"cannot read {str(path)!r} as a pickle of arrays: {reason(error)}") from None


class _RefusedError(Exception):
    """A name that a pickle of arrays does not need."""


class _Type:
    """Stands in for numpy.dtype: kind and width, such as `u1`, and later the byte order."""

    __slots__ = ("code",)

    def __init__(self, code: str, *_: object) -> None:
        if not isinstance(code, str) or code[:1] not in "biufSUO" or not code[1:].isdigit():
            raise _RefusedError(f"an array of type {code!r}")
        self.code = code

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.code = order + self.code.lstrip("<>|=") if order in ("<", ">", "|") else self.code


class _Array:
    """Stands in for the function that rebuilds numpy arrays; filled by its state, made an array by `_plain`."""

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray | list[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        if isinstance(content, list):                              # an array of objects: its members were read safely
            self.value = content
        else:
            raw = content.encode("latin1") if isinstance(content, str) else content
            self.value = np.frombuffer(raw, dtype=kind.code).reshape(shape, order="F" if by_columns else "C")


class _Frame:
    """Stands in for `numpy.core.numeric._frombuffer`, which pickles of protocol 5 use."""

    __setstate__ = None

    def __new__(cls, raw: bytes, kind: _Type, shape: tuple[int, ...], order: str) -> Any:
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


class _Ordered:
    """Stands in for `collections.OrderedDict`: a dict of the pairs."""

    __setstate__ = None

    def __new__(cls, pairs: Iterable[Any] = ()) -> Any:
        return {_key(key): value for key, value in pairs}


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
    ("collections", "OrderedDict"): _Ordered,
}


# ----------------------------------------------------------------------------------------------------------- the reader

class _Bounded:
    """A file of which nobody reads more than it has; else the room for it would be taken first."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.readline = file, size, file.readline

    def read(self, count: int) -> bytes:
        if count > self.size:
            raise EOFError("it ends too early")
        return self.file.read(count)


_Unpickler: Any = pickle._Unpickler                                # the one in Python


class _Reader(_Unpickler):  # type: ignore[misc]
    """An unpickler whose memo is as large as what is in it, and which hashes nothing but text and numbers.

    The one that the standard library has in C makes room for any place in the memo that a pickle names, and hashes
    nested tuples without an end; so this is the other one.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__(_Bounded(file, size), encoding="latin1")
        self.size, self.left = size, CONTAINERS

    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in STAND_INS:
            raise _RefusedError(f"{module}.{name}")
        return STAND_INS[module, name]

    def load_build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], _Type | _Array):
            raise _RefusedError(f"the state of a {type(self.stack[-1]).__name__}")
        self.stack[-1].__setstate__(state)

    def load_bytearray8(self) -> None:
        count = int.from_bytes(self.read(8), "little")
        if count > self.size:
            raise EOFError("it ends too early")
        self.append(bytearray(self.read(count)))

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _put(self.stack[-1], [(key, value)])

    def load_setitems(self) -> None:
        items = self.pop_mark()
        _put(self.stack[-1], zip(items[::2], items[1::2], strict=True))

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        _put(self.stack[-1], zip(items[::2], items[1::2], strict=True))

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _RefusedError(f"more than {CONTAINERS:,} lists, dicts and tuples")


def _put(target: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
    if not isinstance(target, dict):
        raise _RefusedError(f"items of a {type(target).__name__}")
    for key, value in pairs:
        target[_key(key)] = value


def _key(key: Any) -> Any:
    """A key that costs nothing to hash; one that Python 2 wrote as bytes, as text."""
    if not isinstance(key, str | bytes | int | float | None):
        raise _RefusedError(f"a {type(key).__name__} as a key")
    return key.decode("latin1") if isinstance(key, bytes) else key


def _counted(load: Callable[[Any], None]) -> Callable[[Any], None]:
    def run(reader: _Reader) -> None:
        reader.count()
        load(reader)
    return run


OWN = {pickle.BUILD: _Reader.load_build, pickle.BYTEARRAY8: _Reader.load_bytearray8, pickle.DICT: _Reader.load_dict,
       pickle.SETITEM: _Reader.load_setitem, pickle.SETITEMS: _Reader.load_setitems}
REFUSED = (pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET, pickle.PERSID, pickle.BINPERSID, pickle.EXT1,
           pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER)
MAKERS = (pickle.MARK, pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.LIST, pickle.DICT, pickle.TUPLE, pickle.TUPLE1,
          pickle.TUPLE2, pickle.TUPLE3, pickle.REDUCE, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.OBJ, pickle.INST)
_Reader.dispatch = _Unpickler.dispatch | {code[0]: load for code, load in OWN.items()}
for _code in REFUSED:
    del _Reader.dispatch[_code[0]]
for _code in MAKERS:
    _Reader.dispatch[_code[0]] = _counted(_Reader.dispatch[_code[0]])


class _Plain:
    """Values with arrays in place of their stand-ins; anything but the plain types is refused.

    A member that stands in many places counts in each: lists of lists of one list are larger than any file.
    """

    def __init__(self, size: int) -> None:
        self.members, self.bytes = 4 * size + SLACK, 2 * size + SLACK

    def value(self, value: Any, depth: int = DEPTH) -> Any:
        """The value, none of whose lists lie deeper than `depth`."""
        if depth == 0:
            raise _RefusedError("lists in lists without end")
        if isinstance(value, _Array):
            value = value.value
        self.members -= 1
        self.bytes -= value.nbytes if isinstance(value, np.ndarray) else len(value) if isinstance(
            value, bytes | bytearray) else 0
        if self.members < 0 or self.bytes < 0:
            raise _RefusedError("far more than its file holds")
        if isinstance(value, list | tuple):
            return [self.value(member, depth - 1) for member in value]
        if isinstance(value, dict):
            return {key: self.value(member, depth - 1) for key, member in value.items()}
        if value is None or isinstance(value, str | bytes | bytearray | int | float | np.ndarray):
            return value
        raise _RefusedError(f"a {type(value).__name__}")
