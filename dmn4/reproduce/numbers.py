"""The paper's figures as numbers: tau of what is kept, how much of it points to the true class, t-SNE (Sec. 4.4.2)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from sklearn.manifold import TSNE
from torch import Tensor

from ..data.samples import draw_clutter
from ..episodes.maps import MapStore
from ..episodes.sampling import Episode
from ..errors import InputError
from ..evaluation.contenders import Contender
from ..evaluation.evaluate import Protocol, Results, evaluate
from ..methods.base import DescriptorMethod
from ..methods.descriptors import describe, pool_support
from ..methods.neighbors import Matches, relative_closeness, search

DescriptorMethods = Mapping[str, DescriptorMethod]


@torch.no_grad()
def match_episode(maps: MapStore, episode: Episode) -> Matches:
    """All queries of an episode matched with all its shots, so that every method can be read off."""
    pool = pool_support(maps[episode.support], episode.support_labels)
    return search(describe(maps[episode.query]), pool)


def sample_tau(maps: MapStore, episodes: Iterable[Episode], methods: DescriptorMethods, count: int = 50_000,
               seed: int = 0) -> dict[str, Tensor]:
    """tau of `count` query descriptors that each method keeps, from as many episodes as that takes: (count,) each."""
    taus: dict[str, list[Tensor]] = {name: [] for name in methods}
    for episode in episodes:
        matches = match_episode(maps, episode)
        tau = relative_closeness(matches.class_best)                                             # (Q, M)
        for name, method in methods.items():
            taus[name].append(tau[method.keep(matches)])
        if all(sum(map(len, parts)) >= count for parts in taus.values()):
            break
    else:
        fewest = min((sum(map(len, parts)) for parts in taus.values()), default=0)
        raise InputError(f"the episodes hold {fewest} kept descriptors; {count} were asked for: give more episodes")
    generator = torch.Generator().manual_seed(seed)
    return {name: pick(torch.cat(parts), count, generator) for name, parts in taus.items()}


def pick(values: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Some of the values, none twice: (n,) -> (count,)."""
    return values[torch.randperm(len(values), generator=generator)[:count]]


def true_shares(maps: MapStore, episodes: Iterable[Episode], methods: DescriptorMethods) -> dict[str, np.ndarray]:
    """Which share of what a method keeps is nearest to the true class, episode by episode: (episodes,) each."""
    shares: dict[str, list[float]] = {name: [] for name in methods}
    for episode in episodes:
        matches = match_episode(maps, episode)
        hits = matches.winner == episode.query_labels[:, None]                                   # (Q, M)
        for name, method in methods.items():
            shares[name].append(float(hits[method.keep(matches)].float().mean()))
    return {name: np.array(values) for name, values in shares.items()}


class Cloud(NamedTuple):
    """Descriptors of a task in the plane, with the class of the picture each one came from."""

    points: np.ndarray       # (n, 2)
    labels: np.ndarray       # (n,)
    purity: float            # share of nearest neighbours that are of the same class


def tsne_clouds(maps: MapStore, episode: Episode, method: DescriptorMethod, seed: int = 0) -> tuple[Cloud, Cloud]:
    """All query descriptors of a task, and those that a method keeps, each laid out by t-SNE on its own."""
    matches, query = match_episode(maps, episode), describe(maps[episode.query])                 # (Q, M, C)
    image = torch.arange(len(query))[:, None].expand(query.shape[:2])                            # (Q, M)
    kept = method.keep(matches)
    return (cloud(query.flatten(0, 1), image.flatten(), episode.query_labels, seed),
            cloud(query[kept], image[kept], episode.query_labels, seed))


def cloud(descriptors: Tensor, image: Tensor, labels: Tensor, seed: int = 0) -> Cloud:
    """Unit descriptors (n, C) of pictures (n,) with labels (Q,), laid out by t-SNE."""
    layout = TSNE(init="pca", perplexity=min(30, (len(descriptors) - 1) / 3), random_state=seed)
    return Cloud(layout.fit_transform(descriptors.numpy()), labels[image].numpy(), purity(descriptors, image, labels))


def purity(descriptors: Tensor, image: Tensor, labels: Tensor, neighbours: int = 10) -> float:
    """Which share of the nearest neighbours of each descriptor, all from other pictures, are of its class.

    (n, C) unit vectors, (n,) their pictures, (Q,) labels. Neighbours in the same picture overlap it: they say nothing.
    """
    cosines = (descriptors @ descriptors.T).masked_fill(image[:, None] == image, -torch.inf)     # (n, n)
    nearest, places = cosines.topk(min(neighbours, len(cosines)), dim=1)                         # (n, neighbours)
    comparable = nearest.isfinite()
    return float((labels[image[places]] == labels[image][:, None])[comparable].float().mean())


def clutter_accuracies(contenders: Mapping[str, Contender], shares: Iterable[float], protocol: Protocol,
                       size: int = 84, classes: int = 20, seed: int = 1, shown: bool = True) -> dict[float, Results]:
    """Accuracies on drawn objects, by the share of the picture that is clutter."""
    each = protocol.shots + protocol.queries
    return {share: evaluate(draw_clutter(classes, 2 * each, share, size, seed), contenders, protocol, shown=shown)
            for share in shares}
