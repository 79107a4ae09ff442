"""Result cards: a number with everything that is needed to get it again, as JSON with a version."""

import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import torch

import dmn4

from ..errors import InputError
from ..files import read_json, write_json

VERSION = 2                                                   # 1: without the number, and without what is usual
USUAL: dict[str, Any] = {"mirror": False, "compared_with": None, "differences": {}}
USUAL_CONTENDER: dict[str, Any] = {"options": "{}", "untrained": False}


def write_card(path: Path, **facts: Any) -> None:
    """Write a result card: the facts, versions, machine, date and the command that made it."""
    made = {"dmn4": dmn4.__version__, "torch": torch.__version__, "python": platform.python_version(),
            "machine": f"{platform.machine()} {platform.processor()}".strip(), "threads": torch.get_num_threads(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S"), "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}
    write_json(path, {"version": VERSION} | facts | made)


def read_card(path: Path) -> dict[str, Any]:
    """A result card of any version in the present form, or an InputError that says why it is none."""
    card = read_json(path)
    version = card.get("version", 1) if isinstance(card, dict) else None
    if not isinstance(version, int) or not {"stage", "results"} & card.keys():
        raise InputError(f"{str(path)!r} is no result card: give the card.json of a run")
    if version > VERSION:
        raise InputError(f"{str(path)!r} was written by a newer dmn4 (card version {version}, this one reads "
                         f"{VERSION}): upgrade with `pip install -U dmn4`")
    usual = USUAL if "results" in card else {}
    contenders = {name: USUAL_CONTENDER | facts for name, facts in card.get("contenders", {}).items()}
    return usual | card | {"version": VERSION} | ({"contenders": contenders} if contenders else {})
