"""How many classes have to be compared closely: recall of the true class, and accuracy, by the length of the shortlist.

    python examples/choose_shortlist.py PHOTOS/ MORE_PHOTOS/ -o docs/results/shortlist.md

Each folder is one of class folders. From each class a few pictures are labelled and others asked about; everything is
scored once with all classes compared closely, and once for each length. The table is written as Markdown.
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
from dmn4.data.folders import read_folder
from dmn4.episodes.sampling import sample_episodes
from dmn4.files import write_file
from dmn4.images.looks import at_once, batches, read_pixels
from dmn4.methods.base import compares_descriptors

LENGTHS = (2, 5, 10, 20, 32, 50)
QUERIES = 6                                                   # of each class
MOST = 12                                                     # pictures of a class


def main(folders: list[Path], out: Annotated[Path, typer.Option("-o")] = Path("shortlist.md"),
         episodes: int = 1, method: str = "dmn4-linear") -> None:
    """Write the table for these folders."""
    lines = ["| pictures | classes | shots | " + " | ".join(map(str, LENGTHS)) + " | all |",
             "|---" * (len(LENGTHS) + 4) + "|"]
    for folder in folders:
        maps, labels = looked_at(folder, method)
        for shots in (1, 5):
            rows = [measured(maps, labels, shots, number, method) for number in range(episodes)]
            recall, right = (torch.stack(column).mean(0) for column in zip(*rows, strict=True))
            cells = [f"{100 * found:.1f} / {100 * share:.1f}" for found, share in zip(recall, right[:-1], strict=True)]
            lines.append(f"| {folder.name} | {labels.max() + 1} | {shots} | " + " | ".join(cells)
                         + f" | {100 * right[-1]:.1f} |")
            print(lines[-1], flush=True)
    write_file(out, "\n".join(lines) + "\n")


@torch.inference_mode()
def looked_at(folder: Path, method: str) -> tuple[Maps, np.ndarray]:
    """What a classifier keeps of up to MOST pictures of each class, and their labels."""
    images = read_folder(folder).first_of_each_class(MOST)
    parts = assemble(method, "efficientnet_lite0")
    maps = []
    for batch in batches(images.images, 32):
        pixels = parts.transform(read_pixels(batch, parts.transform))
        maps += [parts.embedder(some).float().contiguous().half() for some in pixels.split(at_once(pixels))]
    return Maps.of(torch.cat(maps), parts.method.compared), images.labels


@torch.inference_mode()
def measured(maps: Maps, labels: np.ndarray, shots: int, number: int, name: str) -> tuple[Tensor, Tensor]:
    """Recall for each length, and accuracy for each length and for all classes, of one episode with all classes."""
    method, ways = assemble(name, "efficientnet_lite0").method, int(labels.max()) + 1
    assert compares_descriptors(method)
    episode, = sample_episodes(labels, ways, shots, QUERIES, episodes=1, seed=number)
    support = Shots(maps[episode.support], episode.support_labels, torch.zeros_like(episode.support),
                    torch.arange(len(episode.support)))
    asked, truth = maps[episode.query], episode.query_labels
    learnt = method.learn_kept(support.maps.float(), support.maps.means, support.labels)
    head = method.head_in(learnt)
    query = asked.float()
    recall, right = [], []
    for length in LENGTHS:
        shortlist = Shortlist(method, support, head, length)
        recall.append((shortlist.named(asked.means) == truth[:, None]).any(1).float().mean())
        right.append((shortlist.scores(query, asked.means, head.scores(asked.means)).argmax(1) == truth).float().mean())
    parts = zip(query.split(16), asked.means.split(16), strict=True)
    whole = torch.cat([method.answer_kept(learnt, *some) for some in parts])
    right.append((whole.argmax(1) == truth).float().mean())
    return torch.stack(recall), torch.stack(right)


if __name__ == "__main__":
    typer.run(main)
