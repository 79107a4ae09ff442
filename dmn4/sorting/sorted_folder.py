"""Pictures copied or linked into a folder for each label; sorted again, a picture that changed its label moves."""

import contextlib
import filecmp
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from ..classify.verdict import NONE
from ..errors import InputError
from ..files import draft_beside
from .predictions import Prediction

LIST = ".dmn4-sorted.jsonl"                                   # which copy is of which picture: a line for each
LONGEST = 255                                                 # bytes of a file name


class SortedFolder:
    """The folder that `--sort-into` names.

    A line of the list is written before a copy is made or moved. So whenever the process dies, the list knows every
    copy, and the next run finds the one that is there. Before the first of a run stands a line with the time, so that
    the run can be undone.
    """

    def __init__(self, folder: Path, link: bool = False) -> None:
        self.folder, self.link, self.begun = folder, link, False
        self.copies = places_after(read_runs(folder / LIST))  # picture -> where its copy was, the newest place last
        self.owners = Counter(places[-1] for places in self.copies.values())

    def take(self, prediction: Prediction) -> Path | None:
        """Put a picture into folder/label, or folder/unknown; returns where. An unreadable one stays behind.

        A different picture of the same name gets a number behind its name; the same one is not copied twice.
        """
        if prediction.error:
            return None
        source = Path(os.path.abspath(str(prediction.image)))
        home = self.folder / folder_name(NONE if prediction.label is None else str(prediction.label))
        try:
            return self._place(source, home)
        except OSError as error:
            raise InputError(f"cannot put {str(source)!r} into {str(home)!r}: {error.strerror}") from None

    def _place(self, source: Path, home: Path) -> Path:
        before = self._copy_of(source)
        if before is not None and before.parent == home:
            return before
        home.mkdir(parents=True, exist_ok=True)
        target = place_for(source, home)
        shared = before is not None and self.owners[self._inside(before)] > 1      # also the copy of an equal picture
        self._remember(source, target)
        if before is not None and not shared:
            before.unlink() if target.exists() else os.replace(before, target)
            with contextlib.suppress(OSError):                # the last one of its folder
                before.parent.rmdir()
        elif not target.exists():
            put_copy(source, target, self.link)
        return target

    def _copy_of(self, source: Path) -> Path | None:
        """The copy of a picture that an earlier run made, if it is still there and still the same."""
        places = [self.folder / place for place in reversed(self.copies.get(str(source), []))]
        return next((place for place in places if is_copy(place, source)), None)

    def _remember(self, source: Path, target: Path) -> None:
        places, place = self.copies.setdefault(str(source), []), self._inside(target)
        if places:
            self.owners[places[-1]] -= 1
        places.append(place)
        self.owners[place] += 1
        if not self.begun:
            append_line(self.folder / LIST, {"run": time.strftime("%Y-%m-%d %H:%M:%S")})
        self.begun = True
        append_line(self.folder / LIST, {"image": str(source), "copy": place})

    def _inside(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()


@dataclass
class Run:
    """What one run sorted: pictures and the places of their copies, in order."""

    time: str = ""
    entries: list[tuple[str, str]] = field(default_factory=list)


def read_runs(path: Path) -> list[Run]:
    """The runs of a list that were not undone; a line that a crash cut off is none."""
    runs = [Run()]                                            # lines before the first time are of an older dmn4
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            entry = json.loads(line)
            if "run" in entry:
                runs.append(Run(str(entry["run"])))
            elif "undone" in entry:
                runs = [run for run in runs if run.entries][:-1] or [Run()]
            else:
                label, name = entry["copy"].split("/")        # never a way out of the folder
                if not {label, name} & {"", ".", ".."} and isinstance(entry["image"], str):
                    runs[-1].entries.append((entry["image"], f"{label}/{name}"))
    return [run for run in runs if run.entries]


def places_after(runs: Iterable[Run]) -> dict[str, list[str]]:
    """Pictures and where their copies were, the newest place last."""
    copies: dict[str, list[str]] = {}
    for run in runs:
        for image, copy in run.entries:
            copies.setdefault(image, []).append(copy)
    return copies


def append_line(path: Path, entry: dict[str, str]) -> None:
    """Add a line to a list, behind one that a crash may have cut off."""
    with open(path, "a+b") as file:
        torn = file.tell() > 0 and _last_byte(file.fileno(), file.tell()) != b"\n"
        file.write(b"\n" * torn + json.dumps(entry).encode() + b"\n")


def _last_byte(file: int, size: int) -> bytes:
    return os.pread(file, 1, size - 1)


def place_for(source: Path, home: Path) -> Path:
    """Where a picture goes in a folder: under its name, with a number behind it if that is another picture's."""
    target, number = home / source.name, 1
    while os.path.lexists(target) and not is_copy(target, source):
        number += 1
        target = home / (shorter(source.stem, LONGEST, f"-{number}{source.suffix}") + f"-{number}{source.suffix}")
    return target


def is_copy(path: Path, source: Path) -> bool:
    """Whether there is a file at `path` with the content of `source`."""
    return path.is_file() and filecmp.cmp(source, path, shallow=False)


def folder_name(label: str) -> str:
    """A label as the name of a folder: never a way out of the folder above it, and another one for another label."""
    name = label.replace(os.sep, "_").replace("\0", "_").strip(". ") or "_"
    if name == label and len(os.fsencode(name)) <= LONGEST:
        return name
    mark = "~" + hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return shorter(name, LONGEST, mark) + mark


def shorter(name: str, most: int, tail: str) -> str:
    """The beginning of a name that leaves room for its tail within `most` bytes."""
    while name and len(os.fsencode(name + tail)) > most:
        name = name[:-1]
    return name


def put_copy(source: Path, target: Path, link: bool) -> None:
    """Copy or link a picture to a place that is free."""
    if link:
        target.symlink_to(source.resolve())
    else:
        copy_whole(source, target)


def copy_whole(source: Path, target: Path) -> None:
    """Copy a file so that the target is there whole or not at all."""
    draft = draft_beside(target)
    try:
        shutil.copy2(source, draft)
        os.replace(draft, target)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
