"""Fair timing on a noisy machine: contestants take turns, and each is divided by the floor of its own round."""

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch
from rich.console import Console
from rich.progress import track

BUSY = 0.1     # share of the cores at work for other jobs above which figures are not to be trusted
LONG = 10.0    # seconds; whoever takes longer runs once, not in every round
ENOUGH = 30.0  # seconds; a short race goes on for so long, up to five times its rounds: short times scatter most


@dataclass
class Figures:
    """What one contestant took, round by round, and how much memory beyond its inputs."""

    seconds: list[float] = field(default_factory=list)
    floor_ratio: float = 0.0     # median over the rounds of time / floor of the same round
    dense_ratio: float | None = None     # how many times faster than the dense form of the same rule
    extra_mb: float | None = None     # not counted for those that run once


def race(runners: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Figures]:
    """Run all contestants in turn, `rounds` times or more; each time is divided by the floor's of the same round."""
    figures, begun = {name: Figures() for name in runners}, time.perf_counter()
    for turn in track(range(5 * rounds), description="rounds", transient=True):
        if turn >= rounds and time.perf_counter() - begun > ENOUGH:
            break
        for name, run in runners.items():
            if turn and figures[name].seconds[0] > LONG:
                continue
            start = time.perf_counter()
            run()
            figures[name].seconds.append(time.perf_counter() - start)
    for name, figure in figures.items():
        figure.extra_mb = peak_memory(runners[name]) / 1e6 if figure.seconds[0] < LONG else None
        figure.floor_ratio = middle_ratio(figure, figures["floor"])
        base, _, train = name.partition(" ")
        dense = figures.get(f"{base} dense {train}".strip())
        if dense is not None and "dense" not in train:
            figure.dense_ratio = middle_ratio(dense, figure)
    return figures


def middle_ratio(figures: Figures, other: Figures) -> float:
    """The median over the rounds of one time over another."""
    return statistics.median(a / b for a, b in zip(figures.seconds, other.seconds, strict=False))


def peak_memory(run: Callable[[], Any]) -> int:
    """The most bytes that torch held at a time beyond what it held before: counted, not sampled."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")          # the profiler is chatty
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    held = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def machine() -> dict[str, Any]:
    """Where and how busy: what a reader needs to trust the figures."""
    load = busy_share()
    return {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
            "threads": torch.get_num_threads(), "torch": torch.__version__, "load": round(load, 2),
            "trusted": load < BUSY}


def report(console: Console) -> dict[str, Any]:
    """The same, and a word on the screen if other jobs keep it busy."""
    about = machine()
    if not about["trusted"]:
        console.print(f"[yellow]{100 * about['load']:.0f} % of the cores are busy with other jobs: "
                      "these figures are not to be trusted")
    return about


def busy_share(seconds: float = 1.0) -> float:
    """The share of all cores that other jobs keep busy at the moment."""
    return float(psutil.cpu_percent(seconds)) / 100
