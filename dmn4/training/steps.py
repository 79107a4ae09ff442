"""The episodes of a training step: which images are embedded together, and who plays what over them."""

from collections.abc import Iterator
from itertools import chain, count, islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data.folders import ImageSet
from ..episodes.maps import pictures
from ..episodes.sampling import Episode, no_reuse_epoch, sample_episodes, split_labelled
from ..errors import InputError, choose
from ..images import Transform
from ..images.looks import view
from ..recipes import Training
from ..seeds import generator, mixed_seed


class EpisodeBatch(NamedTuple):
    """Images that are embedded together, and the episodes that are played over them: of rows of this batch."""

    number: int             # place of the batch in the step
    rows: Tensor            # (B,)  rows of the data set
    episodes: list[Episode]
    support: int            # how many of the rows may be support images: the first ones


def step_batches(labels: np.ndarray, recipe: Training, step: int, rank: int = 0, world: int = 1) -> list[EpisodeBatch]:
    """What process `rank` of `world` does in a step. The step depends on (seed, step) alone, not on `world`.

    An ordinary episode is embedded by itself, so that its batch statistics are its own. With `batch_classes` all
    episodes of the step are played over one batch of embeddings, which every process makes for itself; with
    `batch_support` as well, some of its images are support images in all of them, and the others query images.
    """
    if choose("reuse", recipe.reuse, ("yes", "no")) == "no":
        drawn = without_reuse(labels, recipe, step, rank, world)
        return [embedded_alone(episode, rank + place * world) for place, episode in enumerate(drawn)]
    if recipe.batch_classes and (recipe.unlabelled or recipe.labelled < 1):
        raise InputError("a batch that many episodes share has no unlabelled images: set batch_classes=0")
    if recipe.batch_support:
        return [searched_together(labels, recipe, step, rank, world)]
    if recipe.batch_classes:
        batch = next(sample_episodes(labels, recipe.batch_classes, 1, recipe.batch_images - 1, episodes=1,
                                     seed=recipe.seed, start=step))
        rows, owner = torch.cat([batch.support, batch.query]), torch.cat([batch.support_labels, batch.query_labels])
        drawn = sample_episodes(owner, recipe.ways, recipe.shots, recipe.queries, episodes=recipe.step_episodes,
                                seed=mixed_seed(recipe.seed, 5, step))
        return [EpisodeBatch(0, rows, list(drawn)[rank::world], len(rows))]
    labelled = split_labelled(labels, recipe.labelled, recipe.seed) if recipe.labelled < 1 else None
    drawn = sample_episodes(labels, recipe.ways, recipe.shots, recipe.queries, episodes=recipe.step_episodes // world,
                            seed=recipe.seed, start=step * recipe.step_episodes + rank, step=world,
                            unlabelled=recipe.unlabelled, distractors=recipe.distractors, labelled=labelled)
    return [embedded_alone(episode, rank + place * world) for place, episode in enumerate(drawn)]


def steps_in_epoch(images: int, recipe: Training) -> int:
    """The steps of an epoch over a data set of this many images, at least one."""
    of_each_class = recipe.shots + recipe.queries
    episodes = recipe.episodes or images // (recipe.ways * of_each_class)             # or: one pass over the images
    return max(1, episodes // recipe.step_episodes)


def searched_together(labels: np.ndarray, recipe: Training, step: int, rank: int, world: int) -> EpisodeBatch:
    """A batch in which the first images of each class are support images in every episode, so one search serves all."""
    sizes = {"support": (recipe.batch_support, recipe.shots),
             "query": (recipe.batch_images - recipe.batch_support, recipe.queries)}
    for kind, (room, needed) in sizes.items():
        if room < needed:
            raise InputError(f"a batch with {room} {kind} images of each class has no episodes with {needed}: "
                             "raise batch_images or batch_support, or lower shots or queries")
    if recipe.batch_classes < recipe.ways:
        raise InputError(f"batch_support shares a batch of {recipe.batch_classes} classes, fewer than the "
                         f"{recipe.ways} ways: raise batch_classes")
    held = next(sample_episodes(labels, recipe.batch_classes, recipe.batch_support, sizes["query"][0], episodes=1,
                                seed=recipe.seed, start=step))
    rng, count = np.random.default_rng([recipe.seed, 5, step]), len(held.support)
    drawn = [inside(rng, recipe, count) for _ in range(recipe.step_episodes)]
    return EpisodeBatch(0, torch.cat([held.support, held.query]), drawn[rank::world], count)


def inside(rng: np.random.Generator, recipe: Training, support: int) -> Episode:
    """An episode over a batch whose first `support` images, class-major, are support images."""
    classes = rng.permutation(recipe.batch_classes)[: recipe.ways]                        # (N,)

    def draw(room: int, count: int) -> tuple[Tensor, Tensor]:
        places = np.stack([label * room + rng.choice(room, count, replace=False) for label in classes])     # (N, count)
        return torch.from_numpy(places).flatten(), torch.arange(recipe.ways).repeat_interleave(count)

    shots, labels = draw(recipe.batch_support, recipe.shots)
    queries, query_labels = draw(recipe.batch_images - recipe.batch_support, recipe.queries)
    return Episode(shots, labels, support + queries, query_labels, tuple(classes.tolist()))


def without_reuse(labels: np.ndarray, recipe: Training, step: int, rank: int, world: int) -> Iterator[Episode]:
    """The episodes of a step if no image comes twice in an epoch; an epoch that runs dry shuffles anew."""
    if recipe.batch_classes or recipe.unlabelled or recipe.labelled < 1:
        raise InputError("episodes without reuse share no batch and have no unlabelled images: set reuse=yes, "
                         "or batch_classes=0, unlabelled=0, labelled=1")
    epoch, place = divmod(step, steps_in_epoch(len(labels), recipe))
    passes = (no_reuse_epoch(labels, recipe.ways, recipe.shots, recipe.queries, seed=recipe.seed,
                             epoch=mixed_seed(6, epoch, number)) for number in count())
    return islice(chain.from_iterable(passes), place * recipe.step_episodes + rank, (place + 1) * recipe.step_episodes,
                  world)


def embedded_alone(episode: Episode, number: int) -> EpisodeBatch:
    """A batch of one episode: support, query, unlabelled, in this order."""
    parts = [episode.support, episode.query, episode.unlabelled]
    support, query, unlabelled = torch.arange(sum(map(len, parts))).split([len(part) for part in parts])
    inside = episode._replace(support=support, query=query, unlabelled=unlabelled)
    return EpisodeBatch(number, torch.cat(parts), [inside], len(support))


def prepare(batch: EpisodeBatch, images: ImageSet, transform: Transform, kinds: tuple[str, ...],
            *place: int) -> tuple[Tensor, list[Episode]]:
    """The images of a batch, with the extra views of its support, and its episodes: (B, 3, h, w), episodes."""
    stored = pictures(images, batch.rows)
    inputs = [transform(stored, generator(*place, batch.number))]
    inputs += [view(transform, kind)(stored[: batch.support], generator(*place, batch.number, number))
               for number, kind in enumerate(kinds)]
    return (torch.cat(inputs).contiguous(memory_format=torch.channels_last),
            [with_views(episode, len(batch.rows), batch.support, len(kinds)) for episode in batch.episodes])


def with_views(episode: Episode, images: int, support: int, kinds: int) -> Episode:
    """The episode with every support image followed, at the end, by its views; these lie behind the batch."""
    more = [episode.support + images + number * support for number in range(kinds)]
    return episode._replace(support=torch.cat([episode.support, *more]),
                            support_labels=episode.support_labels.repeat(1 + kinds))
