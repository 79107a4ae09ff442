"""The options of every method as a table, from the signatures of their classes."""

import inspect

from dmn4 import METHODS


def option_table() -> str:
    """One row a method: its options with their defaults."""
    rows = [f"| `{name}` | {options(kind)} |" for name, kind in METHODS.items()]
    return "\n".join(["| Method | Options and their defaults |", "|---|---|", *rows]) + "\n"


def options(kind: type) -> str:
    """The options of a method; `channels` is one of all of them."""
    own = [one for one in inspect.signature(kind).parameters.values() if one.name != "channels"]
    return ", ".join(f"`{one.name}={one.default!r}`" for one in own)
