"""How large a map needs to be: accuracy, time and room when large maps are averaged or thinned out before matching.

    python examples/large_maps.py fruit PHOTOS/birds PHOTOS/leaves -n efficientnet_lite0@448

Every picture passes a network at a size at which its map is large; the same tasks are then played on all places, on the
means of neighbouring places, and on every so manieth place.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from compare_networks import chosen, parts_of, stored_maps
from torch import Tensor

from dmn4.classify.maps import Maps
from dmn4.episodes.sampling import sample_episodes
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_file

NETWORKS = ["efficientnet_lite0@448", "efficientnet_lite2@592", "efficientnet_lite0:layer=joined@592"]
SIDES = (19, 14, 10, 7)                                       # of the smaller maps
SHOTS, TASKS, QUERIES = (1, 5), 16, 3
CLASSES, PER_CLASS = 20, 15                                   # the first of a set


def averaged(maps: Tensor, side: int) -> Tensor:
    """The means of neighbouring places: (n, C, H, W) -> (n, C, side, side)."""
    return F.adaptive_avg_pool2d(maps, side)


def thinned(maps: Tensor, side: int) -> Tensor:
    """Some of the places, evenly: (n, C, H, W) -> (n, C, side, side)."""
    rows, columns = (((torch.arange(side) + 0.5) * size / side).long() for size in maps.shape[2:])
    return maps[:, :, rows][:, :, :, columns]


def variants(height: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """What can be done to maps of this height."""
    return {"all": lambda maps: maps} | {
        f"{name} {side}x{side}": lambda maps, make=make, side=side: make(maps, side)
        for side in SIDES if side < height for name, make in (("means", averaged), ("every so manieth", thinned))}


def main(sets: list[str], network: Annotated[list[str] | None, typer.Option("-n", "--network")] = None,
         out: Annotated[Path, typer.Option("-o", "--out")] = Path("networks")) -> None:
    """Write one table: networks, maps, accuracy over all sets, time and room."""
    lines = [f"| network | map | {' | '.join(f'{shots} shot' + 's' * (shots > 1) for shots in SHOTS)} | time | "
             "kB a picture |", "|---" * (4 + len(SHOTS)) + "|"]
    for name in network or NETWORKS:
        method, right, spent, room = parts_of(name).method, {}, {}, {}
        for data in sets:
            images = chosen(data).first_of_each_class(PER_CLASS)
            images = images.of_classes(range(min(CLASSES, len(images.classes))))
            maps = stored_maps(images, name)
            for shots in SHOTS:
                for task in sample_episodes(images.labels, 5, shots, QUERIES, episodes=TASKS, seed=shots):
                    support, asked = (maps[rows] for rows in (task.support, task.query))
                    for kind, smaller in variants(maps.sides[0]).items():
                        few, query = smaller(support.float()), smaller(asked.float())
                        start = time.perf_counter()
                        score = scores(method, few, support, task.support_labels, query, asked)
                        spent[kind] = spent.get(kind, 0.0) + time.perf_counter() - start
                        room[kind] = 2 * few[0].numel() / 1e3
                        right.setdefault((kind, shots), []).append(
                            float((score.argmax(1) == task.query_labels).float().mean()))
            print(f"{name}, {images.name}", flush=True)
        for kind in room:
            found = [np.array(right[kind, shots]) for shots in SHOTS]
            cells = [f"{accuracy_of(each[None])} ({paired_difference(each, np.array(right['all', shots]))})"
                     for each, shots in zip(found, SHOTS, strict=True)]
            cells += [f"{spent[kind] / spent['all']:.2f}", f"{room[kind]:.0f}"]
            lines.append(f"| {name} | {kind} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    write_file(out / "large-maps.md", "\n".join(lines) + "\n")


@torch.inference_mode()
def scores(method, few: Tensor, support: Maps, labels: Tensor, query: Tensor, asked: Maps) -> Tensor:  # type: ignore[no-untyped-def]
    """The scores of some queries (Q, N); the linear head reads the means of the whole maps."""
    return method.answer_kept(method.learn_kept(few, support.means, labels), query, asked.means)


if __name__ == "__main__":
    typer.run(main)
