"""A classifier of many classes: what learning, opening, answering and keeping it cost, beside the bare operations.

Maps are drawn around those of pictures: each class shifts one of them by a vector of its own, each shot adds noise.
Learning is timed without embedding, beside the time that embedding its pictures would take. Everything else is measured
in a process of its own that opens the model file. A floor and what it bounds are timed in turn, and the ratio is the
median over rounds. All times are the processor's, so that other work on the machine does not count.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from ..classify.keeping import opened
from ..classify.maps import Maps
from ..classify.parts import assemble
from ..classify.pictures import Pictures
from ..classify.plain import PlainClassifier
from ..classify.shots import Shots
from ..data.samples import draw_clutter
from ..files import write_json
from ..images.looks import thumbnail
from ..methods.vectors import pooled
from .race import report

SHOTS, AT_ONCE = 5, 10                                        # of a class; classes drawn at a time
SHIFT, NOISE = 0.5, 0.5                                       # of a class, of a picture: in spreads of a channel
CHILD = "import sys; from dmn4.benchmark.classes import measure; measure(sys.argv[1], int(sys.argv[2]))"


def benchmark_classes(classes: list[int], rounds: int, out: Path) -> dict[str, Any]:
    """Measure each number of classes; prints a table and writes a JSON file."""
    console = Console()
    about = report(console)
    classifier = PlainClassifier()
    classifier.parts_, classifier.unlabelled_ = classifier._assemble(False), None
    pixels = torch.from_numpy(draw_clutter(20, 2, size=classifier.parts_.transform.size, seed=0).pixels)
    real = torch.cat([classifier.embed(batch) for batch in pixels.split(8)])                     # (40, C, H, W)
    costs = {}
    with TemporaryDirectory() as folder:
        for ways in classes:
            path = Path(folder, "many.dmn4")
            costs[str(ways)] = learnt(classifier, real, pixels, ways, path) | measured(path, rounds)
            console.print(f"{ways:,} classes: learnt in {costs[str(ways)]['fit']:.1f} s")
    write_json(out, {"machine": about, "shots": SHOTS, "rounds": rounds, "classes": costs})
    console.print(cost_table(costs))
    console.print(f"every figure: {out}")
    return costs


def learnt(classifier: PlainClassifier, real: Tensor, pixels: Tensor, ways: int, path: Path) -> dict[str, float]:
    """Learn drawn maps of so many classes and write the model file; seconds and megabytes."""
    maps = joined([Maps.of(part.half(), classifier.parts_.method.compared) for part in drawn(real, ways)])
    rows = torch.arange(len(maps))
    shots = Shots(maps, rows // SHOTS, torch.zeros_like(rows), rows)
    pictures = Pictures([thumbnail(pixels[0])] * len(maps))
    names = np.array([f"class {number:05d}" for number in range(ways)])
    found = {"embedding": seconds_of(lambda: classifier.embed(pixels)) * len(maps) / len(pixels),
             "fit": seconds_of(lambda: classifier._keep(names, shots, pictures)),
             "save": seconds_of(lambda: classifier.save(path))}
    return found | {"fit_ratio": found["fit"] / found["embedding"], "file_mb": path.stat().st_size / 1e6}


def seconds_of(run: Callable[[], Any]) -> float:
    """The processor time that something takes: that of other work on the machine does not count."""
    start = time.process_time()
    run()
    return time.process_time() - start


def drawn(real: Tensor, ways: int) -> Iterator[Tensor]:
    """Maps of SHOTS pictures of each class, a few classes at a time: (AT_ONCE * SHOTS, C, H, W)."""
    generator = torch.Generator().manual_seed(0)
    spread = real.std((0, 2, 3))[:, None, None]                                                  # (C, 1, 1)
    noise = NOISE * spread * torch.randn(AT_ONCE, SHOTS, *real.shape[1:], generator=generator)
    for group in torch.arange(ways).split(AT_ONCE):
        shift = SHIFT * spread * torch.randn(len(group), 1, len(spread), 1, 1, generator=generator)
        order = torch.randperm(AT_ONCE, generator=generator)[: len(group)]
        yield (real[group % len(real)][:, None] + shift + noise[order]).flatten(0, 1)


def joined(parts: list[Maps]) -> Maps:
    """All maps, in order, in the pieces they came in."""
    pieces = tuple(piece for part in parts for piece in part.pieces)
    return Maps(pieces, torch.arange(sum(map(len, parts))), torch.cat([part.means for part in parts]))


def measured(path: Path, rounds: int) -> dict[str, float]:
    """What a process of its own measures with the model file."""
    command = [sys.executable, "-c", CHILD, str(path), str(rounds)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def measure(path: str, rounds: int) -> None:
    """Print what opening a model file and asking it costs, as JSON; floors are timed in turn with what they bound."""
    assemble("dmn4-linear", "efficientnet_lite0")             # imports what loading a network imports
    found: list[PlainClassifier] = []
    loading = seconds_of(lambda: assemble("dmn4-linear", "efficientnet_lite0"))
    opening = seconds_of(lambda: found.append(opened(PlainClassifier, path)))
    classifier = found[0]
    figures = {"loading": loading, "open": max(0.0, opening - loading), "opened_mb": own_memory()}
    pixels = torch.from_numpy(draw_clutter(8, 4, size=classifier.parts_.transform.size, seed=1).pixels)     # 32 of them
    classifier.judge(pixels[:1])
    figures["answered_mb"] = own_memory()
    maps = classifier.embed(pixels[:1])
    means, weight = pooled(maps), classifier.head_.weight
    with torch.inference_mode():
        figures |= in_turn({"backbone": lambda: classifier.embed(pixels[:1]), "product": lambda: means @ weight,
                            "answer": lambda: classifier.judge(pixels[:1]),
                            "closely": lambda: classifier.judge_maps(maps),
                            "batch": lambda: classifier.judge(pixels)}, rounds)
    print(json.dumps(figures))


def own_memory() -> float:
    """Megabytes that are this process's own: what is mapped from a file can be had again and does not count."""
    return float(psutil.Process().memory_info().rss - getattr(psutil.Process().memory_info(), "shared", 0)) / 1e6


def in_turn(runners: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median seconds of each; and of an answer the median over the backbone's time in the same round."""
    seconds = {name: [0.0] * rounds for name in runners}
    for number in range(rounds):
        for name, run in runners.items():
            seconds[name][number] = seconds_of(run)
    ratios = [answer / floor for answer, floor in zip(seconds["answer"], seconds["backbone"], strict=True)]
    return {name: statistics.median(each) for name, each in seconds.items()} | {"ratio": statistics.median(ratios)}


def cost_table(costs: dict[str, dict[str, float]]) -> Table:
    """The costs for a terminal."""
    shown = Table("classes", title=f"{SHOTS} shots a class; seconds of the processor, megabytes", title_justify="left")
    for heading in ("learn", "/ embedding", "file", "open", "backbone", "product", "answer", "/ backbone", "32 answers",
                    "memory"):
        shown.add_column(heading, justify="right")
    for ways, cost in costs.items():
        shown.add_row(f"{int(ways):,}", f"{cost['fit']:.1f}", f"{cost['fit_ratio']:.2f} x", f"{cost['file_mb']:,.0f}",
                      f"{cost['open']:.2f}", f"{cost['backbone']:.4f}", f"{cost['product']:.5f}",
                      f"{cost['answer']:.4f}", f"{cost['ratio']:.2f} x", f"{cost['batch']:.2f}",
                      f"{cost['answered_mb']:,.0f}")
    return shown
