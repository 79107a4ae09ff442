"""A method on episodes over stored maps: what evaluation does many times, and training now and then."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from ..data.folders import ImageSet
from ..images import Transform
from ..images.looks import view
from ..methods.base import Method
from ..seeds import generator
from .maps import IN_MEMORY, MapStore, embed_all
from .sampling import Episode


def embed_views(backbone: nn.Module, images: ImageSet, transform: Transform, kinds: Sequence[str] = (), *,
                in_memory: float = IN_MEMORY, seen: Callable[[int], None] = lambda count: None,
                stored: MapStore | None = None) -> list[MapStore]:
    """The maps of all images, `stored` if they are there, and of one extra picture of each for every kind of view."""
    looks: list[Callable[[Tensor], Tensor]] = [
        transform, *(partial(view(transform, kind), generator=generator(0, 4, place))
                     for place, kind in enumerate(kinds))]
    if stored is not None:
        seen(len(images))
    return [embed_all(backbone, images, look, in_memory=in_memory, seen=seen) if stored is None or place else stored
            for place, look in enumerate(looks)]


def score_stored(method: Method, stores: Sequence[MapStore], episodes: Sequence[Episode], looks: int = 1) -> Tensor:
    """Scores of a method over stored maps, those of its extra views behind the first: -> (E, Q, N).

    The episodes share their labels. The first `looks` stores are different looks at the same pictures: the scores of a
    query in each of them are added.
    """
    support = torch.stack([episode.support for episode in episodes])
    query = torch.stack([episode.query for episode in episodes])
    labels, maps = episodes[0].support_labels.repeat(len(stores)), side_by_side([store[support] for store in stores], 1)
    unlabelled = {}
    if len(episodes[0].unlabelled) and method.takes_unlabelled:
        unlabelled = {"unlabelled": stores[0][torch.stack([episode.unlabelled for episode in episodes])]}
    scores = [method.score_many(maps, labels, store[query], **unlabelled) for store in stores[:looks]]
    return scores[0] if looks == 1 else torch.stack(scores).sum(0)


def right_shares(scores: Mapping[str, Tensor], episodes: Sequence[Episode]) -> dict[str, Tensor]:
    """The share of the queries of each episode that a method classifies correctly: name: (E, Q, N) -> name: (E,)."""
    truth = torch.stack([episode.query_labels for episode in episodes])                  # (E, Q)
    return {name: (score.argmax(2) == truth).float().mean(1) for name, score in scores.items()}


def side_by_side(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Maps one after another; a single part as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)
