"""The figures of the paper by name: what they need is trained, measured, drawn, and put on a page."""

import base64
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from ..data.cache import decoded
from ..data.folders import ImageSet
from ..episodes.maps import MapStore, embed_all, pictures
from ..episodes.sampling import Episode, sample_episodes
from ..errors import InputError
from ..evaluation.contenders import Contender, load_trained
from ..evaluation.evaluate import Protocol
from ..evaluation.intervals import accuracy_of
from ..evidence.draw.fields import Task, draw_receptive, field_maps
from ..evidence.explain import explain_maps
from ..files import write_file
from ..methods import build_method
from ..methods.base import DescriptorMethod
from ..recipes import parse_options
from ..templates import render
from .curves import draw_clouds, draw_clutter_curves, draw_densities, draw_shares
from .numbers import clutter_accuracies, sample_tau, true_shares, tsne_clouds
from .plans import plan_for
from .sheets import DATA
from .workshop import Entry, Workshop

COMPARED = ("dn4", "odm", "mn4", "dmn4")
SPENT = {"tiny": 100, "cpu": 1_000, "paper": 10_000}          # episodes
SAMPLED = {"tiny": 5_000, "cpu": 50_000, "paper": 50_000}     # descriptors in a density; the paper: 50,000
CLUTTER = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
NAMES = {"miniimagenet": "miniImageNet", "cub": "CUB-200-2011", "drawn": "drawn objects"}
Drawn = tuple[str, list[str]]                                 # title of a page, and what it says below the picture


def contender(workshop: Workshop, data: str, method: str, backbone: str = "conv4") -> Contender:
    """A method with the weights that were given for the data, or with those that a budget affords for it."""
    if workshop.given:
        return load_trained(workshop.given[f"{data}/{backbone}"], backbone).with_method(method)
    return load_trained(str(workshop.weights(plan_for(workshop.budget, data, method, 1, backbone)))).with_method(method)


def embedded(workshop: Workshop, data: str, trained: Contender, each: int = 0) -> tuple[ImageSet, MapStore]:
    """The test pictures of a data set, the first `each` of every class or all, and their maps."""
    images = decoded(workshop.open(data, "test").first_of_each_class(each), trained.transform.stored_size)
    return images, embed_all(trained.backbone, images, trained.transform)


def available(workshop: Workshop, *names: str) -> list[str]:
    """The data sets of these that are at hand; at the smallest budget, if there are none, the drawn pictures."""
    at_hand = [name for name in names if name in workshop.data and (not workshop.given or backbones(workshop, name))]
    if not at_hand and workshop.budget != "tiny":
        raise InputError("this figure needs " + " or ".join(f"{DATA[name]}: --data {name}=FOLDER" for name in names))
    return at_hand or ["drawn"]


def backbones(workshop: Workshop, data: str) -> list[str]:
    """A shallow and a deep network, or those whose weights were given."""
    given = (key.split("/") for key in workshop.given)
    return [name for owner, name in given if owner == data] if workshop.given else ["conv4", "resnet12"]


def descriptor_method(name: str) -> DescriptorMethod:
    """A method, of which only its choice of descriptors is wanted."""
    kind, _, options = name.partition(":")
    method = build_method(kind, **parse_options(options))
    assert isinstance(method, DescriptorMethod)
    return method


def tasks_of(images: ImageSet, queries: int, episodes: int) -> Iterator[Episode]:
    """One-shot tasks of five classes."""
    return sample_episodes(images.labels, 5, 1, queries, episodes=episodes)


# ------------------------------------------------------------------------------------------------------------ figures

def tsne(workshop: Workshop, picture: Path) -> Drawn:
    """All descriptors of a task, and those that MN4 keeps, in the plane."""
    data = available(workshop, "miniimagenet", "cub")[0]
    images, maps = embedded(workshop, data, contender(workshop, data, "mn4"))
    episode = next(tasks_of(images, 3, 1))
    everything, kept = tsne_clouds(maps, episode, descriptor_method("mn4"))
    draw_clouds({"all, q": everything, "kept, q*": kept}, [images.classes[label] for label in episode.classes], picture)
    return "t-SNE of all descriptors and of those that MN4 keeps (Conv-4)", [
        f"{len(kept.points):,} of {len(everything.points):,} descriptors of 15 pictures are kept",
        f"of a descriptor's ten nearest neighbours in other pictures {everything.purity:.1%} are of its class among "
        f"all, {kept.purity:.1%} among the kept ones (chance: 14 %)"]


def kde(workshop: Workshop, picture: Path) -> Drawn:
    """Density of tau for DN4, MN4 and DMN4, each with its own weights; with given ones for relaxed MN4 as well.

    Relaxed MN4 keeps as many descriptors as DMN4, so that the two can be compared rival by rival.
    """
    data = available(workshop, "miniimagenet", "cub")[0]
    names = ("dn4", "mn4", "dmn4", *["mn4:rule=mnn-relaxed"] * bool(workshop.given))
    panels: dict[str, dict[str, torch.Tensor]] = {}
    count = SAMPLED[workshop.budget]
    for backbone in backbones(workshop, data):
        panels[backbone] = {}
        for group in [names] if workshop.given else [(name,) for name in names]:
            trained = contender(workshop, data, group[0], backbone)
            images, maps = embedded(workshop, data, trained, 100)
            methods = {name: descriptor_method(name) for name in group}
            panels[backbone] |= sample_tau(maps, tasks_of(images, 15, 10_000), methods, count)
    draw_densities(panels, picture)
    means = [f"{backbone}, mean of tau: " + ", ".join(f"{name} {float(tau.mean()):.4f}" for name, tau in taus.items())
             for backbone, taus in panels.items()]
    return f"Density of tau over {count:,} query descriptors of {NAMES[data]}", means


