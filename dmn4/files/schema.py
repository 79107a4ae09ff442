"""What JSON from a file may hold: finite numbers, texts and lists of bounded length. Every schema is made of these."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypeAliasType

LETTERS = 1000                                                # of a label, a name or an option
TEXT = 100_000                                                # letters of any other text, such as a command
MANY = 100_000                                                # entries of a list or of a dict

Name = Annotated[str, Field(max_length=LETTERS)]
Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Option = Annotated[int, Field(ge=-(1 << 31), le=1 << 31)] | Number | bool | Name
Options = Annotated[dict[Name, Option], Field(max_length=50)]
PictureSide = Annotated[int, Field(ge=8, le=4096)]             # of what a network looks at
Colours = Name | Number | Annotated[list[Number], Field(min_length=3, max_length=3)]


def or_none(number: float | None) -> float | None:
    """The number, or None for one that is not finite: older files hold some."""
    return number if number is not None and math.isfinite(number) else None


Measured = Annotated[float | None, AfterValidator(or_none)]   # None: too few values to tell
Fact = TypeAliasType("Fact", "Annotated[dict[Name, Fact], Field(max_length=MANY)] | "
                             "Annotated[list[Fact], Field(max_length=MANY)] | "
                             "Annotated[str, Field(max_length=TEXT)] | bool | int | Measured")
Facts = Annotated[dict[Name, Fact], Field(max_length=MANY)]


class Part(BaseModel):
    """Fields of exactly these types, every number finite."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Record(BaseModel):
    """Fields of exactly these types, and whatever further facts a file holds."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Fact] = Field(init=False)


def first_mistake(error: ValidationError) -> str:
    """Where a content differs from its schema first, and how, in a line of bounded length."""
    first: Any = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))[:100]
    return f"{place}: {first['msg'][:200]}" if place else first["msg"][:200]
