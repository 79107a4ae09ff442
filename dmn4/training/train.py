"""Stage two: meta-training, episodes of a few classes (Eq. 6, 7)."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data.folders import ImageSet
from ..episodes.sampling import Episode
from ..errors import InputError, choose
from ..methods import build_method
from ..methods.base import compares_descriptors
from ..methods.e3bm import merge_kernels, scale_kernels
from ..methods.sharing import can_share, match_pairs, score_shared
from ..recipes import Training, parse_options
from ..seeds import generator, mixed_seed
from .averages import Average
from .cards import write_card
from .checkpoints import save_backbone, save_model
from .model import FewShotModel
from .runs import Meter, Run, progress
from .setup import (
    check_finite,
    check_recipe,
    early_window,
    end_epoch,
    origin,
    part_in_order,
    prepared,
    set_learning_rate,
    start_backbone,
    start_optimizer,
    train_mode,
    transforms,
)
from .steps import prepare, step_batches, steps_in_epoch
from .validation import Validation


def start_model(recipe: Training) -> FewShotModel:
    """The recipe's backbone and method."""
    backbone, options = start_backbone(recipe), parse_options(recipe.method_options)
    if choose("kernels", recipe.kernels, ("learn", "scale")) == "scale":
        backbone = scale_kernels(backbone)
    method = build_method(recipe.method, channels=backbone.out_channels, **options)
    if recipe.smoothing and not method.smooths:
        raise InputError(f"method {recipe.method!r} is trained with a loss of its own, which takes no label smoothing: "
                         "set smoothing=0")
    return FewShotModel(backbone, method, recipe.method, options)


class Outcome(NamedTuple):
    """What some episodes gave."""

    loss: Tensor            # ()  mean over the episodes, with a graph
    accuracy: Tensor        # ()
    kept: Tensor            # ()  share of query descriptors that voted; 1 for methods without descriptors


