"""The quick start: photographs of fruit, a table of methods, "none of these", a report; no network, two minutes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from ..classify.classifier import FewShotClassifier
from ..classify.parts import assemble
from ..data.folders import ImageSet
from ..data.samples import draw_clutter, fruit, fruit_file
from ..episodes.sampling import Episode, sample_episodes
from ..evaluation.intervals import accuracy_of, paired_difference
from ..files import write_file
from ..images import Source
from ..images.looks import batches, read_pixels
from ..methods.base import Method, compares_descriptors
from ..methods.together import score_together
from .predictions import Prediction, predict_each
from .report import write_report

METHODS = ("dmn4", "mn4", "dn4", "meta-baseline", "protonet")
WAYS, SHOTS, UNSEEN = 5, 5, 10                                # of each class
Watched = Callable[[Sequence[Source], str], Iterable[Source]]       # pictures, words -> the same, with a progress bar
NEXT = """
Your own photographs, a few of each kind in a folder of their own:
  dmn4 fit PHOTOS/ -o mine.dmn4
  dmn4 predict mine.dmn4 MORE/ --reject --sort-into sorted/
  dmn4 explain mine.dmn4 MORE/one.jpg -o why.png"""


def unwatched(items: Sequence[Source], label: str) -> Iterable[Source]:
    """The items as they are, without a progress bar."""
    return items


def run_demo(out: Path, episodes: int = 40, watched: Watched = unwatched) -> Iterator[str]:
    """Lines to be shown, as they become known; the same are written to out/demo.txt. `watched` shows progress."""
    lines: list[str] = []
    for line in demo_lines(out, episodes, watched):
        lines.append(line)
        yield line
    write_file(out / "demo.txt", "\n".join(lines) + "\n")


def demo_lines(out: Path, episodes: int, watched: Watched) -> Iterator[str]:
    """The demo, step by step."""
    images, says = photographs()
    yield says
    classifier, task = FewShotClassifier(), Task.drawn(images)
    classifier.fit(watched(task.pictures(task.support), "looking at labelled pictures"), task.names(task.support))
    yield (f"\nOne task: {SHOTS} photographs of each of {', '.join(classifier.classes_)}; "
           f"{len(task.known)} unseen ones of these, {len(task.strangers)} of {len(task.others)} other kinds.")
    rows = list(predict_each(classifier, watched(task.pictures(task.query), "naming unseen pictures"), reject=True))
    yield from task_lines(rows, task)
    classifier.save(out / "demo.dmn4")
    yield f"  the classifier: {out / 'demo.dmn4'}, {(out / 'demo.dmn4').stat().st_size / 1e6:.1f} MB"
    write_report(out / "report.html", classifier, rows, task.names(task.query))
    yield f"  the photographs, what counted in them and what it matched: {out / 'report.html'}"
    yield f"\n{episodes} such tasks, {WAYS}-way {SHOTS}-shot, the same for every method:"
    maps = embedded(classifier, watched(list(images.images), "looking at all pictures"))
    methods = {name: assemble(name, classifier.parts_.backbone).method for name in METHODS}
    yield from table_lines(maps, images.labels, episodes, methods)
    yield NEXT


def photographs() -> tuple[ImageSet, str]:
    """Some photographs of each of the 14 kinds of fruit, or drawn objects where they are not at hand."""
    if not fruit_file().is_file():
        return (draw_clutter(14, SHOTS + UNSEEN, 0.4, 224),
                "The demo's photographs are not here (get them with `dmn4 data fruit`): drawn objects stand in.")
    images = fruit()
    chosen = np.concatenate([np.flatnonzero(images.labels == label)[: SHOTS + UNSEEN]
                             for label in range(len(images.classes))])
    few = images.rows(chosen)
    return few, f"{len(few)} photographs of {len(few.classes)} kinds of fruit; the network was trained on ImageNet."


@dataclass(frozen=True)
class Task:
    """Rows of the data set: a few labelled pictures of five classes, unseen ones of these and of all others."""

    images: ImageSet
    support: list[int]
    known: list[int]
    strangers: list[int]

    @classmethod
    def drawn(cls, images: ImageSet) -> "Task":
        """Known are classes at equal steps; strangers are the last pictures of all others, half as many of each."""
        classes = np.linspace(0, len(images.classes) - 1, WAYS).round().astype(int).tolist()
        rows = [np.flatnonzero(images.labels == label).tolist() for label in range(len(images.classes))]
        return cls(images, [row for label in classes for row in rows[label][:SHOTS]],
                   [row for label in classes for row in rows[label][SHOTS:]],
                   [row for label, each in enumerate(rows) if label not in classes for row in each[-UNSEEN // 2:]])

    @property
    def query(self) -> list[int]:
        """What is to be named: known ones, then strangers."""
        return self.known + self.strangers

    @property
    def others(self) -> list[str]:
        """The classes that the classifier never saw."""
        return sorted(set(self.names(self.strangers)))

    def pictures(self, rows: list[int]) -> list[Source]:
        """The pictures of these rows."""
        return [self.images.images[row] for row in rows]

    def names(self, rows: list[int]) -> list[str]:
        """The true classes of these rows."""
        return [self.images.classes[self.images.labels[row]] for row in rows]


def task_lines(rows: list[Prediction], task: Task) -> Iterator[str]:
    """How many were named rightly, and how many strangers were noticed."""
    known, strangers = rows[: len(task.known)], rows[len(task.known):]
    right = sum(max(row.probabilities, key=row.probabilities.__getitem__) == name
                for row, name in zip(known, task.names(task.known), strict=True))
    refused, noticed = (sum(row.label is None for row in part) for part in (known, strangers))
    area = roc_auc_score([1] * len(known) + [0] * len(strangers), [row.known for row in rows])
    yield f"  named rightly: {right} of {len(known)}"
    yield (f"  \"none of these\": said of {noticed} of {len(strangers)} strangers and {refused} of {len(known)} known "
           f"ones; AUROC {area:.3f}; calibrated on the {len(task.support)} labelled photographs alone")


def embedded(classifier: FewShotClassifier, images: Iterable[Source]) -> Tensor:
    """The maps of all pictures: (n, C, H, W)."""
    transform = classifier.parts_.transform
    return torch.cat([classifier.embed(read_pixels(batch, transform)) for batch in batches(images, 32)])


@torch.inference_mode()
def table_lines(maps: Tensor, labels: np.ndarray, episodes: int, methods: Mapping[str, Method]) -> Iterator[str]:
    """The accuracy of each method with its interval, and its paired difference from the first."""
    sharing = {name: method for name, method in methods.items() if compares_descriptors(method)}

    def play(episode: Episode) -> dict[str, float]:
        support, query, few = maps[episode.support], maps[episode.query], episode.support_labels
        scores = score_together(support, few, query, sharing)
        scores |= {name: method(support, few, query) for name, method in methods.items() if name not in sharing}
        return {name: float((score.argmax(1) == episode.query_labels).float().mean()) for name, score in scores.items()}

    played = [play(episode) for episode in sample_episodes(labels, WAYS, SHOTS, UNSEEN, episodes=episodes)]
    values = {name: np.array([each[name] for each in played]) for name in methods}
    first = next(iter(methods))
    yield f"  {'method':15s}{'accuracy, %':17s}beside {first}, on the same tasks"
    for name in methods:
        beside = "" if name == first else str(paired_difference(values[name], values[first]))
        yield f"  {name:15s}{accuracy_of(values[name][None])!s:17s}{beside}".rstrip()
