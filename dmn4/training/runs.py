"""A run folder: settings, weights, optimiser state, log, curves; and what a long run needs: pause, stop, resume."""

import csv
import io
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import torch
from pydantic import Field
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from ..errors import InputError
from ..files import parse_json, read_json, read_text, write_file, write_json
from ..files.schema import Finite, Name
from .checkpoints import load_state, save_state


@dataclass(frozen=True)
class Notes:
    """What a saved state says of its training: where it was, and the sums for the next row of the log."""

    step: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    seconds: Annotated[Finite, Field(ge=0)] = 0.0
    best: Annotated[float, Field(le=1)] = float("-inf")
    meter: dict[Name, Finite] = field(default_factory=dict)

    @classmethod
    def read(cls, texts: Mapping[str, str], source: str) -> "Notes":
        """The notes among the texts of a state; each is JSON."""
        kinds = {name: kind for name, kind in cls.__annotations__.items() if name in texts}
        return cls(**{name: parse_json(texts[name], source, kind) for name, kind in kinds.items()})


class Run:
    """One training in one folder, of which the first process alone writes.

    settings.json  what was asked for          last.safetensors  everything `resume` needs, replaced every few minutes
    log.csv        a row per measurement       model.safetensors, backbone.safetensors  the weights selected on val
    curves.png     the log as a picture        card.json  the result, its settings and the command
    A file named `pause` in the folder makes the run wait until it is gone; Ctrl-C or SIGTERM stop it after the step.
    """

    def __init__(self, folder: str | Path, settings: Mapping[str, Any], resume: bool = False, *,
                 save_every: float = 120, writes: bool = True) -> None:
        self.folder, self.settings, self.save_every, self.writes = Path(folder), dict(settings), save_every, writes
        self.saved, self.stopping, self.seconds = time.monotonic(), False, 0.0
        self.resumed = self._claim(resume)

    def _claim(self, resume: bool) -> bool:
        """Take the folder for these settings; True if it holds a state to go on from."""
        path = self.folder / "settings.json"
        if path.exists():
            if not resume:
                raise InputError(f"{str(self.folder)!r} holds a run already: --resume goes on with it")
            check_settings(self.folder, read_json(path), self.settings)
        elif self.writes:
            write_json(path, self.settings)
        return (self.folder / "last.safetensors").exists()

    def resume(self, network: nn.Module, optimizer: torch.optim.Optimizer, mean: nn.Module | None = None) -> Notes:
        """Fill network, optimiser and mean with the last saved state, forget later log rows; returns the notes."""
        path, log = self.folder / "last.safetensors", self.folder / "log.csv"
        notes = Notes()                                           # of a run that was killed before its first state
        if self.resumed:
            notes = Notes.read(load_state(path, network, optimizer, mean), f"checkpoint {str(path)!r}")
        self.seconds = notes.seconds
        if self.writes and log.exists():
            write_file(log, log_text([row for row in read_log(log) if int(row["step"]) <= notes.step]))
        return notes

    def save(self, network: nn.Module, optimizer: torch.optim.Optimizer, mean: nn.Module | None = None,
             **notes: Any) -> None:
        """Replace the saved state by the present one."""
        self.tick()
        if self.writes:
            save_state(self.folder / "last.safetensors", network, optimizer, notes | {"seconds": self.seconds}, mean)

    def tick(self) -> None:
        """Count the time until now; the next save is due some minutes from here."""
        self.seconds, self.saved = self.elapsed, time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of work in this folder, over all sittings."""
        return self.seconds + time.monotonic() - self.saved

    @property
    def is_due(self) -> bool:
        """Whether the state should be saved now: minutes have passed, or the run was asked to stop."""
        return self.stopping or time.monotonic() - self.saved > self.save_every

    def log(self, **row: Any) -> None:
        """Add a row to log.csv, and to TensorBoard where it is installed."""
        if not self.writes:
            return
        row["seconds"] = self.elapsed
        path = self.folder / "log.csv"
        new = not path.exists() or not path.stat().st_size       # empty: killed before the first row, then resumed
        with open(path, "a", newline="") as file:
            writer = csv.DictWriter(file, row)
            if new:
                writer.writeheader()
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
        tensorboard(self.folder, row)

    def wait_while_paused(self) -> None:
        """Return when there is no file `pause` in the folder; the time spent here does not count."""
        start = time.monotonic()
        while (self.folder / "pause").exists() and not self.stopping:
            time.sleep(0.5)
        self.saved += time.monotonic() - start

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Inside, Ctrl-C and SIGTERM set `stopping`, so that the step ends and the state is saved."""
        def stop(number: int, frame: FrameType | None) -> None:
            self.stopping = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Meter:
    """Means since the last row of the log; the sums travel with the saved state, so a resumed run logs the same."""

    def __init__(self, sums: Mapping[str, float]) -> None:
        self.sums = dict(sums)

    def add(self, **values: Tensor | float) -> None:
        """Count one step."""
        for name, value in (values | {"steps": 1}).items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value.detach() if isinstance(value, Tensor) else value)

    def means(self) -> dict[str, float]:
        """The mean of each value."""
        return {name: value / self.sums["steps"] for name, value in self.sums.items() if name != "steps"}

    def text(self) -> str:
        """The means in words."""
        return "  ".join(f"{name} {value:.3f}" for name, value in self.means().items())

    def row(self, **more: Any) -> dict[str, Any]:
        """The means and `more` as a row of the log; the meter starts again from nothing."""
        row = more | self.means()
        self.sums = {}
        return row


