"""A classifier of many classes: what learning, opening, answering and keeping it cost, beside the bare operations.

Maps are drawn around those of pictures: each class shifts one of them by a vector of its own, each shot adds noise.
Learning is timed without embedding. Everything else is measured in a process of its own that opens the model file.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from ..classify.keeping import opened
from ..classify.maps import Maps
from ..classify.pictures import Pictures
from ..classify.plain import PlainClassifier
from ..classify.shots import Shots
from ..data.samples import draw_clutter
from ..files import write_json
from ..images.looks import thumbnail
from ..methods.vectors import pooled
from .race import report
from .service import memory_of

SHOTS, AT_ONCE = 5, 100                                       # of a class; classes drawn at a time
SHIFT, NOISE = 0.5, 0.5                                       # of a class, of a picture: in spreads of a channel
CHILD = "import sys; from dmn4.benchmark.classes import measure; measure(sys.argv[1], int(sys.argv[2]))"


def benchmark_classes(classes: list[int], rounds: int, out: Path) -> dict[str, Any]:
    """Measure each number of classes; prints a table and writes a JSON file."""
    console = Console()
    about = report(console)
    classifier = PlainClassifier()
    classifier.parts_, classifier.unlabelled_ = classifier._assemble(False), None
    pixels = torch.from_numpy(draw_clutter(20, 2, size=classifier.parts_.transform.size, seed=0).pixels)
    real = torch.cat([classifier.embed(some) for some in pixels.split(8)])                       # (40, C, H, W)
    costs = {}
    with TemporaryDirectory() as folder:
        for ways in classes:
            path = Path(folder, "many.dmn4")
            costs[str(ways)] = learnt(classifier, real, pixels[0], ways, path) | asked(path, rounds)
            console.print(f"{ways:,} classes: learnt in {costs[str(ways)]['fit']:.1f} s")
    write_json(out, {"machine": about, "shots": SHOTS, "rounds": rounds, "classes": costs})
    console.print(cost_table(costs))
    console.print(f"every figure: {out}")
    return costs


def learnt(classifier: PlainClassifier, real: Tensor, picture: Tensor, ways: int, path: Path) -> dict[str, float]:
    """Learn drawn maps of so many classes and write the model file; seconds and megabytes."""
    maps = joined([Maps.of(one.half(), classifier.parts_.method.compared) for one in drawn(real, ways)])
    rows = torch.arange(len(maps))
    shots = Shots(maps, rows // SHOTS, torch.zeros_like(rows), rows)
    pictures = Pictures([thumbnail(picture)] * len(maps))
    start = time.perf_counter()
    classifier._keep(np.array([f"class {number:05d}" for number in range(ways)]), shots, pictures)
    fit = time.perf_counter() - start
    start = time.perf_counter()
    classifier.save(path)
    return {"fit": fit, "save": time.perf_counter() - start, "file_mb": path.stat().st_size / 1e6}


def drawn(real: Tensor, ways: int) -> Iterator[Tensor]:
    """Maps of SHOTS pictures of each class, a few classes at a time: (AT_ONCE * SHOTS, C, H, W)."""
    generator = torch.Generator().manual_seed(0)
    spread = real.std((0, 2, 3))[:, None, None]                                                  # (C, 1, 1)
    for some in torch.arange(ways).split(AT_ONCE):
        shift = torch.randn(len(some), 1, len(spread), 1, 1, generator=generator)
        noise = torch.randn(len(some), SHOTS, *real.shape[1:], generator=generator)
        yield (real[some % len(real)][:, None] + spread * (SHIFT * shift + NOISE * noise)).flatten(0, 1)


def joined(parts: list[Maps]) -> Maps:
    """All maps, in order, in the pieces they came in."""
    pieces = tuple(piece for part in parts for piece in part.pieces)
    return Maps(pieces, torch.arange(sum(map(len, parts))), torch.cat([part.means for part in parts]))


def asked(path: Path, rounds: int) -> dict[str, float]:
    """What a process of its own measures with the model file."""
    command = [sys.executable, "-c", CHILD, str(path), str(rounds)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def measure(path: str, rounds: int) -> None:
    """Print what opening a model file and asking it costs, as JSON; floors are timed in turn with what they bound."""
    start = time.perf_counter()
    classifier = opened(PlainClassifier, path)
    figures = {"open": time.perf_counter() - start, "opened_mb": memory_of(os.getpid())}
    pixels = torch.from_numpy(draw_clutter(8, 4, size=classifier.parts_.transform.size, seed=1).pixels)     # 32 of them
    classifier.judge(pixels[:1])
    figures["answered_mb"] = memory_of(os.getpid())
    maps = classifier.embed(pixels[:1])
    means, weight = pooled(maps), classifier.head_.weight
    with torch.inference_mode():
        figures |= in_turn({"backbone": lambda: classifier.embed(pixels[:1]), "product": lambda: means @ weight,
                            "answer": lambda: classifier.judge(pixels[:1]),
                            "closely": lambda: classifier.judge_maps(maps),
                            "batch": lambda: classifier.judge(pixels)}, rounds)
    print(json.dumps(figures))


def in_turn(runners: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median seconds of each; and of an answer the median over the backbone's time in the same round."""
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    ratios = [answer / floor for answer, floor in zip(seconds["answer"], seconds["backbone"], strict=True)]
    return {name: statistics.median(each) for name, each in seconds.items()} | {"ratio": statistics.median(ratios)}


def cost_table(costs: dict[str, dict[str, float]]) -> Table:
    """The costs for a terminal."""
    shown = Table("classes", title=f"{SHOTS} shots a class; seconds and megabytes", title_justify="left")
    for heading in ("learn", "file", "open", "backbone", "product", "answer", "/ backbone", "32 answers", "memory"):
        shown.add_column(heading, justify="right")
    for ways, one in costs.items():
        shown.add_row(f"{int(ways):,}", f"{one['fit']:.1f}", f"{one['file_mb']:,.0f}", f"{one['open']:.2f}",
                      f"{one['backbone']:.4f}", f"{one['product']:.5f}", f"{one['answer']:.4f}",
                      f"{one['ratio']:.2f} x",
                      f"{one['batch']:.2f}", f"{one['answered_mb']:,.0f}")
    return shown
