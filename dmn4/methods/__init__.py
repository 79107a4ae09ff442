"""Feature maps -> scores: every method by its name, in reading order."""

import inspect

from ..errors import check_options, choose
from .base import Method
from .dmn4 import DMN4
from .dn4 import DN4
from .mcl import MCL
from .mn4 import MN4
from .odm import ODM

METHODS: dict[str, type[Method]] = {
    "dn4": DN4,
    "mn4": MN4,
    "dmn4": DMN4,
    "odm": ODM,
    "mcl": MCL,
}


def build_method(name: str, **options: str | float | None) -> Method:
    """The method of that name: build_method("dmn4", channels=64, vote="rank")."""
    method = METHODS[choose("method", name, METHODS)]
    check_options(f"method {name!r}", options, inspect.signature(method).parameters)
    return method(**options)
