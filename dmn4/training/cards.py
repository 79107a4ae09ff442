"""Result cards: a number with all that is needed to get it again, as JSON with a version and one schema."""

import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

import dmn4

from ..errors import InputError
from ..files import matching, read_json, write_json
from ..files.schema import Measured, Name, Record, Share

VERSION = 2                                                   # 1: without the number, and without what is usual
STAGES = ("pretrain", "train", "evaluate")


class Contender(Record):
    """What took part in an evaluation."""

    options: Name = "{}"
    untrained: bool = False


class Result(Record):
    """The accuracy of a contender, and the half-width of its interval."""

    mean: Share
    half_width_t: Measured


class Card(Record):
    """The result of a training."""

    version: Annotated[int, Field(ge=1)] = 1
    stage: Literal["pretrain", "train", "evaluate"]


class EvaluationCard(Card):
    """The result of an evaluation or a comparison; what older cards leave out is what was usual."""

    contenders: dict[Name, Contender]
    results: Annotated[dict[Name, Result], Field(min_length=1)]
    mirror: bool = False
    compared_with: Name | None = None
    differences: dict[Name, dict[Name, Measured]] = {}


def write_card(path: Path, **facts: Any) -> None:
    """Write a result card: the facts, versions, machine, date and the command that made it."""
    made = {"dmn4": dmn4.__version__, "torch": torch.__version__, "python": platform.python_version(),
            "machine": f"{platform.machine()} {platform.processor()}".strip(), "threads": torch.get_num_threads(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S"), "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}
    write_json(path, {"version": VERSION} | facts | made)


def read_card(path: Path) -> dict[str, Any]:
    """A result card of any version in the present form, or an InputError that says why it is none."""
    facts = read_json(path)
    if facts.get("stage") not in STAGES:
        raise InputError(f"{str(path)!r} is no result card: give the card.json of a run")
    version = facts.get("version", 1)
    if isinstance(version, int) and version > VERSION:
        raise InputError(f"{str(path)!r} was written by a newer dmn4 (card version {version}, this one reads "
                         f"{VERSION}): upgrade with `pip install -U dmn4`")
    with matching(f"cannot read the result card {str(path)!r}"):
        kind = EvaluationCard if facts["stage"] == "evaluate" else Card
        return facts | kind.model_validate(facts).model_dump() | {"version": VERSION}
