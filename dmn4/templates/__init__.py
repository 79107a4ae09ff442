"""HTML from the templates of this folder: whatever stands in a value is shown, never run."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, **values: Any) -> str:
    """A template with these values; one that is missing is an error."""
    return environment().get_template(name).render(**values)


@cache
def environment() -> "Environment":
    """Where templates are found and how they are read."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(loader=PackageLoader("dmn4"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                       lstrip_blocks=True)
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made
