"""Does the learning curve keep what it promises? What it expects at 5 shots, beside the accuracy at 5, 10 and 20.

    python examples/labelled_enough.py fruit photos/birds --runs 20

In each run ten classes are drawn and five pictures of each are labelled; all others, fifty of a class at most, judge.
Maps stay in the cache folder.
"""

import math
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from flipped_labels import taught
from photo_grid import Photos, photos

from dmn4.classify.curve import LearningCurve
from dmn4.files import write_file

CLASSES, SHOTS, JUDGES = 10, 5, 50
TIMES = (1, 2, 4)                                             # times the shots


def drawn(data: Photos, rng: np.random.Generator) -> list[np.ndarray]:
    """The rows of some classes, each in a random order."""
    classes = rng.permutation(np.unique(data.labels))[:CLASSES]
    return [rng.permutation(np.flatnonzero(data.labels == label)) for label in classes]


@torch.inference_mode()
def accuracy(data: Photos, rows: list[np.ndarray], shots: int, most: int) -> float:
    """The accuracy with so many shots, on pictures that no number of shots uses."""
    support = [each[:shots] for each in rows]
    asked = [each[most : most + JUDGES] for each in rows]
    classifier = taught(data.maps[np.concatenate(support)], np.repeat(np.arange(len(rows)), shots))
    said = [classifier.judge_maps(data.maps[each].float()).scores.argmax(1) for each in asked]
    truth = np.repeat(np.arange(len(rows)), [len(each) for each in asked])
    return float((torch.cat(said).numpy() == truth).mean())


def slope(before: float, after: float, factor: int) -> float:
    """The log-odds of being right that are gained, over the log of the growth."""
    gained = math.log(after / (1 - after)) - math.log(before / (1 - before))
    return gained / math.log(factor) if factor > 1 else math.nan


def trial(data: Photos, run: int, times: list[int]) -> list[tuple[float, float, float, float]]:
    """For each number of shots what was expected, its interval, and what came."""
    rows = drawn(data, np.random.default_rng(run))
    support = np.concatenate([each[:SHOTS] for each in rows])
    curve: LearningCurve = taught(data.maps[support], np.repeat(np.arange(len(rows)), SHOTS)).curve()
    return [(point.accuracy, point.low, point.high, accuracy(data, rows, SHOTS * factor, SHOTS * times[-1]))
            for point, factor in zip(curve.expected, times, strict=False)]


def main(data: list[str], out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")] = Path(),
         runs: int = 20) -> None:
    """Measure `fruit` or folders of class folders, and write labelled-enough.md."""
    lines = [f"dmn4-linear; {runs} runs of {CLASSES} classes with {SHOTS} labelled pictures; in %.", "",
             "| pictures | shots | expected | came | off by, on average | inside the 95 % interval |", "|---" * 6 + "|"]
    for name in data:
        images = photos(name)
        fewest = int(np.bincount(images.labels).min())
        times = [factor for factor in TIMES if SHOTS * factor + 4 <= fewest]
        trials = np.array([trial(images, run, times) for run in range(runs)])                 # (runs, times, 4)
        for factor, (expected, low, high, came) in zip(times, trials.transpose(1, 2, 0), strict=True):
            values = (expected, came, abs(expected - came), (low <= came) & (came <= high))
            lines.append(f"| {images.name} | {SHOTS * factor} | "
                         + " | ".join(f"{100 * each.mean():.1f}" for each in values) + " |")
            print(lines[-1], f"slope of the truth {slope(trials[:, 0, 3].mean(), came.mean(), factor):.2f}", flush=True)
        write_file(out / "labelled-enough.md", "\n".join([*lines, ""]))


if __name__ == "__main__":
    typer.run(main)
