"""How good a network is while it trains: accuracy on the same episodes of `val` each time."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import nn

from ..data.folders import ImageSet
from ..episodes.maps import MapStore
from ..episodes.sampling import Episode, sample_episodes, split_labelled
from ..episodes.scoring import embed_views, right_shares, score_stored
from ..methods import build_method
from ..methods.base import Method
from ..recipes import Recipe, Training, parse_options
from .setup import transforms


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
        stores = embed_views(backbone, self.images, self.transform, method.views_at(self.shots))
        return correct_share(method, stores, self.episodes)
