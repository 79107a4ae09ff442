"""Is a larger network worth its time? EfficientNet-Lite0, 1 and 2 at several sizes, on the same tasks.

    python examples/compare_networks.py fruit photos/birds photos/leaves -o networks

Every picture passes every network once; its map is kept in a file, so a second run starts at the tasks. Three heads
are measured: `dmn4`, a logistic regression on the centred pooled vectors, and the sum of both after each query's scores
are brought to mean 0 and deviation 1.
"""

import hashlib
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from safetensors.torch import load_file, save_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from dmn4.backbones import build_backbone
from dmn4.backbones.folding import folded
from dmn4.data.cache import cache_folder
from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.samples import fruit
from dmn4.episodes.sampling import Episode, sample_episodes
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_json
from dmn4.images import Transform
from dmn4.images.looks import at_once, batches, read_pixels
from dmn4.methods import build_method
from dmn4.training.runs import progress

NETWORKS = (("efficientnet_lite0", 224), ("efficientnet_lite2", 260), ("efficientnet_lite0", 320),
            ("efficientnet_lite2", 320), ("efficientnet_lite1", 240))
SHOTS = (1, 5, 10)
TASKS = ((5, 60, 5), (20, 12, 5))                              # ways, episodes, queries of each class
PER_CLASS = 30
Values = dict[str, np.ndarray]                                # head -> accuracy of each task


def stored_maps(images: ImageSet, name: str, side: int, folder: Path) -> Tensor:
    """The maps of every picture (n, C, H, W), float16, from the folder or embedded now."""
    key = hashlib.blake2b(f"{images.fingerprint}{len(images)}".encode(), digest_size=6).hexdigest()
    path = folder / f"{images.name}-{key}-{name}-{side}.safetensors"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"maps": embedded(images, name, side)}, path)
    return load_file(path)["maps"]


@torch.inference_mode()
def embedded(images: ImageSet, name: str, side: int) -> Tensor:
    """The maps of every picture: (n, C, H, W), float16."""
    backbone = build_backbone(name, "imagenet")
    transform, network = Transform(side, (side, side), mean=backbone.mean, std=backbone.std), folded(backbone)
    parts = []
    with progress(f"{images.name}, {name} at {side}", len(images)) as bar:
        for batch in batches(list(images.images), 32):
            seen = transform(read_pixels(batch, transform))
            parts += [network(some).half() for some in seen.split(at_once(seen))]
            bar.advance_by(len(batch))
    return torch.cat(parts).contiguous()


def linear_scores(episode: Episode, vectors: Tensor) -> Tensor:
    """A logistic regression on unit vectors, measured from the mean of the labelled ones: (n, C) -> (Q, N)."""
    middle = vectors[episode.support].mean(0)
    support, query = (F.normalize(vectors[rows] - middle).numpy() for rows in (episode.support, episode.query))
    head = LogisticRegression(C=10, max_iter=300).fit(support, episode.support_labels.numpy())
    return torch.from_numpy(head.predict_log_proba(query)).float()


def even(scores: Tensor) -> Tensor:
    """The scores of each query with mean 0 and deviation 1: (Q, N) -> (Q, N)."""
    return (scores - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True)


@torch.inference_mode()
def play(maps: Tensor, labels: np.ndarray, ways: int, shots: int, episodes: int, queries: int) -> Values:
    """The accuracy of each head on each task."""
    vectors, method = maps.float().mean((2, 3)), build_method("dmn4", centre="shots")
    values: dict[str, list[float]] = {"dmn4": [], "linear": [], "sum": []}
    for episode in sample_episodes(labels, ways, shots, queries, episodes=episodes, seed=shots):
        local = method(maps[episode.support].float(), episode.support_labels, maps[episode.query].float())
        pooled = linear_scores(episode, vectors)
        for name, scores in (("dmn4", local), ("linear", pooled), ("sum", even(local) + even(pooled))):
            values[name].append(float((scores.argmax(1) == episode.query_labels).float().mean()))
    return {name: np.array(each) for name, each in values.items()}


def row(values: Values, first: Values) -> dict[str, str]:
    """Each head's accuracy, and its paired difference from the first network's."""
    return {name: f"{accuracy_of(each[None])} ({paired_difference(each, first[name])})"
            for name, each in values.items()}


def main(data: list[str], out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the figures.")]
         = Path("networks"), maps: Annotated[Path | None, typer.Option(help="Folder of the maps.")] = None) -> None:
    """Write one JSON file for each set of pictures: tasks, networks, heads."""
    folder = maps or cache_folder() / "networks"
    for place in data:
        images = (fruit() if place == "fruit" else read_folder(place)).first_of_each_class(PER_CLASS)
        table: dict[str, dict[str, dict[str, str]]] = {}
        first: dict[tuple[int, int], Values] = {}
        for name, side in NETWORKS:
            kept, start = stored_maps(images, name, side, folder), time.monotonic()
            for ways, episodes, queries in TASKS:
                for shots in SHOTS if ways <= len(images.classes) else ():
                    values = play(kept, images.labels, ways, shots, episodes, queries)
                    task = f"{ways} ways, {shots} shot{'s' * (shots > 1)}"
                    table.setdefault(task, {})[f"{name} {side}"] = row(values, first.setdefault((ways, shots), values))
            print(f"{images.name}, {name} at {side}: {time.monotonic() - start:.0f} s", flush=True)
            write_json(out / f"{images.name}.json", {"fingerprint": images.fingerprint, "pictures": len(images),
                                                     "classes": len(images.classes), "tasks": table})


if __name__ == "__main__":
    typer.run(main)
