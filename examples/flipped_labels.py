"""Are wrong labels found? Precision and recall of `suspects` where one label in ten is wrong, beside cleanlab.

    python examples/flipped_labels.py fruit photos/birds --runs 10      # pip install cleanlab, for its column

In each run ten classes are drawn, with ten pictures each; a tenth of the labels is replaced by another class. Both
columns see the same probabilities, those of each picture judged by the others. Maps stay in the cache folder.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from photo_grid import Photos, photos

from dmn4.classify.held_out import judge_held_out
from dmn4.classify.pictures import Pictures
from dmn4.classify.plain import PlainClassifier
from dmn4.classify.shots import Shots
from dmn4.files import write_file

CLASSES, SHOTS, WRONG = 10, 10, 0.1


def flipped(labels: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The labels with a tenth replaced by another one, and which these are: (n,), bool (n,)."""
    wrong = np.zeros(len(labels), dtype=bool)
    wrong[rng.permutation(len(labels))[: round(WRONG * len(labels))]] = True
    return np.where(wrong, (labels + rng.integers(1, CLASSES, len(labels))) % CLASSES, labels), wrong


@torch.inference_mode()
def trial(data: Photos, run: int) -> dict[str, tuple[int, int, int]]:
    """For each way to find them: wrong labels that were found, pictures that were named, wrong labels there are."""
    rng = np.random.default_rng(run)
    classes = rng.permutation(np.unique(data.labels))[:CLASSES]
    rows = np.concatenate([rng.permutation(np.flatnonzero(data.labels == label))[:SHOTS] for label in classes])
    given, wrong = flipped(np.repeat(np.arange(CLASSES), SHOTS), rng)
    classifier = taught(data.maps[torch.from_numpy(rows)], given)
    named = [suspect.picture for suspect in classifier.suspects()]
    found = {"suspects": named, "all that the others name differently":
             [suspect.picture for suspect in classifier.suspects(wrong=0.5)]}
    found |= {"cleanlab": by_cleanlab(classifier)}
    return {name: (int(wrong[some].sum()), len(some), int(wrong.sum())) for name, some in found.items()}


def taught(maps: torch.Tensor, labels: np.ndarray) -> PlainClassifier:
    """A classifier with its usual options that learnt pictures of which there are maps: (n, C, H, W), (n,)."""
    classifier, rows = PlainClassifier(), torch.arange(len(labels))
    classifier.parts_, classifier.unlabelled_ = classifier._assemble(semi=False), None
    shots = Shots.of(maps, torch.from_numpy(labels), torch.zeros_like(rows), rows, classifier.parts_.method.compared)
    return classifier._keep(np.unique(labels), shots, Pictures([b""] * len(labels)))


def by_cleanlab(classifier: PlainClassifier) -> list[int]:
    """The label issues that cleanlab finds in the same probabilities, by number of the picture."""
    from cleanlab.filter import find_label_issues

    judged = judge_held_out(classifier._judge_by, classifier.shots_, budget=len(classifier.shots_.labels))
    assert judged is not None
    chances = classifier.calibration_.probabilities(judged.scores).numpy()
    issues = find_label_issues(judged.labels.numpy(), chances, return_indices_ranked_by="self_confidence", n_jobs=1)
    return judged.image[torch.from_numpy(np.asarray(issues, dtype=np.int64))].tolist()


def rows_of(name: str, trials: Iterable[dict[str, tuple[int, int, int]]]) -> list[str]:
    """Lines of a Markdown table: precision and recall of each way over all trials."""
    totals: dict[str, np.ndarray] = {}
    for one in trials:
        for way, counts in one.items():
            totals[way] = totals.get(way, 0) + np.array(counts)
    return [f"| {name} | {way} | {100 * found / max(named, 1):.0f} | {100 * found / there:.0f} |"
            for way, (found, named, there) in totals.items()]


def main(data: list[str], out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")] = Path(),
         runs: int = 10) -> None:
    """Measure `fruit` or folders of class folders, and write flipped-labels.md."""
    lines = [f"dmn4-linear; {runs} runs of {CLASSES} classes with {SHOTS} pictures, {WRONG:.0%} of labels wrong.", "",
             "| pictures | found by | precision % | recall % |", "|---|---|---|---|"]
    for name in data:
        images = photos(name)
        lines += rows_of(images.name, [trial(images, run) for run in range(runs)])
        write_file(out / "flipped-labels.md", "\n".join([*lines, ""]))
    typer.echo("\n".join(lines))


if __name__ == "__main__":
    typer.run(main)
