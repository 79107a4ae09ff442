"""What waiting threads cost: one look of the default network on two threads, alone and beside a busy process a core.

    python examples/measure_waiting.py -o docs/results/waiting.md

GNU OpenMP's threads spin while they wait, which keeps other processes from the cores that they wait for. Each setting
runs in a process of its own, in turn; the network runs in PyTorch, whose threads are OpenMP's.
"""

import multiprocessing
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from dmn4.files import write_file

SETTINGS: dict[str, dict[str, str]] = {
    "default": {}, "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"}, "GOMP_SPINCOUNT=1000":
        {"GOMP_SPINCOUNT": "1000"}}
CHILD = """
import time, torch
from dmn4.backbones import build_backbone
from dmn4.backbones.folding import folded
backbone = folded(build_backbone("efficientnet_lite0", "imagenet").eval())
pictures = torch.randn(6, 3, 224, 224)
with torch.inference_mode():
    backbone(pictures)
    for _ in range(LOOKS):
        start = time.perf_counter()
        backbone(pictures)
        print(time.perf_counter() - start)
"""


def main(out: Annotated[Path, typer.Option("-o", "--out")] = Path("waiting.md"), rounds: int = 3,
         looks: int = 12) -> None:
    """Write the table."""
    lines = ["| milliseconds a picture | alone | beside a busy process a core |", "|---|---|---|"]
    alone = measured(rounds, looks)
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in busy:
        process.start()
    beside = measured(rounds, looks)
    for process in busy:
        process.kill()
    lines += [f"| {name} | {alone[name]:.1f} | {beside[name]:.1f} |" for name in SETTINGS]
    lines += ["", f"Six pictures at a time, {os.cpu_count()} threads, medians of {rounds * looks}; "
              f"`python examples/measure_waiting.py --rounds {rounds} --looks {looks}`."]
    write_file(out, "\n".join(lines) + "\n")
    print("\n".join(lines))


def measured(rounds: int, looks: int) -> dict[str, float]:
    """Milliseconds a picture with each setting, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in SETTINGS}
    usual = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    for _ in range(rounds):
        for name, extra in SETTINGS.items():
            printed = subprocess.run([sys.executable, "-c", CHILD.replace("LOOKS", str(looks))], env=usual | extra,
                                     check=True, capture_output=True, text=True).stdout
            seconds[name] += [float(line) for line in printed.split()]
    return {name: 1000 / 6 * statistics.median(each) for name, each in seconds.items()}


def spin() -> None:
    """Keep a core busy."""
    while True:
        sum(range(1000))


if __name__ == "__main__":
    typer.run(main)
