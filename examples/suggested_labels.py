"""Do suggested labels beat random ones? Accuracy against the number of labels, on photographs, paired.

    python examples/suggested_labels.py fruit photos/birds --runs 30

In each run ten classes are drawn. Half of their pictures are an inbox, in which some classes are rare; the other half
judges. Ten pictures of the inbox are labelled, then ten more, and so on: once by suggestion, once at random.
"""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor

from dmn4.classify.plain import PlainClassifier
from dmn4.classify.suggestions import representatives
from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.samples import fruit
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_file
from dmn4.methods.base import Method
from dmn4.methods.vectors import pooled
from dmn4.training.runs import progress

CLASSES, STEP, STEPS = 10, 10, 4
MOST_CLASSES = 20                                              # of an image set
Choose = Callable[[Tensor, int, Tensor | None], Tensor]            # inbox, count, labelled -> places


@torch.inference_mode()
def embedded(classifier: PlainClassifier, images: ImageSet) -> Tensor:
    """The map of every picture: (n, C, H, W)."""
    with progress("embed", len(images)) as bar:
        parts = []
        for pixels in classifier._pixels(images.images):
            parts.append(classifier.embed(pixels))
            bar.advance_by(len(pixels))
    return torch.cat(parts)


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
    vectors, labelled, right = pooled(maps), inbox[:0], []
    for _ in range(STEPS):
        left = inbox[~torch.isin(inbox, labelled)]
        before = vectors[labelled] if len(labelled) else None
        labelled = torch.cat([labelled, left[choose(vectors[left], STEP, before)]])
        classes, targets = numbers[labelled].unique(return_inverse=True)
        answers = classes[torch.cat([method(maps[labelled], targets, block).argmax(1) for block in
                                     maps[judges].split(32)])] if len(classes) > 1 else classes.expand(len(judges))
        right.append(float((answers == numbers[judges]).float().mean()))
    return right


@torch.inference_mode()
def compare(maps: Tensor, labels: np.ndarray, method: Method, runs: int) -> dict[str, np.ndarray]:
    """Accuracies of both ways to choose on the same inboxes: name -> (runs, STEPS)."""
    found: dict[str, list[list[float]]] = {"suggested": [], "random": []}
    with progress("runs", runs) as bar:
        for run in range(runs):
            rng = np.random.default_rng(run)
            inbox, judges, numbers = drawn(labels, rng)
            ways: dict[str, Choose] = {"suggested": representatives, "random": lambda vectors, count, _, rng=rng:
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


def main(data: list[str], out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")] = Path(),
         runs: int = 30, per_class: int = 20,
         method: str = "dmn4-linear") -> None:
    """Measure `fruit` or folders of class folders, and write suggested-labels.md."""
    text = io.StringIO()
    text.write(f"{method}; {runs} runs of {CLASSES} classes, up to {per_class} pictures each; "
               "mean and 95 % interval, in %.\n\n"
               "| pictures | labels | suggested | random | difference |\n|---|---|---|---|---|\n")
    for name in data:
        everything = fruit() if name == "fruit" else read_folder(name)
        images = everything.of_classes(everything.classes[:MOST_CLASSES]).first_of_each_class(per_class)
        classifier = PlainClassifier(method)
        classifier.parts_ = classifier._assemble(semi=False)
        found = compare(embedded(classifier, images), images.labels, classifier.parts_.method, runs)
        text.writelines(rows_of(Path(name).name, found))
        write_file(out / "suggested-labels.md", text.getvalue())
    typer.echo(text.getvalue())


if __name__ == "__main__":
    typer.run(main)