def check_settings(folder: Path, stored: dict[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise an InputError that names the first setting in which a run folder differs from what is asked for.

    A setting that the folder does not know yet, because it is newer than the run, cannot differ.
    """
    recipe = stored.get("recipe", {})
    before = stored | (recipe if isinstance(recipe, dict) else {"recipe of another form": recipe})
    now = {**wanted, **wanted.get("recipe", {})}
    for name in sorted(before, key=lambda name: name != "data"):      # the data first: it explains the rest
        if name != "recipe" and before[name] != now.get(name):
            what = "on another data set: its fingerprint" if name == "data" else f"of other settings: {name}"
            raise InputError(f"{str(folder)!r} holds a run {what} is {before[name]!r}, not {now.get(name)!r}; "
                             "choose another folder")


def read_log(path: Path) -> list[dict[str, str]]:
    """The rows of a log; a last line that a crash cut off is dropped."""
    if not path.exists():
        return []
    text = read_text(path)
    rows = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))
    for row in rows:
        if not (row.get("step") or "").isdecimal() or None in row:
            raise InputError(f"{str(path)!r} is damaged: it holds a row without a step; remove it, and the run goes on")
    return rows


def log_text(rows: list[dict[str, str]]) -> str:
    """Rows as the text of a CSV file."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


def tensorboard(folder: Path, row: Mapping[str, Any]) -> None:
    """Add a row to the TensorBoard log, if TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return
    with SummaryWriter(str(folder)) as writer:
        for name, value in row.items():
            if isinstance(value, float):
                writer.add_scalar(name, value, int(row["step"]))


def draw_curves(folder: Path) -> None:
    """Put the columns of log.csv beside each other in curves.png."""
    from matplotlib.figure import Figure

    rows = read_log(folder / "log.csv")
    names = [name for name in (rows[0] if rows else {}) if name not in ("step", "epoch", "seconds")]
    figure = Figure(figsize=(4 * max(1, len(names)), 3), layout="constrained")
    for place, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), place + 1, title=name, xlabel="epoch")
        points = [(float(row["epoch"]), float(row[name])) for row in rows if row[name]]
        axes.plot(*zip(*points, strict=True) if points else ([], []))
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    write_file(folder / "curves.png", picture.getvalue())


@contextmanager
def progress(label: str, total: int, done: int = 0, shown: bool = True) -> Iterator["Bar"]:
    """A progress bar of `total` steps; give what it should say to `advance`."""
    with Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
                  TextColumn("{task.fields[says]}"), TimeRemainingColumn(), disable=not shown) as bars:
        yield Bar(bars, bars.add_task(label, total=total, completed=done, says=""))


class Bar:
    """One line of progress."""

    def __init__(self, bars: Progress, task: TaskID) -> None:
        self.bars, self.task = bars, task

    def advance(self, says: str = "") -> None:
        """One step further."""
        self.bars.update(self.task, advance=1, says=says)

    def advance_by(self, steps: int) -> None:
        """Some steps further."""
        self.bars.update(self.task, advance=steps)
