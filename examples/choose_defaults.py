"""Which layer and method FewShotClassifier should use by default: measured on photographs, paired.

    python examples/choose_defaults.py layers fruit            # the demo's photographs
    python examples/choose_defaults.py centre fruit            # descriptors measured from the mean of the labelled ones

Every picture passes the network once, with its mirror image and four random windows; the maps of three layers are kept
in the cache folder, so a second run starts at the episodes.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
import typer
from safetensors.torch import load_file, save_file
from torch import Tensor

from dmn4.backbones import build_backbone
from dmn4.backbones.base import Backbone
from dmn4.backbones.efficientnet import LITE0
from dmn4.data.cache import cache_folder, decoded
from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.samples import fruit
from dmn4.episodes.sampling import sample_episodes
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_file
from dmn4.images import Transform
from dmn4.memory import keep_freed_memory
from dmn4.methods import build_method
from dmn4.methods.base import DescriptorMethod, Method
from dmn4.methods.together import score_together
from dmn4.recipes import parse_options
from dmn4.training.runs import progress

KEPT = ("14x14x112", "7x7x192", "7x7x320")                     # layers whose maps are stored; "joined" follows from two
WINDOWS = ("crop0", "crop1", "crop2", "crop3")
LAYERS_TRIED = (*KEPT, "joined")
TRIED = ("dmn4", "dmn4:vote=log-odds", "mn4", "dn4", "odm", "protonet", "meta-baseline", "rfs", "metaoptnet-rr")
CENTRED = ("dmn4:centre=shots", "dmn4", "dmn4:vote=log-odds,centre=shots", "dmn4:vote=log-odds", "dn4:centre=shots",
           "dn4", "mn4:centre=shots", "mn4", "odm:centre=shots", "odm")
SHOTS = (1, 2, 5, 10)
LAYER = "7x7x320"
QUERIES = 6


def chosen_pictures(data: str, per_class: int) -> ImageSet:
    """The first `per_class` pictures of every class, decoded at 224 x 224."""
    images = fruit() if data == "fruit" else read_folder(data)
    return decoded(images.first_of_each_class(per_class), 224)


def looks(transform: Transform) -> dict[str, Callable[[Tensor], Tensor]]:
    """The picture itself, its mirror image and random windows of it, as the network takes them."""
    window = Transform(224, crop="resized", flip=True, mean=transform.mean, std=transform.std)
    drawn = {name: partial(window, generator=torch.Generator().manual_seed(place))
             for place, name in enumerate(WINDOWS)}
    return {"plain": transform, "flip": lambda batch: transform(batch).flip(-1), **drawn}


def stored_maps(images: ImageSet, wanted: tuple[str, ...] = ("plain", "flip", *WINDOWS)) -> dict[str, Tensor]:
    """Maps "look/layer" (n, C, H, W) of every picture, from the cache folder or embedded now; views in float16."""
    key = hashlib.blake2b(f"{images.fingerprint}{len(images)}".encode(), digest_size=8).hexdigest()
    backbone = build_backbone("efficientnet_lite0", "imagenet", layer=KEPT[-1]).eval()
    found: dict[str, Tensor] = {}
    for name, view in looks(Transform(224, mean=backbone.mean, std=backbone.std)).items():
        path = cache_folder() / "defaults" / key / f"{name}.safetensors"
        if name in wanted and not path.is_file():
            maps = embedded(backbone, images, view, f"embed, {name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file({layer: one if name == "plain" else one.half() for layer, one in maps.items()}, path)
        found |= {f"{name}/{layer}": one for layer, one in load_file(path).items()} if name in wanted else {}
    return found


@torch.inference_mode()
def embedded(backbone: Backbone, images: ImageSet, view: Callable[[Tensor], Tensor], says: str) -> dict[str, Tensor]:
    """The maps of the KEPT layers of every picture, from one pass: layer -> (n, C, H, W)."""
    keep_freed_memory()
    parts: dict[str, list[Tensor]] = {layer: [] for layer in KEPT}
    with progress(says, len(images)) as bar:
        for start in range(0, len(images), 32):
            pixels = torch.from_numpy(np.array(images.pixels[start : start + 32]))
            maps, depth = view(pixels).contiguous(memory_format=torch.channels_last), 0
            for layer in KEPT:
                maps, depth = backbone.layers[depth : LITE0.layers[layer]](maps), LITE0.layers[layer]
                parts[layer].append(maps.contiguous())
            bar.advance_by(len(pixels))
    return {layer: torch.cat(maps) for layer, maps in parts.items()}


def layer_maps(maps: dict[str, Tensor], name: str, layer: str) -> Tensor:
    """The maps of a look at a layer, "joined" among them: (n, C, H, W)."""
    if layer != "joined":
        return maps[f"{name}/{layer}"].float()
    fine, coarse = maps[f"{name}/14x14x112"].float(), maps[f"{name}/7x7x320"].float()
    coarse = F.interpolate(coarse, size=fine.shape[2:], mode="bilinear")
    return torch.cat([F.normalize(fine), F.normalize(coarse)], dim=1)


# ----------------------------------------------------------------------------------------------- which layer and method

@torch.inference_mode()
def play(plain: Tensor, windows: list[Tensor], labels: np.ndarray, shots: int, episodes: int,
         methods: dict[str, Method]) -> dict[str, np.ndarray]:
    """The accuracy of every method on the same 5-way episodes: name -> (episodes,)."""
    rules = {name: method for name, method in methods.items() if isinstance(method, DescriptorMethod)}
    values: dict[str, list[float]] = {name: [] for name in methods}
    for episode in sample_episodes(labels, 5, shots, QUERIES, episodes=episodes, seed=shots):
        support, query = plain[episode.support], plain[episode.query]
        scores = score_together(support, episode.support_labels, query, rules)
        for name in methods.keys() - rules.keys():
            extra = windows if methods[name].views else []
            rows = torch.cat([support, *(window[episode.support] for window in extra)])
            scores[name] = methods[name](rows, episode.support_labels.repeat(1 + len(extra)), query)
        for name, score in scores.items():
            values[name].append(float((score.argmax(1) == episode.query_labels).float().mean()))
    return {name: np.array(each) for name, each in values.items()}


def written_method(text: str, channels: int) -> Method:
    """The method written as "name:option=value,..."."""
    name, _, options = text.partition(":")
    return build_method(name, channels=channels, **parse_options(options))


def accuracies(maps: dict[str, Tensor], labels: np.ndarray, episodes: int, layers: tuple[str, ...] = LAYERS_TRIED,
               tried: tuple[str, ...] = TRIED) -> dict[str, dict[int, np.ndarray]]:
    """Accuracies "method, layer" -> shots -> (episodes,), the same episodes for all."""
    values_of: dict[str, dict[int, np.ndarray]] = {}
    with progress("episodes", len(layers) * len(SHOTS)) as bar:
        for layer in layers:
            plain = layer_maps(maps, "plain", layer)
            windows = [layer_maps(maps, name, layer) for name in WINDOWS if f"{name}/{LAYER}" in maps]
            methods = {text: written_method(text, plain.shape[1]) for text in tried}
            for shots in SHOTS:
                for text, values in play(plain, windows, labels, shots, episodes, methods).items():
                    values_of.setdefault(f"{text}, {layer}", {})[shots] = values
                bar.advance(layer)
    return values_of


def accuracy_table(found: dict[str, dict[int, np.ndarray]], reference: str) -> list[str]:
    """The accuracies as a Markdown table, each with its paired difference from the reference."""
    lines = ["| method | layer | " + " | ".join(f"{shots} shot{'s' * (shots > 1)}" for shots in SHOTS) + " |",
             "|---|---|" + "---|" * len(SHOTS)]
    for name, values in sorted(found.items(), key=lambda item: -np.mean([each.mean() for each in item[1].values()])):
        cells = [f"{accuracy_of(values[shots][None])} ({paired_difference(values[shots], found[reference][shots])})"
                 if name != reference else f"**{accuracy_of(values[shots][None])}**" for shots in SHOTS]
        lines.append(f"| {name.replace(', ', ' | ')} | " + " | ".join(cells) + " |")
    return lines


# -------------------------------------------------------------------------------------------------------- the commands

app = typer.Typer(help=__doc__)
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")]


@app.command()
def layers(data: str, out: Out = Path("defaults"), per_class: int = 30, episodes: int = 200) -> None:
    """Every method on every layer, with paired differences from the default."""
    images = chosen_pictures(data, per_class)
    played = accuracies(stored_maps(images), images.labels, episodes)
    report(out / f"{images.name}-layers.md", images, episodes, accuracy_table(played, f"dmn4, {LAYER}"))


@app.command()
def centre(data: str, out: Out = Path("defaults"), per_class: int = 30, episodes: int = 200) -> None:
    """Descriptors measured from the mean of the labelled ones beside those measured from zero."""
    images = chosen_pictures(data, per_class)
    played = accuracies(stored_maps(images, ("plain",)), images.labels, episodes, (LAYER,), CENTRED)
    report(out / f"{images.name}-centre.md", images, episodes, accuracy_table(played, f"{CENTRED[0]}, {LAYER}"))


def report(path: Path, images: ImageSet, episodes: int, table: list[str]) -> None:
    """Write a table with what it was measured on, and show it."""
    about = (f"{images.name}: {len(images)} pictures of {len(images.classes)} classes, {images.fingerprint}; "
             f"{episodes} episodes of 5 ways, {QUERIES} queries a class; mean and 95 % interval, in %.")
    write_file(path, "\n".join([about, "", *table, ""]))
    typer.echo(path.read_text())


if __name__ == "__main__":
    app()
