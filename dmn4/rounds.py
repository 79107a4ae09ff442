"""The episodes of a training step: which images are embedded together, and who plays what over them."""

from collections.abc import Iterator
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .data.folders import ImageSet
from .episodes import Episode, no_reuse_epoch, sample_episodes, split_labelled
from .errors import InputError, choose
from .images import Transform
from .maps import pictures, view
from .recipes import Training
from .seeds import generator, mixed_seed


class Places(NamedTuple):
    """One episode as places in a batch of images."""

    support: Tensor         # (n,)
    labels: Tensor          # (n,)
    query: Tensor           # (Q,)
    true: Tensor            # (Q,)
    unlabelled: Tensor      # (U,)


class Round(NamedTuple):
    """Images that are embedded together, as rows of the data set, and the episodes that are played over them."""

    number: int             # place of the round in the step
    rows: Tensor            # (B,)
    episodes: list[Places]
    support: int            # how many of the rows may be support images: the first ones


def rounds(labels: np.ndarray, recipe: Training, step: int, rank: int = 0, world: int = 1) -> list[Round]:
    """What process `rank` of `world` does in a step. The step depends on (seed, step) alone, not on `world`.

    An ordinary episode is embedded by itself, so that its batch statistics are its own. With `batch_classes` all
    episodes of the step are played over one batch of embeddings, which every process makes for itself.
    """
    if choose("reuse", recipe.reuse, ("yes", "no")) == "no":
        drawn = without_reuse(labels, recipe, step, rank, world)
        return [alone(one, rank + place * world) for place, one in enumerate(drawn)]
    if recipe.batch_classes and (recipe.unlabelled or recipe.labelled < 1):
        raise InputError("a batch that many episodes share has no unlabelled images: set batch_classes=0")
    if recipe.batch_classes:
        batch = next(sample_episodes(labels, recipe.batch_classes, 1, recipe.batch_images - 1, episodes=1,
                                     seed=recipe.seed, start=step))
        rows, owner = torch.cat([batch.support, batch.query]), torch.cat([batch.support_labels, batch.query_labels])
        drawn = sample_episodes(owner, recipe.ways, recipe.shots, recipe.queries, episodes=recipe.step_episodes,
                                seed=mixed_seed(recipe.seed, 5, step))
        return [Round(0, rows, [places(one) for one in drawn][rank::world], len(rows))]
    labelled = split_labelled(labels, recipe.labelled, recipe.seed) if recipe.labelled < 1 else None
    drawn = sample_episodes(labels, recipe.ways, recipe.shots, recipe.queries, episodes=recipe.step_episodes // world,
                            seed=recipe.seed, start=step * recipe.step_episodes + rank, step=world,
                            unlabelled=recipe.unlabelled, distractors=recipe.distractors, labelled=labelled)
    return [alone(one, rank + place * world) for place, one in enumerate(drawn)]


def without_reuse(labels: np.ndarray, recipe: Training, step: int, rank: int, world: int) -> Iterator[Episode]:
    """The episodes of a step if no image comes twice in an epoch; an epoch that runs dry shuffles anew."""
    if recipe.batch_classes or recipe.unlabelled or recipe.labelled < 1:
        raise InputError("episodes without reuse share no batch and have no unlabelled images: set reuse=yes, "
                         "or batch_classes=0, unlabelled=0, labelled=1")
    epoch, place = divmod(step, max(1, recipe.episodes // recipe.step_episodes))
    passes = (no_reuse_epoch(labels, recipe.ways, recipe.shots, recipe.queries, seed=recipe.seed,
                             epoch=mixed_seed(6, epoch, number)) for number in count())
    return islice(chain.from_iterable(passes), place * recipe.step_episodes + rank, (place + 1) * recipe.step_episodes,
                  world)


def alone(episode: Episode, number: int) -> Round:
    """A round of one episode, embedded by itself."""
    return Round(number, torch.cat([episode.support, episode.query, episode.unlabelled]), [as_first(episode)],
                 len(episode.support))


def places(episode: Episode) -> Places:
    """An episode whose pictures already are places in a batch."""
    return Places(episode.support, episode.support_labels, episode.query, episode.query_labels, episode.unlabelled)


def as_first(episode: Episode) -> Places:
    """An episode whose pictures are a batch of their own: support, query, unlabelled, in this order."""
    sizes = [len(episode.support), len(episode.query), len(episode.unlabelled)]
    support, query, unlabelled = torch.arange(sum(sizes)).split(sizes)
    return Places(support, episode.support_labels, query, episode.query_labels, unlabelled)


def prepare(one: Round, images: ImageSet, transform: Transform, kinds: tuple[str, ...],
            *place: int) -> tuple[Tensor, list[Places]]:
    """The images of a round, with the extra views of its support, and its episodes: (B, 3, h, w), places."""
    stored = pictures(images, one.rows)
    inputs = [transform(stored, generator(*place, one.number))]
    inputs += [view(transform, kind)(stored[: one.support], generator(*place, one.number, number))
               for number, kind in enumerate(kinds)]
    return (torch.cat(inputs).contiguous(memory_format=torch.channels_last),
            [with_views(episode, len(one.rows), one.support, len(kinds)) for episode in one.episodes])


def with_views(episode: Places, images: int, support: int, kinds: int) -> Places:
    """The episode with every support image followed, at the end, by its views; these lie behind the batch."""
    more = [episode.support + images + number * support for number in range(kinds)]
    return episode._replace(support=torch.cat([episode.support, *more]), labels=episode.labels.repeat(1 + kinds))
