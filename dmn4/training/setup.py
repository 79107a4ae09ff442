"""What the two training stages share: optimiser, batch norm, preprocessing, the end of an epoch."""

import atexit
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..backbones import build_backbone
from ..backbones.base import Backbone
from ..data.cache import decoded
from ..data.folders import ImageSet
from ..errors import InputError, choose
from ..images import TRANSFORMS, Transform
from ..methods import METHODS
from ..recipes import Recipe, learning_rate, parse_options
from .runs import Run, draw_curves

OPTIMIZERS = ("sgd", "adam", "adamw")

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def check_recipe(recipe: Recipe) -> None:
    """Raise an InputError for a setting that cannot work, before any work is done."""
    for name in ("epochs", "size", "lr", "batch", "episodes", "step_episodes"):
        a_pass = name == "episodes" and getattr(recipe, "reuse", "yes") == "no" and getattr(recipe, name) == 0
        if not getattr(recipe, name, 1) > 0 and not a_pass:
            raise InputError(f"{name} is {getattr(recipe, name)}; it must be above 0")
    choose("norm", recipe.norm, ("batch", "frozen"))
    choose("optimizer", recipe.optimizer, OPTIMIZERS)
    choose("validation method", recipe.validate, METHODS)
    transforms(recipe)
    learning_rate(recipe, 0)


def start_backbone(recipe: Recipe) -> Backbone:
    """The recipe's backbone, in the memory layout that convolutions on a CPU run fastest in."""
    backbone = build_backbone(recipe.backbone, recipe.weights or None, **parse_options(recipe.backbone_options))
    backbone.to(memory_format=torch.channels_last)                 # type: ignore[call-overload]
    return backbone


def start_optimizer(recipe: Recipe, network: nn.Module, apart: nn.Module | None = None,
                    factor: float = 1.0) -> torch.optim.Optimizer:
    """The recipe's optimiser over all that learns in the network; `apart`, a part of it, at `factor` times the rate."""
    apart_ids = {id(parameter) for parameter in apart.parameters()} if apart else set()
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [{"params": [parameter for parameter in learning if id(parameter) not in apart_ids], "factor": 1.0},
              {"params": [parameter for parameter in learning if id(parameter) in apart_ids], "factor": factor}]
    groups = [group for group in groups if group["params"]]
    kind = choose("optimizer", recipe.optimizer, OPTIMIZERS)
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=recipe.lr, momentum=recipe.momentum, nesterov=recipe.momentum > 0,
                               weight_decay=recipe.weight_decay)
    first, second = (float(beta) for beta in recipe.betas.split(","))
    adam = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return adam(groups, lr=recipe.lr, betas=(first, second), weight_decay=recipe.weight_decay)


def set_learning_rate(optimizer: torch.optim.Optimizer, recipe: Recipe, epoch: float) -> float:
    """Give the optimiser the learning rate of this moment, and return it."""
    rate = learning_rate(recipe, epoch)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
    return rate


def synchronise_norms(network: nn.Module, recipe: Recipe, fabric: "Fabric") -> None:
    """Make batch norms use the statistics of all processes, unless they are frozen."""
    if fabric.world_size == 1 or recipe.norm == "frozen":
        return
    if fabric.device.type == "cpu":
        raise InputError(f"{fabric.world_size} CPU processes cannot share batch statistics; "
                         "set norm=frozen, or use one process with more threads")
    nn.SyncBatchNorm.convert_sync_batchnorm(network)              # replaces the layers inside `network`


def part_in_order(fabric: "Fabric") -> None:
    """Close the connection to other processes when this one ends: gloo's threads may abort it otherwise."""
    if fabric.world_size > 1:
        atexit.register(close_connection)


def close_connection() -> None:
    """Leave the group of processes, if there is one."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def train_mode(network: nn.Module, recipe: Recipe) -> None:
    """Training mode, but frozen batch norms keep the statistics they came with."""
    network.train()
    for layer in network.modules() if recipe.norm == "frozen" else ():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.eval()


def transforms(recipe: Recipe) -> tuple[Transform, Transform]:
    """The recipe's transforms for training and for testing, at its picture size."""
    train, test = TRANSFORMS[choose("transform", recipe.transform, TRANSFORMS)]
    return train.scaled_to(recipe.size), test.scaled_to(recipe.size)


def early_window(inputs: Tensor, recipe: Recipe, epoch: float, chance: torch.Generator) -> Tensor:
    """The pictures of a step; in an early epoch one random square of all of them, where the recipe says so."""
    early = recipe.early_size and epoch < recipe.early_share * recipe.epochs
    return window(inputs, recipe.early_size, chance) if early else inputs


def window(inputs: Tensor, size: int, chance: torch.Generator) -> Tensor:
    """One random square of all images, no larger than they are: (B, 3, h, w) -> (B, 3, size, size)."""
    size = min(size, *inputs.shape[2:])
    top, left = (int(torch.randint(side - size + 1, (), generator=chance)) for side in inputs.shape[2:])
    return inputs[:, :, top : top + size, left : left + size]


def prepared(images: ImageSet, val: ImageSet | None, recipe: Recipe) -> tuple[ImageSet, ImageSet | None]:
    """Pictures to train on and to validate on, each decoded as its transform needs them."""
    train, test = transforms(recipe)
    return decoded(images, train.stored_size), None if val is None else decoded(val, test.stored_size)


def origin(run: Run) -> dict[str, Any]:
    """What weights of this run say about themselves: their data, and the pictures they expect."""
    recipe = run.settings["recipe"]
    return {"data": run.settings["data"], "transform": recipe["transform"], "size": recipe["size"]}


def check_finite(loss: Tensor, where: str, run: Run) -> None:
    """Raise an InputError, before the weights change, if the loss is no number any more."""
    if not loss.isfinite():
        raise InputError(f"the loss became {loss.item()} in {where}; the last good weights are in {str(run.folder)!r}: "
                         "start a new run from them with a lower lr, or with clip")


def end_epoch(run: Run, recipe: Recipe, epoch: int, best: float, row: dict[str, Any],
              measure: Callable[[], float] | None, keep: Callable[..., None]) -> float:
    """Log the epoch, look at `val` if it is time, `keep` the weights if they are the best so far.

    Returns the best accuracy. Without `val`, or before it is looked at, the newest weights are kept.
    """
    timely = recipe.validate_every and (epoch % recipe.validate_every == 0 or epoch == recipe.epochs)
    accuracy = measure() if measure and timely and epoch >= recipe.validate_from and run.writes else None
    run.log(epoch=epoch, **row, val="" if accuracy is None else accuracy)
    if (accuracy is None and best == -math.inf) or (accuracy is not None and accuracy >= best):
        best = best if accuracy is None else accuracy
        keep(epoch=epoch, val=accuracy)
    if run.writes:
        draw_curves(run.folder)
    return best
