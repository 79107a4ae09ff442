"""A method on episodes over stored maps: what evaluation does many times, and training now and then."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from .data.folders import ImageSet
from .episodes import Episode, sample_episodes, split_labelled
from .images import Transform
from .maps import IN_MEMORY, MapStore, embed_all, view, views
from .methods import build_method
from .methods.base import Method
from .recipes import Recipe, Training, parse_options
from .seeds import generator
from .stages import transforms


def embed_views(backbone: nn.Module, images: ImageSet, transform: Transform, kinds: Sequence[str] = (), *,
                in_memory: float = IN_MEMORY, seen: Callable[[int], None] = lambda count: None) -> list[MapStore]:
    """The maps of all images, and those of one extra picture of each image for every kind of view."""
    looks: list[Callable[[Tensor], Tensor]] = [
        transform, *(partial(view(transform, kind), generator=generator(0, 4, place))
                     for place, kind in enumerate(kinds))]
    return [embed_all(backbone, images, look, in_memory=in_memory, seen=seen) for look in looks]


def score_stored(method: Method, stores: Sequence[MapStore], episodes: Sequence[Episode], looks: int = 1) -> Tensor:
    """Scores of a method over stored maps, those of its extra views behind the first: -> (E, Q, N).

    The episodes share their labels. The first `looks` stores are different looks at the same pictures: the scores of a
    query in each of them are added.
    """
    support, query = torch.stack([one.support for one in episodes]), torch.stack([one.query for one in episodes])
    labels, maps = episodes[0].support_labels.repeat(len(stores)), side_by_side([store[support] for store in stores], 1)
    unlabelled = {}
    if len(episodes[0].unlabelled) and "unlabelled" in inspect.signature(method.forward).parameters:
        unlabelled = {"unlabelled": stores[0][torch.stack([one.unlabelled for one in episodes])]}
    scores = [method.score_many(maps, labels, store[query], **unlabelled) for store in stores[:looks]]
    return scores[0] if looks == 1 else torch.stack(scores).sum(0)


def right_shares(scores: Mapping[str, Tensor], episodes: Sequence[Episode]) -> dict[str, Tensor]:
    """The share of the queries of each episode that a method classifies correctly: name: (E, Q, N) -> name: (E,)."""
    truth = torch.stack([one.query_labels for one in episodes])                          # (E, Q)
    return {name: (score.argmax(2) == truth).float().mean(1) for name, score in scores.items()}


def side_by_side(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Maps one after another; a single part as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


@torch.no_grad()
def correct_share(method: Method, stores: Sequence[MapStore], episodes: Iterable[Episode]) -> float:
    """Share of query images classified correctly over all episodes."""
    was_training = method.training
    method.eval()
    hits = [right_shares({"": score_stored(method, stores, [episode])}, [episode])[""] for episode in episodes]
    method.train(was_training)
    return float(torch.cat(hits).mean())


def sample_validation(labels: np.ndarray, recipe: Recipe) -> Iterator[Episode]:
    """The validation episodes of a recipe: 15 queries of each class, or as many as the smallest class affords.

    A training with unlabelled images is measured with as many, from the part of each class that is not labelled.
    """
    extra, strange = (recipe.unlabelled, recipe.distractors) if isinstance(recipe, Training) else (0, 0)
    mask = (split_labelled(labels, recipe.labelled, recipe.seed) if isinstance(recipe, Training) and recipe.labelled < 1
            else None)
    known = labels if mask is None else labels[mask]
    fewest = np.unique(known, return_counts=True)[1].min() - recipe.validate_shots - (extra if mask is None else 0)
    ways = min(recipe.validate_ways, len(np.unique(known)) - strange)
    return sample_episodes(labels, ways, recipe.validate_shots, int(np.clip(fewest, 1, 15)),
                           episodes=recipe.validate_episodes, seed=recipe.seed, unlabelled=extra, distractors=strange,
                           labelled=mask)


class Validation:
    """Accuracy on the same episodes of `val` each time: a few images of every class, embedded anew."""

    def __init__(self, images: ImageSet, recipe: Recipe, channels: int) -> None:
        self.images, self.shots = images.first_of_each_class(recipe.validate_images), recipe.validate_shots
        self.transform = transforms(recipe)[1]
        self.method = build_method(recipe.validate, channels=channels, **parse_options(recipe.validate_options))
        self.episodes = list(sample_validation(self.images.labels, recipe))

    def __call__(self, backbone: nn.Module, method: Method | None = None) -> float:
        """Share of correct answers, with this method in place of the recipe's if one is given."""
        method = method or self.method
        stores = embed_views(backbone, self.images, self.transform, views(method, self.shots))
        return correct_share(method, stores, self.episodes)
