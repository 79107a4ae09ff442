"""Is another network worth its time? The classifier's default method on maps of several networks, on the same tasks.

    python examples/compare_networks.py accuracy fruit PHOTOS/birds PHOTOS/leaves
    python examples/compare_networks.py speed fruit
    python examples/compare_networks.py accuracy fruit -n efficientnet_lite0@224 -n onnx:dino.onnx -n hf:FOLDER@224

A network is written NAME@PIXELS, or NAME:layer=LAYER@PIXELS. Every picture passes every network once; what a classifier
would keep of it stays in the cache folder. `accuracy` also tells what probabilities are worth: how far the best
temperature lies from the one that a classifier begins with, and how far its probabilities are from the truth.
"""

import hashlib
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from photo_grid import calibration_error
from safetensors.torch import load_file, save_file
from torch import Tensor

from dmn4.classify.calibration import calibrate
from dmn4.classify.maps import Maps
from dmn4.classify.parts import Parts, assemble
from dmn4.classify.shots import Shots
from dmn4.classify.temperature import best_power
from dmn4.data.cache import cache_folder
from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.samples import fruit
from dmn4.episodes.sampling import Episode, sample_episodes
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_file
from dmn4.images.looks import at_once, batches, read_pixels
from dmn4.methods.base import Method
from dmn4.training.runs import progress

NETWORKS = ["efficientnet_lite0@224", "efficientnet_lite1@240", "efficientnet_lite2@260", "efficientnet_lite0@320",
            "efficientnet_lite2@320"]
CLASSES, PER_CLASS = 50, 16
SHOTS = (1, 5, 10)
TASKS = {5: (40, 5), 20: (8, 4), 0: (4, 0)}                  # ways (0: all) -> tasks, queries of each class
QUERIES = 100                                                 # of a task with all classes
CALIBRATED = 20                                               # tasks of a cell in which a classifier is calibrated
ROUNDS = 7                                                    # of timing, the networks in turn

Sets = Annotated[list[str], typer.Argument(help="Folders of class folders, or the word fruit.")]
Networks = Annotated[list[str] | None, typer.Option("-n", "--network", help="NAME@PIXELS; the first is compared with.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")]
app = typer.Typer(help=__doc__)


class Cell(NamedTuple):
    """What a network gave in the tasks of one set, so many ways and shots."""

    right: np.ndarray     # accuracy of each task
    far: float            # log of the best temperature over the law's; NaN where a method has no law
    error: float          # of a calibrated classifier's probabilities, in percent


def parts_of(network: str) -> Parts:
    """The network as the classifier's default method uses it."""
    name, _, side = network.partition("@")
    name, _, layer = name.partition(":layer=")
    return assemble("dmn4-linear", name, layer=layer or None, image_size=int(side) if side else None)


def chosen(data: str) -> ImageSet:
    """The first classes of a set, and the first pictures of each."""
    images = (fruit() if data == "fruit" else read_folder(data)).first_of_each_class(PER_CLASS)
    return images.of_classes(range(min(CLASSES, len(images.classes))))


@torch.inference_mode()
def stored_maps(images: ImageSet, network: str) -> Maps:
    """What a classifier keeps of every picture, from the cache folder or embedded now."""
    key = hashlib.blake2b(f"{images.fingerprint}{len(images)}{network}".encode(), digest_size=8).hexdigest()
    path = cache_folder() / "networks" / f"{key}.safetensors"
    if not path.is_file():
        parts, kept = parts_of(network), []
        with progress(f"{images.name}, {network}", len(images)) as bar:
            for batch in batches(list(images.images), 16):
                seen = parts.transform(read_pixels(batch, parts.transform))
                kept += [Maps.of(parts.embedder(some).float().contiguous().half(), parts.method.compared)
                         for some in seen.split(at_once(seen))]
                bar.advance_by(len(batch))
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"maps": torch.cat([each.pieces[0] for each in kept]),
                   "means": torch.cat([each.means for each in kept])}, path)
    held = load_file(path)
    return Maps((held["maps"],), torch.arange(len(images)), held["means"])


