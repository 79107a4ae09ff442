"""The last net under the readers of strangers' data: whatever a malformed file makes them raise is one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dmn4.errors import InputError


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Inside, every error is an InputError that says what could not be read."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"cannot read {str(path)!r}: {reason(error)}") from None


def reason(error: Exception) -> str:
    """What an error says, on one line of readable length."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in str(error)).split())[:200]
    kind = type(error).__name__
    return f"{kind} {text}" if isinstance(error, KeyError | IndexError) else text or kind
