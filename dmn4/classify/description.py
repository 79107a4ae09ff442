"""What a model file says of itself: one schema with bounds. Whatever does not fit it is refused before it is used."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from ..errors import InputError
from ..files import matching
from ..files.schema import Name, Number, Options, Part

VERSION = 5                                                   # of the file: maps patch by patch, and counterexamples
PROMISES = 5                                                  # the first whose fits know the nearest picture
OLDEST = 2                                                    # up to version 4 all maps are read when it is opened
SIDE = 4096                                                   # pixels

Side = Annotated[int, Field(ge=1, le=SIDE)]
Colour = tuple[Number, Number, Number]
Spread = Annotated[float, Field(gt=0, le=1e6)]


class Parameters(Part):
    """The arguments of the classifier."""

    method: Name
    backbone: Name | None
    weights: Name | None = None
    layer: Name | Annotated[int, Field(ge=-1000, le=1000)] | None = None
    image_size: Side | None = None
    method_options: Options | None = None
    shortlist: Annotated[int, Field(ge=2)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=1 << 20)] = 32


class Backbone(Part):
    """The network: the name and options that rebuild it, the weights that come with it, the checksum of its tensors."""

    name: Name
    options: Options
    weights: Name | None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    kind: Annotated[Name, Field(alias="class")]


class Preparation(Part):
    """How pictures are prepared: the fields of a Transform."""

    size: Side
    resize: Side | tuple[Side, Side] | None
    crop: Literal["none", "centre", "random", "resized"]
    padding: Annotated[int, Field(ge=0, le=SIDE)]
    reflect: bool
    flip: bool
    jitter: Annotated[float, Field(ge=0, le=1)]
    mean: Colour
    std: tuple[Spread, Spread, Spread]


class Composition(Part):
    """What classifies."""

    backbone: Backbone
    transform: Preparation
    method: Name
    method_options: Options


class Labels(Part):
    """The classes, and the type of array that holds them."""

    values: Annotated[list[Name | int | float | bool], Field(min_length=2, max_length=1 << 20)]
    type: Annotated[str, Field(pattern="^[<>|=]?[biufUO][0-9]{0,10}$")]


Values = Annotated[list[Number], Field(max_length=10_000)]


class Promises(Part):
    """The fields of a Calibration."""

    temperature: Annotated[float, Field(gt=0, le=1e9)]
    fits: Values
    chances: Values

    @model_validator(mode="after")
    def in_order(self) -> Self:
        """Refuse held-out values that are not sorted, or not of the same pictures."""
        if len(self.fits) != len(self.chances) or any(list(values) != sorted(values)
                                                      for values in (self.fits, self.chances)):
            raise ValueError("the held-out values are not in order")
        return self


class Description(Part):
    """Everything about a classifier but its tensors."""

    version: int
    parameters: Parameters
    parts: Composition
    classes: Labels
    calibration: Promises | None

    @field_validator("calibration", mode="before")
    @classmethod
    def of_this_version(cls, calibration: Any, info: ValidationInfo) -> Any:
        """None for a file of before version 5, whose promises rested on other evidence: they are made again."""
        return calibration if info.data.get("version", 0) >= PROMISES else None


class Versioned(BaseModel):
    """What every version of the file says."""

    version: int


def parse(text: str, source: str) -> Description:
    """The description in the header of a model file, or an InputError that says in one line what is wrong with it."""
    with matching(f"cannot read model file {source}: its description is damaged"):
        version = Versioned.model_validate_json(text, strict=True).version
        if version > VERSION:
            raise InputError(f"{source} was written by a newer dmn4 (file version {version}, this one reads "
                             f"{VERSION}): upgrade with `pip install -U dmn4`")
        if version < OLDEST:
            raise InputError(f"{source} was written by an early dmn4 (file version {version}): fit again")
        return Description.model_validate_json(text)
