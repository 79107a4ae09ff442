"""Do suggested labels beat random ones? Accuracy against the number of labels, on photographs, paired.

    python examples/suggested_labels.py fruit photos/birds --runs 30

In each run ten classes are drawn. Half of their pictures are an inbox, in which some classes are rare; the other half
judges. Ten pictures of the inbox are labelled, then ten more, and so on: once by suggestion, once at random. Maps stay
in the cache folder, so a second run starts at the runs.
"""

import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from photo_grid import Photos, default, photos
from torch import Tensor

from dmn4.classify.suggestions import representatives
from dmn4.evaluation.intervals import accuracy_of, half_width, paired_difference
from dmn4.files import write_file
from dmn4.methods.base import Method
from dmn4.methods.vectors import pooled
from dmn4.training.runs import progress

CLASSES, STEP, STEPS = 10, 10, 4
Choose = Callable[[Tensor, int, Tensor | None, Tensor], Tensor]    # inbox, count, labelled, doubts -> places


def first_of_each_class(data: Photos, most: int) -> Photos:
    """At most so many pictures of each class."""
    rows = np.concatenate([np.flatnonzero(data.labels == label)[:most] for label in np.unique(data.labels)])
    return Photos(data.name, data.maps[torch.from_numpy(rows)], data.labels[rows])


def drawn(labels: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """An inbox in which classes are rare or not, the pictures that judge, and the labels of all pictures, 0..9."""
    classes = rng.permutation(int(labels.max()) + 1)[:CLASSES]
    numbers = np.full(len(labels), -1)
    inbox, judges = [], []
    for number, label in enumerate(classes):
        rows = rng.permutation(np.flatnonzero(labels == label))
        numbers[rows] = number
        half = len(rows) // 2
        inbox.append(rows[: max(1, int(half * rng.uniform(0.2, 1)))])
        judges.append(rows[half:])
    return torch.from_numpy(np.concatenate(inbox)), torch.from_numpy(np.concatenate(judges)), torch.from_numpy(numbers)


def curve(maps: Tensor, inbox: Tensor, judges: Tensor, numbers: Tensor, method: Method,
          choose: Choose) -> list[float]:
    """The accuracy after each step of labelling."""
    vectors, labelled, right = pooled(maps.float()), inbox[:0], []
    doubts = torch.ones(len(numbers))
    for _ in range(STEPS):
        left = inbox[~torch.isin(inbox, labelled)]
        before = vectors[labelled] if len(labelled) else None
        labelled = torch.cat([labelled, left[choose(vectors[left], STEP, before, doubts[left])]])
        classes, targets = numbers[labelled].unique(return_inverse=True)
        if len(classes) == 1:
            right.append(float((numbers[judges] == classes).float().mean()))
            continue
        scores = method(maps[labelled].float(), targets, maps[torch.cat([judges, inbox])].float())
        right.append(float((classes[scores[: len(judges)].argmax(1)] == numbers[judges]).float().mean()))
        doubts[inbox] = 1 - probabilities(method, scores[len(judges):], len(labelled) / len(classes)).amax(1)
    return right


def probabilities(method: Method, scores: Tensor, shots: float) -> Tensor:
    """What a classifier makes of scores (Q, N) before any picture is held out: by the law alone -> (Q, N)."""
    assert method.temperature_law is not None
    return (scores / math.exp(method.temperature_law.power(scores.shape[1], shots))).softmax(1)


@torch.inference_mode()
def compare(maps: Tensor, labels: np.ndarray, method: Method, runs: int) -> dict[str, np.ndarray]:
    """Accuracies of both ways to choose on the same inboxes: name -> (runs, STEPS)."""
    found: dict[str, list[list[float]]] = {"suggested": [], "random": []}
    with progress("runs", runs) as bar:
        for run in range(runs):
            rng = np.random.default_rng(run)
            inbox, judges, numbers = drawn(labels, rng)
            ways: dict[str, Choose] = {"suggested": representatives, "random": lambda vectors, count, *_, rng=rng:
                                       torch.from_numpy(rng.permutation(len(vectors))[:count])}
            for name, choose in ways.items():
                found[name].append(curve(maps, inbox, judges, numbers, method, choose))
            bar.advance()
    return {name: np.array(values) for name, values in found.items()}


def rows_of(name: str, found: dict[str, np.ndarray]) -> Iterator[str]:
    """The lines of a Markdown table: accuracy of both, and the paired difference, at each number of labels."""
    for step in range(STEPS):
        suggested, random = found["suggested"][:, step], found["random"][:, step]
        yield (f"| {name} | {STEP * (step + 1)} | {accuracy_of(suggested[None])} | {accuracy_of(random[None])} | "
               f"{paired_difference(suggested, random)} |\n")


def draw(found: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Both curves of every set, with the 95 % interval of their paired difference around the suggested one."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(2.6 * len(found), 2.8), sharex=True, layout="constrained")
    labels = STEP * np.arange(1, STEPS + 1)
    for axis, (name, values) in zip(np.atleast_1d(axes), found.items(), strict=True):
        difference = values["suggested"] - values["random"]
        spread = 100 * np.array([half_width(column) for column in difference.T])
        suggested = 100 * values["suggested"].mean(0)
        axis.plot(labels, suggested, "o-", color="#0072b2", label="suggested")
        axis.fill_between(labels, suggested - spread, suggested + spread, color="#0072b2", alpha=0.15, linewidth=0)
        axis.plot(labels, 100 * values["random"].mean(0), "s--", color="#e69f00", label="random")
        axis.set(title=name, xlabel="labels", xticks=labels)
    np.atleast_1d(axes)[0].set_ylabel("accuracy, %")
    np.atleast_1d(axes)[0].legend(frameon=False)
    figure.savefig(path, dpi=110)


def main(data: list[str], out: Annotated[Path, typer.Option("-o", "--out", help="Folder for table and plot.")] = Path(),
         runs: int = 30, per_class: int = 40) -> None:
    """Measure `fruit` or folders of class folders, and write suggested-labels.md and .png."""
    text, all_found = io.StringIO(), {}
    text.write(f"dmn4-linear; {runs} runs of {CLASSES} classes, up to {per_class} pictures each; "
               "mean and 95 % interval, in %.\n\n"
               "| pictures | labels | suggested | random | difference |\n|---|---|---|---|---|\n")
    for name in data:
        images = first_of_each_class(photos(name), per_class)
        all_found[images.name] = found = compare(images.maps, images.labels, default(images.maps), runs)
        text.writelines(rows_of(images.name, found))
        write_file(out / "suggested-labels.md", text.getvalue())
    draw(all_found, out / "suggested-labels.png")
    typer.echo(text.getvalue())


if __name__ == "__main__":
    typer.run(main)
