"""Stage one: classify the base classes, at every location of the map and on their mean."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from pydantic import Field
from torch import Tensor, nn

from ..backbones.base import Backbone
from ..data.folders import ImageSet
from ..episodes.maps import pictures
from ..errors import InputError, choose
from ..files import fill, load_tensors, part, read_json
from ..methods.heads import ArcHead, CosineHead, ImageToClassHead, LinearHead, MarginHead, ReconstructionHead
from ..recipes import Pretraining, adjusted
from ..seeds import generator, mixed_seed
from .averages import Average
from .cards import write_card
from .checkpoints import save_backbone
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
    synchronise_norms,
    train_mode,
    transforms,
)
from .validation import Validation


class Logits(NamedTuple):
    """What a classifier says about a batch."""

    dense: Tensor | None    # (B, M, classes)  every location; None where nobody asked
    pooled: Tensor          # (B, classes)     the map as a whole


READINGS: dict[str, Callable[[Tensor], Tensor]] = {       # what a head reads of the locations of a map, (B, M, C)
    "gap": lambda rows: rows.mean(1),                       # (B, C)
    "flat": lambda rows: rows.flatten(1),                   # (B, M*C)
    "map": lambda rows: rows,
}


class PretrainingNetwork(nn.Module):
    """A backbone with a head over the base classes, which reads every location, a vector of the map, or all of it."""

    def __init__(self, backbone: Backbone, head: nn.Module, is_dense: bool, vector: str = "gap") -> None:
        super().__init__()
        self.backbone: Backbone = backbone
        self.head, self.is_dense, self.read = head, is_dense, READINGS[vector]

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Logits:
        """(B, 3, h, w), (B,) -> Logits; labels only matter to heads with a margin."""
        rows = self.backbone(images).flatten(2).transpose(1, 2)                          # (B, M, C)
        places = None if labels is None else labels[:, None].expand(rows.shape[:2])      # (B, M)
        return Logits(self.head(rows, places) if self.is_dense else None, self.head(self.read(rows), labels))


def start_network(recipe: Pretraining, classes: int) -> PretrainingNetwork:
    """The recipe's backbone under a fresh head."""
    backbone = start_backbone(recipe)
    kind = choose("head", recipe.head, ("linear", "cosine", "margin", "arc", "nbnn", "frn"))
    vector = "map" if kind in ("nbnn", "frn") else choose("vector", recipe.vector, ("gap", "flat"))
    if recipe.dense and vector != "gap":
        raise InputError("a head that reads whole maps has no loss at every location: set dense=0")
    width, places = backbone.out_channels, count_places(backbone, recipe.size)
    if vector == "flat":
        width *= places
    head = (LinearHead(width, classes) if kind == "linear" else
            CosineHead(width, classes, recipe.scale, learn_scale=False) if kind == "cosine" else
            MarginHead(width, classes, recipe.margin, recipe.scale) if kind == "margin" else
            ArcHead(width, classes, recipe.margin, recipe.scale) if kind == "arc" else
            ImageToClassHead(width, classes, recipe.owned, recipe.scale) if kind == "nbnn" else
            ReconstructionHead(width, classes, places))
    return PretrainingNetwork(backbone, head, recipe.dense > 0, vector)


@torch.no_grad()
def count_places(backbone: Backbone, size: int) -> int:
    """M, the locations in the map of a picture of this size."""
    training = backbone.training
    places: int = backbone.eval()(torch.zeros(1, 3, size, size))[0, 0].numel()
    backbone.train(training)
    return places


@dataclass(frozen=True)
class TaughtBy:
    """The settings of a finished run that can teach."""

    stage: str
    recipe: Pretraining = field(default_factory=Pretraining)
    classes: Annotated[int, Field(ge=2, le=10**6)] = 2


def load_network(folder: Path) -> PretrainingNetwork:
    """The classifier of a finished run, for instance to teach another one."""
    settings = read_json(folder / "settings.json", TaughtBy)
    if settings.stage != "pretrain":
        raise InputError(f"{str(folder)!r} is no run of pre-training, so it cannot teach")
    tensors, _ = load_tensors(folder / "last.safetensors")
    classifier = start_network(adjusted(settings.recipe, weights=""), settings.classes)
    fill(classifier, part(tensors, "network."), str(folder))
    return classifier.eval()