class EpisodeLoss(nn.Module):
    """A model together with the loss of episodes, so that one call holds all that learns."""

    def __init__(self, model: FewShotModel, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, images: Tensor, episodes: list[Episode], support: int = 0) -> Outcome:
        """Embed a batch once and play the episodes over its maps: (B, 3, h, w) -> Outcome.

        If only the first `support` pictures are support pictures, and the method can, they are also searched once.
        """
        maps = self.model.backbone(images)                                             # (B, C, H, W)
        if not maps.detach().sum().isfinite():                                         # no method can score these
            return Outcome(maps.sum() * torch.nan, maps.new_zeros(()), maps.new_zeros(()))
        if support and can_share(self.model.method, len(episodes[0].support) // len(episodes[0].classes)):
            return self.play_shared(maps, episodes, support)
        played = [self.play(maps, episode) for episode in episodes]
        loss, accuracy = (torch.stack(column).mean() for column in zip(*played, strict=True))
        return Outcome(loss, accuracy, self.kept_share(maps, episodes[0]))

    def play_shared(self, maps: Tensor, episodes: list[Episode], support: int) -> Outcome:
        """The same for all episodes in one call, on one search: support pictures first, (B, C, H, W) -> Outcome."""
        method = self.model.method
        assert compares_descriptors(method)
        pairs = match_pairs(method, maps[:support], maps[support:])
        rows, query, truth = (torch.stack(column) for column in zip(
            *((episode.support, episode.query - support, episode.query_labels) for episode in episodes), strict=True))
        scores, kept = score_shared(method, pairs, rows, episodes[0].support_labels, query)          # (E, q, N)
        loss = method.loss(scores.flatten(0, 1), truth.flatten(), self.smoothing)
        return Outcome(loss, (scores.argmax(2) == truth).float().mean(), kept.float().mean())

    def play(self, maps: Tensor, episode: Episode) -> tuple[Tensor, Tensor]:
        """The loss of one episode (Eq. 6, 7) with what the method's paper adds to it, and the accuracy."""
        support, query = maps[episode.support], maps[episode.query]
        unlabelled = {"unlabelled": maps[episode.unlabelled]} if len(episode.unlabelled) else {}
        scores = self.model.method(support, episode.support_labels, query, **unlabelled)       # (Q, N)
        loss = self.model.method.loss(scores, episode.query_labels, self.smoothing)
        extra = self.model.method.auxiliary(support, episode.support_labels, query, episode.query_labels)
        return loss if extra is None else loss + extra, (scores.argmax(1) == episode.query_labels).float().mean()

    def kept_share(self, maps: Tensor, episode: Episode) -> Tensor:
        """The share of descriptors that vote, in a few of the query images: enough to watch it."""
        method, few = self.model.method, episode.query[:: max(1, len(episode.query) // 5)]
        if not compares_descriptors(method):
            return maps.new_ones(())
        return method.kept(maps[episode.support], episode.support_labels, maps[few]).float().mean()


def train(images: ImageSet, folder: str | Path, recipe: Training, *, val: ImageSet | None = None, resume: bool = False,
          fabric: Fabric | None = None, save_every: float = 120, shown: bool = True) -> Run:
    """Meta-train the recipe's model, in `folder`. Stopped or killed, it goes on exactly with resume=True."""
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    part_in_order(fabric)
    if recipe.step_episodes % fabric.world_size:
        raise InputError(f"{recipe.step_episodes} episodes a step cannot be shared by {fabric.world_size} processes")
    with torch.random.fork_rng():
        torch.manual_seed(mixed_seed(recipe.seed, 0))
        check_recipe(recipe)
        model = start_model(recipe)
        images, val = prepared(images, val, recipe)
        settings = {"stage": "train", "data": images.fingerprint, "recipe": asdict(recipe)}
        run = Run(folder, settings, resume, save_every=save_every, writes=fabric.is_global_zero)
        with run.stoppable():
            learn(run, model, images, val, recipe, fabric, shown)
    return run


def learn(run: Run, model: FewShotModel, images: ImageSet, val: ImageSet | None, recipe: Training, fabric: Fabric,
          shown: bool) -> None:
    """The loop: every step some episodes; every epoch a row in the log and, when it is time, a look at `val`."""
    network, optimizer = fabric.setup(EpisodeLoss(model, recipe.smoothing),
                                      start_optimizer(recipe, model, model.method, recipe.method_lr))
    average = Average(model, recipe.average)
    notes = run.resume(model, optimizer.optimizer, average.mean)
    start, best, meter = notes.step, notes.best, Meter(notes.meter)
    kept = average.network
    measure = Validation(val, recipe, model.backbone.out_channels) if val is not None else None
    transform, _ = transforms(recipe)
    kinds = model.method.views_at(recipe.shots)
    per_epoch = steps_in_epoch(len(images), recipe)
    with progress("train", recipe.epochs * per_epoch, start, shown and run.writes) as bar:
        for step in range(start, recipe.epochs * per_epoch):
            run.wait_while_paused()
            torch.manual_seed(mixed_seed(recipe.seed, 3, step, fabric.global_rank))              # of dropout
            train_mode(model, recipe)
            rate = set_learning_rate(optimizer.optimizer, recipe, step / per_epoch)
            batches = step_batches(images.labels, recipe, step, fabric.global_rank, fabric.world_size)

            optimizer.zero_grad()
            for batch in batches:
                inputs, episodes = fabric.to_device(prepare(batch, images, transform, kinds, recipe.seed, 2, step))
                inputs = early_window(inputs, recipe, step // per_epoch, generator(recipe.seed, 7, step, batch.number))
                with fabric.no_backward_sync(network, enabled=batch is not batches[-1]):
                    outcome = network(inputs, episodes, batch.support if recipe.batch_support else 0)
                    check_finite(outcome.loss, f"episode {step * recipe.step_episodes + batch.number}", run)
                    fabric.backward(outcome.loss / len(batches))
                meter.add(**outcome._asdict())
            if recipe.clip:
                fabric.clip_gradients(network, optimizer, max_norm=recipe.clip)
            optimizer.step()
            average.update()

            bar.advance(meter.text())
            done = step + 1
            if done % per_epoch == 0:
                best = end_epoch(run, recipe, done // per_epoch, best, meter.row(step=done, lr=rate),
                                 partial(measure, kept.backbone, kept.method) if measure else None,
                                 partial(keep, run, kept))
            if run.is_due or done % per_epoch == 0:
                run.save(model, optimizer.optimizer, average.mean, step=done, best=best, meter=meter.sums)
            if run.stopping:
                return


def keep(run: Run, model: FewShotModel, **result: float | None) -> None:
    """Write the present weights as the result of the run, with its card."""
    if run.writes:
        model = FewShotModel(merge_kernels(model.backbone), model.method, model.name, model.options)
        save_model(run.folder / "model.safetensors", model, result | origin(run))
        save_backbone(run.folder / "backbone.safetensors", model.backbone, result | origin(run))
        write_card(run.folder / "card.json", **run.settings, **result, seconds=run.elapsed)
