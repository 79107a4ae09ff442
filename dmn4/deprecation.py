"""How a public name or argument goes: it works and warns for two minor versions, and says what takes its place."""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(since: str, until: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function or method that goes in version `until`; `instead` is what to write in its place."""
    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        text = notice(function.__qualname__, since, until, instead)

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(text, FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        run.__doc__ = f"{function.__doc__ or ''}\n\n.. deprecated:: {since}\n   {text}\n"
        return run
    return decorate


def renamed_argument(old: str, new: str, since: str, until: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Go on taking a keyword argument under its `old` name until version `until`."""
    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        text = notice(f"{old}= of {function.__qualname__}", since, until, f"{new}=")

        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> R:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__qualname__} got {new}= and {old}=, its old name; give {new}= alone")
                warnings.warn(text, FutureWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return run
    return decorate


def notice(name: str, since: str, until: str, instead: str) -> str:
    """What a user reads."""
    return f"{name} is deprecated since dmn4 {since} and goes in {until}: use {instead}"
