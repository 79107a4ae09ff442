"""The one error a user should see."""

from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any


class InputError(ValueError):
    """Something the user gave is wrong; the message says what was found and what to do about it."""


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """`name` if it is one of `known`, otherwise an InputError that lists them."""
    names = list(known)
    if name not in names:
        raise InputError(f"unknown {kind} {name!r}; choose one of {', '.join(names)}")
    return name


def check_options(owner: str, options: Mapping[str, Any], known: Mapping[str, Parameter]) -> None:
    """Raise an InputError for the first option that `owner` does not have, or that is text where a number belongs."""
    for option, value in options.items():
        if option not in known:
            raise InputError(f"{owner} has no option {option!r}; it takes {', '.join(known)}")
        if isinstance(value, str) and known[option].annotation in (int, float, int | None):
            raise InputError(f"{option} of {owner} is {value!r}; a number is needed")
