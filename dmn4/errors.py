"""The one error a user should see."""

from collections.abc import Iterable


class InputError(ValueError):
    """Something the user gave is wrong; the message says what was found and what to do about it."""


def choose(kind: str, name: str, known: Iterable[str]) -> str:
    """`name` if it is one of `known`, otherwise an InputError that lists them."""
    names = list(known)
    if name not in names:
        raise InputError(f"unknown {kind} {name!r}; choose one of {', '.join(names)}")
    return name
