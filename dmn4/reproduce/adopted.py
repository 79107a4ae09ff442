"""Which patches of unlabelled pictures were adopted by which class, and how many came from distractors (Sec. 4.5)."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..episodes.sampling import Episode
from ..files import write_file
from ..methods.descriptors import SupportPool

if TYPE_CHECKING:
    from matplotlib.patches import Rectangle

DISTRACTOR = -1
COLUMNS, SHOWN = 5, 10       # pictures in a row, and in all: those with most adopted patches


@dataclass(frozen=True)
class Adopted:
    """The unlabelled descriptors in an enlarged pool."""

    image: Tensor   # (A,)  unlabelled picture it came from
    place: Tensor   # (A,)  its place in the map, row by row
    owner: Tensor   # (A,)  class that adopted it


def find_adopted(pool: SupportPool, labelled: int) -> Adopted:
    """What a pool of `labelled` support images holds beyond their own descriptors."""
    is_adopted = pool.rows >= labelled
    return Adopted(pool.rows[is_adopted] - labelled, pool.places[is_adopted], pool.owner[is_adopted])


def true_classes(episode: Episode, labels: np.ndarray) -> Tensor:
    """The class 0..N-1 of each unlabelled picture, or DISTRACTOR; `labels` are those of the data set -> (U,)."""
    known = {label: place for place, label in enumerate(episode.classes)}
    return torch.tensor([known.get(int(labels[row]), DISTRACTOR) for row in episode.unlabelled.tolist()])


def tally(adopted: Adopted, truth: Tensor, ways: int) -> Tensor:
    """How many each class adopted from pictures of its own, of other classes and of distractors: (U,) -> (N, 3)."""
    source = truth[adopted.image]                                                     # (A,)
    kind = torch.where(source == DISTRACTOR, 2, (source != adopted.owner).long())     # (A,)
    return torch.bincount(3 * adopted.owner + kind, minlength=3 * ways).view(ways, 3)


def draw_adopted(adopted: Adopted, pictures: np.ndarray, truth: Tensor, grid: tuple[int, int], names: Sequence[str],
                 path: Path) -> None:
    """Frame the adopted patches in the colour of the class that took them: (U, h, w, 3), map of H x W -> a PNG file."""
    from matplotlib.figure import Figure

    counts = tally(adopted, truth, len(names)).tolist()
    most = adopted.image.bincount(minlength=len(pictures)).argsort(descending=True, stable=True)[:SHOWN].tolist()
    figure = Figure(figsize=(2.4 * COLUMNS, 2.6 * -(-len(most) // COLUMNS) + 1.6), layout="constrained")
    for number, image in enumerate(most):
        true = int(truth[image])
        axes = figure.add_subplot(-(-len(most) // COLUMNS), COLUMNS, number + 1,
                                  title="distractor" if true == DISTRACTOR else names[true])
        axes.imshow(pictures[image])
        axes.set_axis_off()
        from_image = adopted.image == image
        for place, owner in zip(adopted.place[from_image].tolist(), adopted.owner[from_image].tolist(), strict=True):
            axes.add_patch(outline(place, grid, pictures.shape[1:3], owner))
    captions = [f"{name}: {right} own, {other} of other classes, {strange} of distractors"
                for name, (right, other, strange) in zip(names, counts, strict=True)]
    handles = [outline(0, grid, pictures.shape[1:3], owner) for owner in range(len(names))]
    figure.legend(handles, captions, loc="outside lower center", ncols=2, title="adopted descriptors")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=100)
    write_file(path, drawn.getvalue())


def outline(place: int, grid: tuple[int, int], size: tuple[int, ...], owner: int) -> "Rectangle":
    """The frame of one place of the map, in the colour of a class."""
    from matplotlib.patches import Rectangle

    height, width = size[0] / grid[0], size[1] / grid[1]
    row, column = divmod(place, grid[1])
    return Rectangle((column * width - 0.5, row * height - 0.5), width, height, fill=False, edgecolor=f"C{owner % 10}")