def cell(method: Method, maps: Maps, tasks: list[Episode]) -> Cell:
    """The method in all tasks of a cell; in the first of them calibrated as a classifier is."""
    right, scores, sure = [], [], []
    for number, task in enumerate(tasks):
        rows = torch.arange(len(task.support))
        shots = Shots(maps[task.support], task.support_labels, torch.zeros_like(rows), rows)
        asked = shots.rows(rows[:0]).joined(Shots(maps[task.query], task.query_labels, *[task.query_labels] * 2))
        found, truth = judged(method, shots, asked)[0], task.query_labels
        right.append(float((found.argmax(1) == truth).float().mean()))
        scores.append(found)
        if number < CALIBRATED and len(task.classes) <= 20:
            chances = calibrate(method, lambda *pair: judged(method, *pair), shots).probabilities(found)
            confidence, said = chances.max(1)
            sure.append(np.stack([confidence.numpy(), (said == truth).numpy()]))
    power = best_power(torch.cat(scores), torch.cat([task.query_labels for task in tasks]))
    law, ways = method.temperature_law, len(tasks[0].classes)
    far = power - law.power(ways, len(tasks[0].support) / ways) if law else np.nan
    return Cell(np.array(right), far, calibration_error(*np.concatenate(sure, axis=1)) if sure else np.nan)


def judged(method: Method, support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
    """Scores (Q, N) and fit (Q,) of pictures beside a support."""
    learnt = method.learn_kept(support.maps.float(), support.maps.means, support.labels)
    head = method.head_in(learnt)
    assert head is not None
    means = pictures.maps.means
    return method.answer_kept(learnt, pictures.maps.float(), means), head.scores(means).amax(1)


def cells(images: ImageSet) -> list[tuple[int, int, list[Episode]]]:
    """The ways (0: all), the shots and the tasks that a set has pictures for."""
    counted, fewest = len(images.classes), int(images.counts.min())
    asked = {ways: queries or max(1, QUERIES // counted) for ways, (_, queries) in TASKS.items()}
    return [(ways, shots, list(sample_episodes(images.labels, ways or counted, shots, asked[ways],
                                               episodes=TASKS[ways][0], seed=shots)))
            for ways in TASKS for shots in SHOTS if ways < counted and shots + asked[ways] <= fewest]


@app.command()
@torch.inference_mode()
def accuracy(sets: Sets, network: Networks = None, out: Out = Path("networks")) -> None:
    """Accuracy of each network, the paired difference from the first; and what its probabilities are worth."""
    networks, rows = network or NETWORKS, {}
    for images in map(chosen, sets):
        tasks = cells(images)
        for place, name in enumerate(networks):
            maps, method = stored_maps(images, name), parts_of(name).method
            for ways, shots, episodes in tasks:
                rows[images.name, ways, shots, place] = cell(method, maps, episodes)
            print(f"{images.name}, {name}", flush=True)
    tables = [table("accuracy, and the difference from the first", networks, rows, in_words),
              table("log of the best temperature over the law's", networks, rows, lambda cell: f"{cell.far:+.2f}"),
              table("calibration error in percent", networks, rows, lambda cell: f"{cell.error:.1f}")]
    write_file(out / "networks.md", "\n".join(tables))
    print((out / "networks.md").read_text())


def in_words(cell: Cell, first: Cell | None = None) -> str:
    """The accuracy of a network, and how much better it is than the first."""
    return str(accuracy_of(cell.right[None])) + (f" ({paired_difference(cell.right, first.right)})" if first else "")


def table(title: str, networks: list[str], rows: dict[tuple[str, int, int, int], Cell],
          say: Callable[..., str]) -> str:
    """A Markdown table: a line for each set, ways and shots, a column for each network."""
    lines = [f"{title}:", "", f"| set | ways | shots | {' | '.join(networks)} |", "|---" * (3 + len(networks)) + "|"]
    for (name, ways, shots), keys in groupby(sorted(rows), key=lambda key: key[:3]):
        found = [rows[key] for key in keys]
        lines.append(f"| {name} | {ways or 'all'} | {shots} | "
                     + " | ".join([say(found[0]), *(say(each, *[found[0]] * (say is in_words)) for each in found[1:])])
                     + " |")
    return "\n".join([*lines, ""])


@app.command()
@torch.inference_mode()
def speed(data: str, network: Networks = None, pictures: int = 12) -> None:
    """Time of a picture in each network over that in the first: the best of some rounds, one after the other."""
    images, networks = chosen(data), network or NETWORKS
    prepared = []
    for name in networks:
        parts = parts_of(name)
        prepared.append((parts.embedder, parts.transform(read_pixels(list(images.images[:pictures]), parts.transform))))
    times: list[list[float]] = [[] for _ in networks]
    for _ in range(ROUNDS):
        for spent, (embedder, seen) in zip(times, prepared, strict=True):
            start = time.perf_counter()
            for some in seen.split(at_once(seen)):
                embedder(some)
            spent.append((time.perf_counter() - start) / pictures)
    for name, spent in zip(networks, times, strict=True):
        print(f"| {name} | {1 / min(spent):.1f} | {min(spent) / min(times[0]):.2f} |", flush=True)


if __name__ == "__main__":
    app()
