"""The paper's table of computation times: ratios to DN4, for the head alone and with the backbone before it."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import build_backbone
from ..benchmark.race import LONG, Figures, machine, race
from ..files import write_json
from ..methods import build_method
from .page import write_table
from .workshop import Entry, Workshop

ROUNDS = {"tiny": 3, "cpu": 9, "paper": 101}          # at least; races go on until every median is settled
RACES, SETTLED = 5, 0.05    # at most so many races; a median is settled if its interval is 5 % to either side
REFINED = 100               # epochs of DeepEMD's refinement for more than one shot
TIMED = (0, 1, 2, 4)        # those that are timed, for an extrapolation by a straight line


@dataclass(frozen=True)
class Row:
    """One line of the table: seconds at 1 and 5 shots as printed, and the backbone whose DN4 it is compared with."""

    method: str
    backbone: str
    seconds: tuple[float, float]
    beside: str


ROWS = (
    Row("deepemd", "conv4-classic", (0.173, 13.05), "conv4"),
    Row("deepemd", "conv4", (70.78, 2500.0), "conv4"),
    Row("dn4", "conv4", (0.011, 0.032), "conv4"),
    Row("mn4", "conv4", (0.015, 0.053), "conv4"),
    Row("dmn4", "conv4", (0.012, 0.052), "conv4"),
    Row("deepemd", "resnet12", (0.235, 13.26), "resnet12"),
    Row("dn4", "resnet12", (0.060, 0.074), "resnet12"),
    Row("mn4", "resnet12", (0.067, 0.077), "resnet12"),
    Row("dmn4", "resnet12", (0.080, 0.077), "resnet12"),
)


def runners(shots: int) -> dict[str, Callable[[], Any]]:
    """Every head on stored maps, every backbone on the pictures of an episode, and two bare products as the floor."""
    torch.manual_seed(0)
    labels = torch.arange(5).repeat_interleave(shots)
    images = torch.rand(len(labels) + 75, 3, 84, 84)
    runs: dict[str, Callable[[], Any]] = {"floor": partial(torch.mm, torch.rand(1024, 1024), torch.rand(1024, 1024))}
    for name in dict.fromkeys(row.backbone for row in ROWS):
        backbone = build_backbone(name).eval()
        runs[name] = partial(without_graph, backbone, images)
        with torch.no_grad():
            maps = backbone(images)
        episode = maps[: len(labels)], labels, maps[len(labels) :]
        for row in ROWS:
            if row.backbone == name:
                for part in parts(row.method, shots):
                    runs[f"{row.method} {name} {part}"] = partial(without_graph, head(row.method, part), *episode)
    return runs


def parts(method: str, shots: int) -> list[str]:
    """What is timed of a head: all of it, or DeepEMD's scoring after some epochs of the refinement before it."""
    return [f"epochs={count}" for count in TIMED] if method == "deepemd" and shots > 1 else ["whole"]


def head(method: str, part: str) -> torch.nn.Module:
    """The method, as a part of it is to be timed."""
    return build_method(method) if part == "whole" else build_method(method, epochs=int(part.removeprefix("epochs=")))


def without_graph(run: Callable[..., Tensor], *arguments: Tensor) -> None:
    """Call without recording gradients."""
    with torch.no_grad():
        run(*arguments)


@dataclass(frozen=True)
class Time:
    """Seconds, and half of the interval that they lie in: of a median over the rounds, or of an extrapolation."""

    middle: float
    spread: float
    extrapolated: bool = False

    def __add__(self, other: "Time") -> "Time":
        return Time(self.middle + other.middle, math.hypot(self.spread, other.spread),
                    self.extrapolated or other.extrapolated)

    def __truediv__(self, other: "Time") -> "Time":
        ratio = self.middle / other.middle
        spread = ratio * math.hypot(self.spread / self.middle, other.spread / other.middle)
        return Time(ratio, spread, self.extrapolated)

    def __str__(self) -> str:
        digits = 0 if self.middle >= 100 else 1
        return f"{self.middle:,.{digits}f} ± {self.spread:,.{digits}f}" + " †" * self.extrapolated


def median_of(seconds: Sequence[float]) -> Time:
    """The median, and half of the width between the order statistics that hold it with 95 % confidence."""
    ordered = sorted(seconds)
    reach = 0.98 * math.sqrt(len(ordered))                                # 1.96 deviations of a fair coin's count
    low, high = max(0, math.floor(len(ordered) / 2 - reach)), min(len(ordered), math.ceil(len(ordered) / 2 + reach))
    return Time(statistics.median(ordered), (ordered[high - 1] - ordered[low]) / 2)


