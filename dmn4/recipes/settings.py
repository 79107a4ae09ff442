"""What a recipe can set, in either stage of training, and how its values are read.

Every field is a string or a number and a flag of the command line; its `help` is the flag's description.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..errors import InputError, choose

Kind = TypeVar("Kind", bound="Recipe")


def setting(default: Any, explanation: str) -> Any:
    """A field with its default and the text that the command line shows for it."""
    return field(default=default, metadata={"help": explanation})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What both stages share: the network, its optimiser and schedule, and how progress is measured on `val`."""

    backbone: str = setting("conv4", "name of the backbone")
    backbone_options: str = setting("", "its options, such as width=0.5,drop=0.1")
    weights: str = setting("", "start from these weights: a shipped name, or a .safetensors file")
    size: int = setting(84, "side of the pictures in pixels")
    transform: str = setting("mcl-stored", "preset of preprocessing and augmentation")
    epochs: int = setting(30, "passes over the data, or rounds of episodes")
    optimizer: str = setting("sgd", "sgd (Nesterov), adam or adamw (decoupled weight decay)")
    lr: float = setting(0.1, "learning rate; the peak of a one-cycle schedule")
    momentum: float = setting(0.9, "momentum of sgd")
    betas: str = setting("0.5,0.9", "running means of adam and adamw")
    weight_decay: float = setting(5e-4, "weight decay")
    schedule: str = setting("one-cycle", "one-cycle, cosine, steps or constant")
    warmup: float = setting(0.3, "share of a one-cycle schedule that rises")
    every: int = setting(10, "epochs between two steps of the learning rate")
    milestones: str = setting("", "epochs after which it steps, such as 100,200; replaces `every`")
    decay: float = setting(0.1, "factor of each step")
    factors: str = setting("", "share of `lr` after each milestone, such as 0.06,0.012; replaces `decay`")
    clip: float = setting(0.0, "largest norm of the gradient (0: any)")
    average: float = setting(0.0, "decay of a running mean of the weights, which is measured and kept (0: no mean)")
    early_size: int = setting(0, "side of the crops in the early epochs (0: as later)")
    early_share: float = setting(0.5, "share of the epochs that are early")
    norm: str = setting("batch", "batch norm in training: batch (its own statistics) or frozen")
    seed: int = setting(0, "of weights, order, augmentation and episodes")
    validate: str = setting("dmn4", "method that measures progress on val")
    validate_options: str = setting("", "options of that method")
    validate_every: int = setting(1, "epochs between two measurements (0: never)")
    validate_from: int = setting(0, "first epoch that is measured and may be selected")
    validate_ways: int = setting(5, "classes in a validation episode")
    validate_shots: int = setting(1, "support images of each class in a validation episode")
    validate_episodes: int = setting(200, "validation episodes a measurement")
    validate_images: int = setting(60, "images of each class that they come from (0: all)")


@dataclass(frozen=True, kw_only=True)
class Pretraining(Recipe):
    """Classification of the base classes."""

    head: str = setting("cosine", "linear, cosine, margin, arc, nbnn or frn")
    scale: float = setting(10.0, "factor of the cosines (cosine, margin, arc, nbnn)")
    vector: str = setting("gap", "what the head reads of a whole map: gap (the mean of all locations) or flat")
    margin: float = setting(-0.02, "margin of the true class (margin, arc)")
    owned: int = setting(4, "descriptors that each class owns (nbnn)")
    dense: float = setting(1.0, "weight of the loss on every location")
    pooled: float = setting(1.0, "weight of the loss on the whole map")
    smoothing: float = setting(0.0, "label smoothing")
    teacher: str = setting("", "run folder of a pre-trained teacher to distil from")
    distill: float = setting(0.5, "share of the loss that the teacher gives")
    distill_temperature: float = setting(4.0, "temperature of teacher and student")
    batch: int = setting(128, "images a step, over all processes")


@dataclass(frozen=True, kw_only=True)
class Training(Recipe):
    """Episodes of a few classes (Eq. 6, 7)."""

    method: str = setting("dmn4", "name of the method")
    method_options: str = setting("", "its options, such as shots=mean,temperature=0.5")
    ways: int = setting(5, "classes in an episode")
    shots: int = setting(1, "support images of each class")
    queries: int = setting(15, "query images of each class")
    episodes: int = setting(200, "episodes in an epoch (0, with reuse=no: one pass over the images)")
    step_episodes: int = setting(1, "episodes a step, over all processes")
    batch_classes: int = setting(0, "classes in a batch of embeddings that many episodes share (0: embed each episode)")
    batch_images: int = setting(0, "images of each class in such a batch")
    batch_support: int = setting(0, "of these, support images, searched once for all episodes of the step (0: any)")
    unlabelled: int = setting(0, "unlabelled images of each class, for the semi-supervised methods")
    distractors: int = setting(0, "further classes that only give unlabelled images")
    labelled: float = setting(1.0, "share of each class that is labelled; unlabelled images come from the rest")
    reuse: str = setting("yes", "whether an image may come twice in an epoch: yes, or no (the sampler of FRN)")
    smoothing: float = setting(0.0, "label smoothing, for methods trained by cross-entropy")
    method_lr: float = setting(1.0, "factor of the learning rate of the method's own layers")
    kernels: str = setting("learn", "learn the kernels of the backbone, or only a factor of each (scale: E3BM)")


# ------------------------------------------------------------------------------------------------------- reading values

def adjusted(recipe: Kind, **given: Any) -> Kind:
    """The recipe with every given setting that is not None."""
    return replace(recipe, **{name: value for name, value in given.items() if value is not None})


def parse_options(text: str) -> dict[str, Any]:
    """Options written as text, "width=0.5,last=full" -> {"width": 0.5, "last": "full"}."""
    options = {}
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise InputError(f"cannot read the option {item!r} in {text!r}; write name=value,name=value")
        options[name.strip()] = number_or_text(value.strip())
    return options


def number_or_text(text: str) -> int | float | str:
    """The number that `text` writes, or the text itself."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def numbers(text: str) -> list[float]:
    """The numbers of a list such as "100,200,250,300"."""
    try:
        return [float(item) for item in filter(None, text.split(","))]
    except ValueError:
        raise InputError(f"cannot read the list {text!r}; write numbers such as 100,200,250") from None


def learning_rate(recipe: Recipe, epoch: float) -> float:
    """The learning rate after `epoch` epochs, of which fractions count."""
    share = epoch / recipe.epochs
    kind = choose("schedule", recipe.schedule, ("one-cycle", "cosine", "steps", "constant"))
    if kind == "constant":
        return recipe.lr
    if kind == "steps":
        marks = numbers(recipe.milestones)
        passed = sum(epoch >= mark for mark in marks) if marks else int(epoch // recipe.every)
        shares = [1.0, *numbers(recipe.factors)] if recipe.factors else []
        return recipe.lr * (shares[min(passed, len(shares) - 1)] if shares else recipe.decay**passed)
    if kind == "one-cycle" and share < recipe.warmup:
        return recipe.lr * (0.04 + 0.96 * share / recipe.warmup)
    fall = (share - recipe.warmup) / (1 - recipe.warmup) if kind == "one-cycle" else share
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * fall))