def classification_loss(logits: Logits, labels: Tensor, recipe: Pretraining, taught: Logits | None = None) -> Tensor:
    """Weighted sum of the losses at every location and on the mean; a teacher gives a share of each."""
    total = torch.zeros((), device=labels.device)
    for weight, answer, target in ((recipe.dense, logits.dense, taught and taught.dense),
                                   (recipe.pooled, logits.pooled, taught and taught.pooled)):
        if weight and answer is not None:
            rows = answer.flatten(0, -2)                                                 # (rows, classes)
            true = labels.repeat_interleave(len(rows) // len(labels))                    # (rows,)
            loss = F.cross_entropy(rows, true, label_smoothing=recipe.smoothing)
            if target is not None:
                far = distillation(rows, target.flatten(0, -2), recipe.distill_temperature)
                loss = torch.lerp(loss, far, recipe.distill)
            total = total + weight * loss
    return total


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """How far the student's softened answers are from the teacher's (KL divergence): (rows, n), (rows, n) -> ()."""
    return temperature**2 * F.kl_div(F.log_softmax(student / temperature, -1), F.log_softmax(teacher / temperature, -1),
                                     reduction="batchmean", log_target=True)


class Batch(NamedTuple):
    """The images of one step."""

    step: int
    epoch: float            # epochs done before this step
    images: Tensor          # (B, 3, h, w)  this process's share
    labels: Tensor          # (B,)


def batches(images: ImageSet, recipe: Pretraining, start: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
    """The steps of the recipe from number `start` on; process `rank` of `world` takes its share of each.

    Step i depends on (seed, i) alone. Every epoch shuffles anew and leaves out the images that do not fill a batch.
    """
    transform, _ = transforms(recipe)
    labels = torch.from_numpy(images.labels)
    size, per_epoch = min(recipe.batch, len(images)), steps_per_epoch(images, recipe)
    for step in range(start, recipe.epochs * per_epoch):
        epoch, place = divmod(step, per_epoch)
        order = torch.randperm(len(images), generator=generator(recipe.seed, 1, epoch))
        rows = order[place * size : (place + 1) * size]                                  # (B,)
        chance = generator(recipe.seed, 2, step)
        inputs = transform(pictures(images, rows), chance)                        # (B, 3, h, w)
        inputs = early_window(inputs, recipe, epoch, chance)
        share = inputs[rank::world].contiguous(memory_format=torch.channels_last)
        yield Batch(step, step / per_epoch, share, labels[rows][rank::world])


def steps_per_epoch(images: ImageSet, recipe: Pretraining) -> int:
    """Full batches in the data set, at least one."""
    return max(1, len(images) // recipe.batch)


def pretrain(images: ImageSet, folder: str | Path, recipe: Pretraining, *, val: ImageSet | None = None,
             resume: bool = False, fabric: Fabric | None = None, save_every: float = 120, shown: bool = True) -> Run:
    """Train a backbone on the base classes, in `folder`. Stopped or killed, it goes on exactly with resume=True."""
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    part_in_order(fabric)
    with torch.random.fork_rng():
        torch.manual_seed(mixed_seed(recipe.seed, 0))
        check_recipe(recipe)
        classifier = start_network(recipe, len(images.classes))
        synchronise_norms(classifier, recipe, fabric)
        images, val = prepared(images, val, recipe)
        settings = {"stage": "pretrain", "data": images.fingerprint, "classes": len(images.classes),
                    "recipe": asdict(recipe)}
        run = Run(folder, settings, resume, save_every=save_every, writes=fabric.is_global_zero)
        with run.stoppable():
            learn(run, classifier, images, val, recipe, fabric, shown)
    return run


def learn(run: Run, classifier: PretrainingNetwork, images: ImageSet, val: ImageSet | None, recipe: Pretraining,
          fabric: Fabric, shown: bool) -> None:
    """The loop: every step one batch, every epoch a row in the log and, when it is time, a look at `val`."""
    teacher = fabric.to_device(load_network(Path(recipe.teacher))) if recipe.teacher else None
    network, optimizer = fabric.setup(classifier, start_optimizer(recipe, classifier))
    average = Average(classifier, recipe.average)
    notes = run.resume(classifier, optimizer.optimizer, average.mean)
    start, best, meter = notes.step, notes.best, Meter(notes.meter)
    backbone = average.network.backbone
    measure = Validation(val, recipe, backbone.out_channels) if val is not None else None
    per_epoch = steps_per_epoch(images, recipe)
    total = recipe.epochs * per_epoch
    with progress("pretrain", total, start, shown and run.writes) as bar:
        for batch in batches(images, recipe, start, fabric.global_rank, fabric.world_size):
            run.wait_while_paused()
            torch.manual_seed(mixed_seed(recipe.seed, 3, batch.step, fabric.global_rank))    # of dropout
            train_mode(classifier, recipe)
            rate = set_learning_rate(optimizer.optimizer, recipe, batch.epoch)
            inputs, labels = fabric.to_device((batch.images, batch.labels))

            logits = network(inputs, labels)
            with torch.no_grad():
                taught = teacher(inputs) if teacher else None
            loss = classification_loss(logits, labels, recipe, taught)
            check_finite(loss, f"step {batch.step}", run)
            optimizer.zero_grad()
            fabric.backward(loss)
            if recipe.clip:
                fabric.clip_gradients(network, optimizer, max_norm=recipe.clip)
            optimizer.step()
            average.update()

            meter.add(loss=loss, accuracy=(logits.pooled.argmax(1) == labels).float().mean())
            bar.advance(meter.text())
            done = batch.step + 1
            if done % per_epoch == 0:
                best = end_epoch(run, recipe, done // per_epoch, best, meter.row(step=done, lr=rate),
                                 partial(measure, backbone) if measure else None, partial(keep, run, backbone))
            if run.is_due or done % per_epoch == 0:
                run.save(classifier, optimizer.optimizer, average.mean, step=done, best=best, meter=meter.sums)
            if run.stopping:
                return


def keep(run: Run, backbone: Backbone, **result: float | None) -> None:
    """Write the present weights as the result of the run, with its card and curves."""
    if run.writes:
        save_backbone(run.folder / "backbone.safetensors", backbone, result | origin(run))
        write_card(run.folder / "card.json", **run.settings, **result, seconds=run.elapsed)