def is_settled(figure: Figures) -> bool:
    """Whether a median is known well enough; who takes so long that it runs once a race is not waited for."""
    median = median_of(figure.seconds)
    return median.spread <= SETTLED * median.middle or figure.seconds[0] > LONG


def time_all(runners: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Figures]:
    """Races of all runners until every median is settled, but no more than RACES."""
    figures = {name: Figures() for name in runners}
    for _ in range(RACES):
        for name, figure in race(dict(runners), rounds).items():
            figures[name].seconds += figure.seconds
        if all(is_settled(figure) for figure in figures.values()):
            break
    return figures


def head_time(figures: Mapping[str, Figures], method: str, backbone: str) -> Time:
    """The time of a head; of a refinement, that of the straight line through the epochs that were timed."""
    if f"{method} {backbone} whole" in figures:
        return median_of(figures[f"{method} {backbone} whole"].seconds)
    timed = [median_of(figures[f"{method} {backbone} epochs={count}"].seconds).middle for count in TIMED]
    return extrapolate(TIMED, timed, REFINED)


def extrapolate(counts: Sequence[int], seconds: Sequence[float], wanted: int) -> Time:
    """The least-squares line through the times of a few counts, at `wanted`; spread: the lines that leave one out."""
    def line(skipped: int | None) -> float:
        kept = [place for place in range(len(counts)) if place != skipped]
        slope, start = statistics.linear_regression([counts[i] for i in kept], [seconds[i] for i in kept])
        return max(start + slope * wanted, min(seconds))

    without = [line(place) for place in range(len(counts))]
    return Time(line(None), (max(without) - min(without)) / 2, extrapolated=True)


def ratios(figures: Mapping[str, Figures], row: Row) -> tuple[Time, Time]:
    """Time over DN4's, head alone and backbone with head."""
    alone, base = head_time(figures, row.method, row.backbone), head_time(figures, "dn4", row.beside)
    backbone, beside = (median_of(figures[name].seconds) for name in (row.backbone, row.beside))
    return alone / base, (alone + backbone) / (base + beside)


def cells(figures: Mapping[str, Figures], row: Row, column: int) -> list[str]:
    """Paper's ratio, head alone, backbone with head."""
    base = next(other for other in ROWS if (other.method, other.backbone) == ("dn4", row.beside))
    alone, together = ratios(figures, row)
    return [f"{row.seconds[column] / base.seconds[column]:,.1f}", str(alone), str(together)]


def run(workshop: Workshop, name: str) -> Path:
    """Time the table and write its page; the times themselves lie beside it as JSON."""
    rounds, about = ROUNDS[workshop.budget], machine()
    figures = {shots: time_all(runners(shots), rounds) for shots in (1, 5)}
    grid = [["method", "backbone", *(f"{shots} shot: {what}" for shots in (1, 5)
                                     for what in ("paper", "head", "backbone + head"))]]
    grid += [[row.method, row.backbone, *cells(figures[1], row, 0), *cells(figures[5], row, 1)] for row in ROWS]
    path = workshop.out / f"{name}-{workshop.budget}.md"
    write_json(path.with_suffix(".json"), {"machine": about, "rounds": rounds, "shots": {
        shots: {runner: asdict(figure) for runner, figure in timed.items()} for shots, timed in figures.items()}})
    notes = ["time over DN4's on the same backbone (Conv-4 5 x 5: over DN4's on 19 x 19); 5 ways, 75 queries",
             "the paper times backbone and head, on hardware it does not name; here both run on the CPU",
             f"±: half of the 95 % interval of the median; up to {RACES} races of {rounds} rounds, until that is "
             f"{100 * SETTLED:.0f} % of every median",
             f"† at {REFINED} epochs of refinement on the straight line through {', '.join(map(str, TIMED))} epochs; "
             "±: half of the range if one of these is left out",
             f"{about['cores']} cores, {about['threads']} threads, {100 * about['load']:.0f} % of them busy before"
             + ("" if about["trusted"] else ": another job was running, these figures are not to be trusted")]
    write_table(path, "Computation time (supplement)", grid, notes)
    return path


ENTRY = Entry("computation times as ratios to DN4 (supplement)", run)
