"""The paper's table of computation times: ratios to DN4, for the head alone and with the backbone before it."""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import build_backbone
from ..benchmark.race import Figures, machine, race
from ..files import write_json
from ..methods import build_method
from .page import write_table
from .workshop import Entry, Workshop

ROUNDS = {"tiny": 3, "cpu": 9, "paper": 101}
REFINED = 100           # epochs of DeepEMD's refinement for more than one shot


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
    found: dict[str, Callable[[], Any]] = {"floor": partial(torch.mm, torch.rand(1024, 1024), torch.rand(1024, 1024))}
    for name in dict.fromkeys(row.backbone for row in ROWS):
        backbone = build_backbone(name).eval()
        found[name] = partial(without_graph, backbone, images)
        with torch.no_grad():
            maps = backbone(images)
        episode = maps[: len(labels)], labels, maps[len(labels) :]
        for row in ROWS:
            if row.backbone == name:
                for part in parts(row.method, shots):
                    found[f"{row.method} {name} {part}"] = partial(without_graph, head(row.method, part), *episode)
    return found


def parts(method: str, shots: int) -> list[str]:
    """What is timed of a head: all of it, or DeepEMD's scoring and one epoch of the refinement that comes before."""
    return ["epochs=0", "epochs=1"] if method == "deepemd" and shots > 1 else ["whole"]


def head(method: str, part: str) -> torch.nn.Module:
    """The method, as a part of it is to be timed."""
    return build_method(method) if part == "whole" else build_method(method, epochs=int(part.removeprefix("epochs=")))


def without_graph(run: Callable[..., Tensor], *arguments: Tensor) -> None:
    """Call without recording gradients."""
    with torch.no_grad():
        run(*arguments)


def seconds(figures: dict[str, Figures], method: str, backbone: str) -> tuple[float, bool]:
    """The median time of a head, and whether it is extrapolated from one epoch of refinement."""
    def middle(part: str) -> float:
        return statistics.median(figures[f"{method} {backbone} {part}"].seconds)

    if f"{method} {backbone} whole" in figures:
        return middle("whole"), False
    return middle("epochs=0") + REFINED * max(0.0, middle("epochs=1") - middle("epochs=0")), True


def ratios(figures: dict[str, Figures], row: Row) -> tuple[float, float, bool]:
    """Time over DN4's, head alone and backbone with head, and whether it is extrapolated."""
    def whole(method: str, backbone: str) -> float:
        return seconds(figures, method, backbone)[0] + statistics.median(figures[backbone].seconds)

    alone, guessed = seconds(figures, row.method, row.backbone)
    return (alone / seconds(figures, "dn4", row.beside)[0],
            whole(row.method, row.backbone) / whole("dn4", row.beside), guessed)


def cells(figures: dict[str, Figures], row: Row, column: int) -> list[str]:
    """Paper's ratio, head alone, backbone with head."""
    base = next(other for other in ROWS if (other.method, other.backbone) == ("dn4", row.beside))
    alone, together, guessed = ratios(figures, row)
    mark = " †" if guessed else ""
    return [f"{row.seconds[column] / base.seconds[column]:,.1f}", f"{alone:,.1f}{mark}", f"{together:,.1f}{mark}"]


def run(workshop: Workshop, name: str) -> Path:
    """Time the table and write its page; the times themselves lie beside it as JSON."""
    rounds, about = ROUNDS[workshop.budget], machine()
    figures = {shots: race(runners(shots), rounds) for shots in (1, 5)}
    grid = [["method", "backbone", *(f"{shots} shot: {what}" for shots in (1, 5)
                                     for what in ("paper", "head", "backbone + head"))]]
    grid += [[row.method, row.backbone, *cells(figures[1], row, 0), *cells(figures[5], row, 1)] for row in ROWS]
    path = workshop.out / f"{name}-{workshop.budget}.md"
    write_json(path.with_suffix(".json"), {"machine": about, "rounds": rounds, "shots": {
        shots: {one: asdict(figure) for one, figure in found.items()} for shots, found in figures.items()}})
    notes = ["time over DN4's on the same backbone (Conv-4 5 x 5: over DN4's on 19 x 19); 5 ways, 75 queries",
             "the paper times backbone and head, on hardware it does not name; here both run on the CPU",
             f"† extrapolated to {REFINED} epochs of refinement from one that was timed",
             f"{about['cores']} cores, {about['threads']} threads, {100 * about['load']:.0f} % of them busy before"
             + ("" if about["trusted"] else ": another job was running, these figures are not to be trusted")]
    write_table(path, "Computation time (supplement)", grid, notes)
    return path


ENTRY = Entry("computation times as ratios to DN4 (supplement)", run)
