"""Benchmarks over time: a figure and a table of the ratios in docs/results/speed/, one file a version."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dmn4.benchmark.ratios import FLOORS

FILES = Path(__file__).parents[1] / "results" / "speed"
Runs = list[dict[str, Any]]


def read_runs() -> Runs:
    """What is on record, the oldest version first."""
    runs = [json.loads(path.read_text()) for path in FILES.glob("*.json")]
    return sorted(runs, key=lambda run: [int(part) for part in run["version"].split(".")])


def speed_table() -> str:
    """A row for every ratio, a column for every version."""
    runs = read_runs()
    if not runs:
        return "No version has been measured yet.\n"
    heading = f"| Benchmark | {' | '.join(run['version'] for run in runs)} |"
    rows = [f"| {benchmark}: {name} | {' | '.join(shown(run, benchmark, name) for run in runs)} |"
            for benchmark in FLOORS for name in names(runs, benchmark)]
    return "\n".join([heading, "|---" * (1 + len(runs)) + "|", *rows]) + "\n"


def shown(run: dict[str, Any], benchmark: str, name: str) -> str:
    """A ratio of a version as text; empty where it was not measured."""
    ratio = run["ratios"].get(benchmark, {}).get(name)
    return "" if ratio is None else f"{ratio:.2f}"


def names(runs: Runs, benchmark: str) -> list[str]:
    """What a benchmark measured in any version, in the order of the newest."""
    return list(dict.fromkeys(name for run in reversed(runs) for name in run["ratios"].get(benchmark, {})))


def draw_speed(path: Path) -> None:
    """One panel a benchmark: a line for each ratio over the versions, and the floor at 1."""
    runs = read_runs()
    figure = Figure(figsize=(10, 11), layout="constrained")
    for axes, (benchmark, floor) in zip(figure.subplots(3, 2).flat, FLOORS.items(), strict=True):
        for name in names(runs, benchmark):
            ratios = [run["ratios"].get(benchmark, {}).get(name, float("nan")) for run in runs]
            axes.plot([run["version"] for run in runs], ratios, marker="o", label=name)
        axes.axhline(1, color="grey", linestyle="--", linewidth=1, label="floor")
        axes.set_title(f"{benchmark}\n", fontsize=12)
        axes.text(0.5, 1.02, floor, transform=axes.transAxes, ha="center", fontsize=8)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)
