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


def check_options(owner: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise an InputError for the first option that `owner` does not have; it lists the known ones."""
    names = list(known)
    for option in options:
        if option not in names:
            raise InputError(f"{owner} has no option {option!r}; it takes {', '.join(names)}")
