"""Settings of the two training stages as values: the paper's, and those for an hour on two CPU cores.

Every field is a string or a number and a flag of the command line; its `help` is the flag's description.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import InputError, choose


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
    optimizer: str = setting("sgd", "sgd (Nesterov) or adam")
    lr: float = setting(0.1, "learning rate; the peak of a one-cycle schedule")
    momentum: float = setting(0.9, "of sgd")
    betas: str = setting("0.5,0.9", "of adam")
    weight_decay: float = setting(5e-4, "weight decay")
    schedule: str = setting("one-cycle", "one-cycle, cosine, steps or constant")
    warmup: float = setting(0.3, "share of a one-cycle schedule that rises")
    every: int = setting(10, "epochs between two steps of the learning rate")
    milestones: str = setting("", "epochs after which it steps, such as 100,200; replaces `every`")
    decay: float = setting(0.1, "factor of each step")
    clip: float = setting(0.0, "largest norm of the gradient (0: any)")
    norm: str = setting("batch", "batch norm in training: batch (its own statistics) or frozen")
    seed: int = setting(0, "of weights, order, augmentation and episodes")
    validate: str = setting("dmn4", "method that measures progress on val")
    validate_options: str = setting("", "its options")
    validate_every: int = setting(1, "epochs between two measurements (0: never)")
    validate_from: int = setting(0, "first epoch that is measured and may be selected")
    validate_ways: int = setting(5, "classes in a validation episode")
    validate_shots: int = setting(1, "support images of each class in a validation episode")
    validate_episodes: int = setting(200, "validation episodes a measurement")
    validate_images: int = setting(60, "images of each class that they come from (0: all)")


@dataclass(frozen=True, kw_only=True)
class Pretraining(Recipe):
    """Classification of the base classes."""

    head: str = setting("cosine", "linear, cosine, margin or arc")
    scale: float = setting(10.0, "factor of the cosines (cosine, margin, arc)")
    margin: float = setting(-0.02, "margin of the true class (margin, arc)")
    dense: float = setting(1.0, "weight of the loss on every location")
    pooled: float = setting(1.0, "weight of the loss on the mean of all locations")
    smoothing: float = setting(0.0, "label smoothing")
    teacher: str = setting("", "run folder of a pre-trained teacher to distil from")
    distill: float = setting(0.5, "share of the loss that the teacher gives")
    distill_temperature: float = setting(4.0, "temperature of teacher and student")
    batch: int = setting(128, "images a step, over all processes")
    early_size: int = setting(0, "side of the crops in the first half of the steps (0: as later)")


@dataclass(frozen=True, kw_only=True)
class Training(Recipe):
    """Episodes of a few classes (Eq. 6, 7)."""

    method: str = setting("dmn4", "name of the method")
    method_options: str = setting("", "its options, such as shots=mean,temperature=0.5")
    ways: int = setting(5, "classes in an episode")
    shots: int = setting(1, "support images of each class")
    queries: int = setting(15, "query images of each class")
    episodes: int = setting(200, "episodes in an epoch")
    step_episodes: int = setting(1, "episodes a step, over all processes")
    batch_classes: int = setting(0, "classes in a batch of embeddings that many episodes share (0: embed each episode)")
    batch_images: int = setting(0, "images of each class in such a batch")
    unlabelled: int = setting(0, "unlabelled images of each class, for the semi-supervised methods")
    distractors: int = setting(0, "further classes that only give unlabelled images")
    labelled: float = setting(1.0, "share of each class that is labelled; unlabelled images come from the rest")


# --------------------------------------------------------------------------------------------------- the paper's values

PRETRAINING: dict[str, Pretraining] = {
    # Dense cosine classification: one embedding serves 361 losses.
    "conv4-cpu": Pretraining(lr=0.2, epochs=30),
    "tiny": Pretraining(backbone_options="width=0.25", size=32, epochs=4, batch=32, validate_episodes=50),
    # The shared first stage of the released code: average pool, linear head, drop rates on.
    "resnet12": Pretraining(backbone="resnet12", backbone_options="drop=0.1,square=5", transform="dmn4-pretrain",
                            head="linear", dense=0.0, epochs=350, schedule="steps", milestones="100,200,250,300",
                            validate="meta-baseline", validate_ways=16, validate_every=5, validate_from=300),
    "wrn28-10": Pretraining(backbone="wrn28-10", transform="dmn4-pretrain", head="linear", dense=0.0, epochs=350,
                            schedule="steps", milestones="100,200,250,300", validate="meta-baseline",
                            validate_ways=16, validate_every=5, validate_from=300),
    "resnet12-cpu": Pretraining(backbone="resnet12", backbone_options="width=0.25,drop=0.1,square=5", epochs=20),
    # RFS: linear head, 100 epochs, x 0.1 at 60 and 80. With `teacher` its distilled second generation.
    "rfs": Pretraining(backbone="resnet12", backbone_options="drop=0.1,square=5", transform="rfs", head="linear",
                       dense=0.0, epochs=100, batch=64, lr=0.05, schedule="steps", milestones="60,80",
                       validate="meta-baseline"),
    "negative-margin": Pretraining(transform="negative-margin", head="margin", scale=30.0, dense=0.0, epochs=400,
                                   batch=256, optimizer="adam", betas="0.9,0.999", lr=3e-3, weight_decay=0.0,
                                   warmup=0.025, validate="meta-baseline"),
}

# Sec. 4.2: from scratch, Adam 1e-3, x 0.1 every 10 of 30 epochs; 20,000 episodes an epoch, four a step.
CONV4 = Training(transform="dmn4-conv4", optimizer="adam", lr=1e-3, weight_decay=0.0, schedule="steps", epochs=30,
                 episodes=20_000, step_episodes=4, validate_episodes=1000, validate_images=0)
# Sec. 4.2: after pre-training, momentum SGD 5e-4, x 0.5 every 10 of 40 epochs of 200 episodes; shots averaged.
RESNET = Training(backbone="resnet12", method_options="shots=mean,temperature=0.5", transform="dmn4-resnet12", lr=5e-4,
                  schedule="steps", decay=0.5, epochs=40, validate_episodes=1000, validate_images=0)
FIVE_SHOTS: dict[str, Any] = {"shots": 5, "queries": 10, "validate_shots": 5}

TRAINING: dict[str, Training] = {
    "conv4": CONV4,
    "conv4-5shot": replace(CONV4, **FIVE_SHOTS),
    "resnet12": RESNET,
    "resnet12-5shot": replace(RESNET, **FIVE_SHOTS),
    "resnet12-tiered": replace(RESNET, epochs=100),
    "resnet12-cub": replace(RESNET, every=20),
    "wrn28-10": replace(RESNET, backbone="wrn28-10", method_options="temperature=4", norm="frozen"),
    # After conv4-cpu: batch norm stays as the first stage left it, and eight episodes share a batch of embeddings.
    "conv4-cpu": Training(lr=1e-2, schedule="cosine", epochs=10, episodes=400, step_episodes=8, norm="frozen",
                          batch_classes=16, batch_images=8, queries=7, clip=10.0),
    "tiny": Training(backbone_options="width=0.25", size=32, optimizer="adam", lr=3e-3, weight_decay=0.0, epochs=4,
                     episodes=30, queries=5, schedule="constant", validate_episodes=50),
}


# ------------------------------------------------------------------------------------------------------- reading values

def adjusted(recipe: Recipe, **given: Any) -> Any:
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


def whole_numbers(text: str) -> list[int]:
    """The numbers of a list such as "100,200,250,300"."""
    return [int(item) for item in filter(None, text.split(","))]


def learning_rate(recipe: Recipe, epoch: float) -> float:
    """The learning rate after `epoch` epochs, of which fractions count."""
    share = epoch / recipe.epochs
    kind = choose("schedule", recipe.schedule, ("one-cycle", "cosine", "steps", "constant"))
    if kind == "constant":
        return recipe.lr
    if kind == "steps":
        passed = (sum(epoch >= mark for mark in whole_numbers(recipe.milestones)) if recipe.milestones
                  else int(epoch // recipe.every))
        return recipe.lr * recipe.decay ** passed
    if kind == "one-cycle" and share < recipe.warmup:
        return recipe.lr * (0.04 + 0.96 * share / recipe.warmup)
    fall = (share - recipe.warmup) / (1 - recipe.warmup) if kind == "one-cycle" else share
    return recipe.lr * 0.5 * (1 + math.cos(math.pi * fall))
