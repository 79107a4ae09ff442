"""Do probabilities hold on maps of other widths and sizes, and of other make, than those they were fitted on?

    python examples/map_shapes.py fruit PHOTOS/leaves PHOTOS/textures

The maps of EfficientNet-Lite0 are given other shapes: its layers alone, mixed into other channels by random matrices,
drawn out to more places with noise. Such maps test the code and the law of temperatures. They say nothing about how
good the descriptors of another network are.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
import typer
from compare_networks import Cell, cell, chosen
from photo_grid import photos
from torch import Tensor

from dmn4.backbones.layout import averaged
from dmn4.backbones.outside import MAP_SIZE
from dmn4.classify.maps import Maps
from dmn4.data.folders import ImageSet
from dmn4.episodes.sampling import sample_episodes
from dmn4.files import write_file
from dmn4.methods import build_method

WAYS = 5


class Shape(NamedTuple):
    """Maps made of those of EfficientNet-Lite0, (n, 1600, 7, 7) -> (n, C, H, W), and the channels that are compared."""

    make: Callable[[Tensor], Tensor]
    compared: int = 0


def mixed(maps: Tensor, channels: int, side: int = 7, noise: float = 0.0, bend: bool = False) -> Tensor:
    """Random sums of the 1280 channels, drawn out to more places; `bend` cuts off what is below zero."""
    chance = torch.Generator().manual_seed(channels)
    by_picture = torch.Generator().manual_seed(int(maps[0].double().sum()))
    maps = maps[:, 320:].float()
    mixing = torch.randn(channels, 1280, generator=chance) / 1280**0.5
    maps = torch.einsum("oc,nchw->nohw", mixing, maps)
    maps = maps.relu() if bend else maps
    if side > maps.shape[2]:
        maps = F.interpolate(maps, (side, side), mode="bilinear")
        maps = maps + noise * maps.std() * torch.randn(maps.shape, generator=by_picture)
    return averaged(maps, MAP_SIZE)


def loud(maps: Tensor) -> Tensor:
    """The 1280 channels, a few of which are many times as large as the rest, as in transformers."""
    maps = maps[:, 320:].float()
    scale = torch.ones(1280)
    scale[::320] = 30
    return maps * scale[:, None, None] + 5 * scale[:, None, None]


SHAPES = {
    "7x7x1600, 320 compared (the default)": Shape(lambda maps: maps.float(), 320),
    "7x7x320": Shape(lambda maps: maps[:, :320].float()),
    "7x7x1280": Shape(lambda maps: maps[:, 320:].float()),
    "7x7x384, mixed": Shape(lambda maps: mixed(maps, 384)),
    "7x7x1024, mixed and bent": Shape(lambda maps: mixed(maps, 1024, bend=True)),
    "7x7x1280, four channels loud": Shape(loud),
    "14x14x384, mixed, noise": Shape(lambda maps: mixed(maps, 384, 14, 0.5)),
    "14x14x768, mixed, noise": Shape(lambda maps: mixed(maps, 768, 14, 1.0)),
    "37x37x768, mixed, noise": Shape(lambda maps: mixed(maps, 768, 37, 1.0)),
    "noise alone": Shape(lambda maps: torch.randn(len(maps), 384, 7, 7)),
}


def of_the_first(images: ImageSet, data: str) -> Tensor:
    """The stored maps of EfficientNet-Lite0 (n, 1600, 7, 7) of the pictures that were chosen."""
    every = photos(data)
    rows = [torch.from_numpy((every.labels == label).nonzero()[0][: int(count)])
            for label, count in enumerate(images.counts)]
    return every.maps[torch.cat(rows)]


@torch.inference_mode()
def main(sets: list[str], shots: list[int] = [1, 5], tasks: int = 30,  # noqa: B006 (what typer reads)
         out: Annotated[Path, typer.Option("-o", "--out")] = Path("networks")) -> None:
    """Write one table: shapes, sets, shots."""
    lines = [f"{WAYS} ways, {tasks} tasks. Each cell: accuracy; log of the best temperature over the law's;",
             "calibration error, starting from the law and from the spread of the scores.", "",
             "| maps | set | " + " | ".join(f"{each} shots" for each in shots) + " |",
             "|---" * (2 + len(shots)) + "|"]
    for data in sets:
        images = chosen(data)
        stored = of_the_first(images, data)
        order = torch.from_numpy(images.labels.argsort(kind="stable"))
        labels = images.labels[order]
        for name, shape in SHAPES.items():
            maps = Maps.of(torch.cat([shape.make(part).half() for part in stored.split(64)]), shape.compared)
            method = build_method("dmn4-linear", channels=maps.means.shape[1], centre="shots", compared=shape.compared)
            cells: list[tuple[Cell, Cell]] = []
            for each in shots:
                episodes = list(sample_episodes(labels, WAYS, each, 5, episodes=tasks, seed=each))
                method.temperature_law = method.law
                by_law = cell(method, maps, episodes)
                method.temperature_law = None
                cells.append((by_law, cell(method, maps, episodes)))
            lines.append(f"| {name} | {images.name} | " + " | ".join(
                f"{100 * by_law.right.mean():.1f}; {by_law.far:+.2f}; {by_law.error:.1f}, {by_spread.error:.1f}"
                for by_law, by_spread in cells) + " |")
            print(lines[-1], flush=True)
    write_file(out / "map-shapes.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    typer.run(main)
