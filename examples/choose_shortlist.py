"""How many classes have to be compared closely: recall of the true class, and accuracy, by the length of the shortlist.

    python examples/choose_shortlist.py PHOTOS/birds PHOTOS/groceries PHOTOS/birds+PHOTOS/groceries -o shortlist.md

Each folder is one of class folders; several joined by + are one set. From each class a few pictures are labelled and
others asked about. Everything is scored with all classes compared closely, once for each length, and once by local
NBNN (McCann and Lowe 2012): each patch votes for the NEAREST_CLASSES only, by how much nearer they are than the next.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor

from dmn4.classify.maps import Maps
from dmn4.classify.parts import assemble
from dmn4.classify.shortlist import Shortlist
from dmn4.classify.shots import Shots
from dmn4.data.folders import ImageSet, from_classes, read_folder
from dmn4.episodes.sampling import sample_episodes
from dmn4.files import write_file
from dmn4.images.looks import at_once, batches, read_pixels
from dmn4.methods.base import DescriptorMethod, Learnt, compares_descriptors
from dmn4.methods.linear_head import LinearHead
from dmn4.methods.neighbors import search

LENGTHS = (2, 4, 8, 12, 20, 32, 50)
QUERIES = 6                                                   # of each class
MOST = 16                                                     # pictures of a class
NEAREST_CLASSES = 10                                          # that a patch votes for in local NBNN


def main(folders: list[str], out: Annotated[Path, typer.Option("-o")] = Path("shortlist.md"),
         tasks: int = 5, method: str = "dmn4-linear", shots: list[int] = [1, 5]) -> None:      # noqa: B006 (typer's way)
    """Write the table for these folders."""
    lines = ["| pictures | classes | shots | " + " | ".join(map(str, LENGTHS)) + " | all | local NBNN |",
             "|---" * (len(LENGTHS) + 5) + "|"]
    for folder in folders:
        maps, labels = looked_at(joined(folder), method)
        for count in shots:
            rows = [measured(maps, labels, count, number, method) for number in range(tasks)]
            recall, right = (torch.stack(column) for column in zip(*rows, strict=True))          # (tasks, lengths)
            gain = (right - right[:, -2:-1])[:, [*range(len(LENGTHS)), -1]]                      # over all classes
            cells = [f"{100 * found:.1f} / {100 * share:+.2f}" for found, share in
                     zip(recall.mean(0), gain.mean(0), strict=False)]
            spread = 1.96 * gain.std(0) / tasks ** 0.5                                           # (lengths + 1,)
            cells = [f"{cell} ± {100 * wide:.2f}" for cell, wide in zip(cells, spread, strict=False)]
            lines.append(f"| {' and '.join(Path(part).name for part in folder.split('+'))} | {labels.max() + 1} | "
                         f"{count} | " + " | ".join(cells) + f" | {100 * right[:, -2].mean():.1f} | "
                         f"{100 * gain[:, -1].mean():+.2f} ± {100 * spread[-1]:.2f} |")
            print(lines[-1], flush=True)
    write_file(out, "\n".join(lines) + "\n")


def joined(folders: str) -> ImageSet:
    """The classes of all folders as one set."""
    found = {f"{folder} {name}": [images.images[row] for row in np.flatnonzero(images.labels == label)]
             for folder in folders.split("+") for images in [read_folder(folder)]
             for label, name in enumerate(images.classes)}
    return from_classes(found, folders)


@torch.inference_mode()
def looked_at(images: ImageSet, method: str) -> tuple[Maps, np.ndarray]:
    """What a classifier keeps of up to MOST pictures of each class, and their labels."""
    images = images.first_of_each_class(MOST)
    parts = assemble(method, "efficientnet_lite0")
    maps = []
    for batch in batches(images.images, 32):
        pixels = parts.transform(read_pixels(batch, parts.transform))
        maps += [parts.embedder(some).float().contiguous().half() for some in pixels.split(at_once(pixels))]
    return Maps.of(torch.cat(maps), parts.method.compared), images.labels


@torch.inference_mode()
def measured(maps: Maps, labels: np.ndarray, shots: int, number: int, name: str) -> tuple[Tensor, Tensor]:
    """Recall for each length; accuracy for each length, of all classes, and of local NBNN: of one task."""
    method, ways = assemble(name, "efficientnet_lite0").method, int(labels.max()) + 1
    assert compares_descriptors(method)
    episode, = sample_episodes(labels, ways, shots, QUERIES, episodes=1, seed=number)
    support = Shots(maps[episode.support], episode.support_labels, torch.zeros_like(episode.support),
                    torch.arange(len(episode.support)))
    asked, truth = maps[episode.query], episode.query_labels
    learnt = method.learn_kept(support.maps.float(), support.maps.means, support.labels)
    head = method.head_in(learnt) or method.head(support.maps.means, support.labels)
    query = asked.float()
    recall, right = [], []
    for length in LENGTHS:
        shortlist = Shortlist(method, support, head, length)
        recall.append((shortlist.named(asked.means) == truth[:, None]).any(1).float().mean())
        right.append((shortlist.scores(query, asked.means, head.scores(asked.means)).argmax(1) == truth).float().mean())
    parts = list(zip(query.split(16), asked.means.split(16), strict=True))
    whole = torch.cat([method.answer_kept(learnt, *some) for some in parts])
    nearby = torch.cat([local(method, learnt, head, *some) for some in parts])
    right += [(scores.argmax(1) == truth).float().mean() for scores in (whole, nearby)]
    return torch.stack(recall), torch.stack(right)


def local(method: DescriptorMethod, learnt: Learnt, head: LinearHead, maps: Tensor, means: Tensor) -> Tensor:
    """Scores by local NBNN, with the method's other parts as they are: (Q, c, H, W), (Q, C) -> (Q, N)."""
    pool = learnt.derived
    matches = search(method.describe(maps, pool), pool, method.partners, method.answers)
    next_best = matches.class_best.topk(NEAREST_CLASSES + 1, dim=-1).values[..., -1:]            # (Q, M, 1)
    nearer = (matches.class_best - next_best).clamp_min(0) * method.keep(matches)[..., None]     # (Q, M, N)
    rest = method.answer_kept(learnt, maps, means) - method.ballot(matches.class_best, method.keep(matches))
    return nearer.sum(1) / method.unit(maps.shape[2] * maps.shape[3]) + rest


if __name__ == "__main__":
    typer.run(main)