def nearest_to_truth(workshop: Workshop, picture: Path) -> Drawn:
    """Which share of the kept descriptors is nearest to the true class (the supplement: "vast majority")."""
    columns = {}
    for data in available(workshop, "miniimagenet", "cub"):
        images, maps = embedded(workshop, data, contender(workshop, data, "dmn4"))
        methods = {name: descriptor_method(name) for name in COMPARED}
        shares = true_shares(maps, tasks_of(images, 15, SPENT[workshop.budget]), methods)
        columns[NAMES[data]] = {name: accuracy_of(values[None]) for name, values in shares.items()}
    draw_shares(columns, 5, picture)
    return "Kept descriptors that are nearest to the true class, 5-way 1-shot (Conv-4)", [
        f"{data}: " + ", ".join(f"{name} {accuracy} %" for name, accuracy in accuracies.items())
        for data, accuracies in columns.items()]


def clutter(workshop: Workshop, picture: Path) -> Drawn:
    """Accuracy against the share of clutter, on drawn objects none of which was seen in training."""
    weights = load_trained(str(workshop.weights(plan_for("tiny", "drawn", "dmn4"))))
    contenders = {name: weights.with_method(name) for name in (*COMPARED, "protonet")}
    protocol = Protocol(episodes=SPENT[workshop.budget])
    measured = clutter_accuracies(contenders, CLUTTER, protocol, weights.transform.size, shown=workshop.shown)
    accuracies = {share: {name: results.accuracy(name) for name in contenders} for share, results in measured.items()}
    draw_clutter_curves(accuracies, picture)
    return "Accuracy against clutter, drawn objects, 5-way 1-shot (Conv-4, a quarter as wide, 32-pixel images)", [
        f"clutter {share:.0%}: " + ", ".join(f"{name} {accuracy} %" for name, accuracy in each.items())
        for share, each in accuracies.items()]


def receptive_field(workshop: Workshop, picture: Path) -> Drawn:
    """What the kept descriptors see, and what their partners see, in two tasks of each data set."""
    panes = {}
    for data in available(workshop, "miniimagenet", "cub"):
        trained = contender(workshop, data, "mn4")
        images = decoded(workshop.open(data, "test"), trained.transform.stored_size)
        panes[NAMES[data]] = [receptive_task(trained, images, task) for task in tasks_of(images, 1, 2)]
    draw_receptive(panes, picture)
    return "Receptive fields of what MN4 keeps (Conv-4); the true class is framed", []


def receptive_task(trained: Contender, images: ImageSet, episode: Episode) -> Task:
    """One query of a one-shot task, with the heat maps of what was kept."""
    chosen = episode.number % len(episode.query)
    support, query = (trained.transform(pictures(images, rows)) for rows in (episode.support, episode.query[[chosen]]))
    with torch.no_grad():
        maps, query_map = trained.backbone(support), trained.backbone(query)[0]
    why = explain_maps(trained.method, maps, episode.support_labels, query_map, name="mn4")
    return Task(np.array(images.pixels[int(episode.query[chosen])]),
                [np.array(images.pixels[row]) for row in episode.support.tolist()],
                [images.classes[label] for label in episode.classes], int(episode.query_labels[chosen]),
                **field_maps(trained.backbone, support, query[0], why))


# -------------------------------------------------------------------------------------------------------------- pages

def figure(about: str, draw: Callable[[Workshop, Path], Drawn]) -> Entry:
    """The entry of a figure; `draw` writes the picture and says what is on it."""
    return Entry(about, partial(write_figure, draw))


def write_figure(draw: Callable[[Workshop, Path], Drawn], workshop: Workshop, name: str) -> Path:
    """Draw a figure and write its page, as Markdown and as HTML with the picture inside; returns the Markdown file."""
    path = workshop.out / f"{name}-{workshop.budget}.md"
    picture = path.with_suffix(".png")
    title, lines = draw(workshop, picture)
    spent = ", ".join(f"{name}: {weights}" for name, weights in workshop.given.items())
    notes = [*lines, f"weights: {spent}" if spent else f"budget: {workshop.budget}"]
    notes += [] if workshop.data else ["drawn objects, not photographs"]
    text = [f"# {title}", "", f"![{title}]({picture.name})", "", *(f"- {note}" for note in notes), ""]
    write_file(path, "\n".join(text))
    inside = f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"
    write_file(path.with_suffix(".html"), render("measured.html", title=title, picture=inside, grid=[], notes=notes))
    return path


FIGURES: Mapping[str, Entry] = {
    "tsne": figure("all descriptors of a task and the kept ones in the plane (t-SNE)", tsne),
    "kde": figure("density of tau for DN4, MN4 and DMN4", kde),
    "nearest-to-truth": figure("share of kept descriptors nearest to the true class", nearest_to_truth),
    "clutter": figure("accuracy against the share of clutter, drawn objects", clutter),
    "receptive-field": figure("what the kept descriptors and their partners see (supplement)", receptive_field),
}
