"""What a table would train and test, cell by cell, before it does; and how long that would take on this machine."""

import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

from ..methods import build_method
from ..recipes import Pretraining, Recipe, Training, parse_options
from ..training.setup import start_backbone
from ..training.steps import steps_in_epoch
from .page import write_table
from .plans import Plan
from .sheets import Cell, Sheet

PICTURES = {"miniimagenet": 38_400, "tieredimagenet": 448_695, "cub": 5_903}     # in the training classes
TIMED = 8               # pictures in the step that is timed
HEADER = ["cell", "stage one", "stage two", "trained with", "tested", "hours"]


def write_overview(path: Path, sheet: Sheet, budget: str, pictures: Mapping[str, int]) -> Path:
    """Write the table of plans to `path` (.md) and, beside it, as HTML; `pictures` counts the data that is at hand."""
    known = PICTURES | dict(pictures)
    grid = [HEADER, *(row(cell, sheet, budget, known) for cell in sheet.cells)]
    plans = {stage for cell in sheet.cells for stage in stages(cell.plan)}
    hours = [needed for stage in plans if (needed := stage_hours(*stage, known)) is not None]
    notes = ["hours: those of the backbone, forward and back over every picture of the training, from one step of "
             f"{TIMED} pictures on {torch.get_num_threads()} threads of this machine; heads, validation and test come "
             "on top; -: the number of training pictures is not known here, give --data",
             f"stages that cells share are trained once: {sum(hours):,.0f} hours for {len(hours)} stages"]
    write_table(path, f"{sheet.title}: what --budget {budget} trains", grid, notes)
    return path


def row(cell: Cell, sheet: Sheet, budget: str, pictures: Mapping[str, int]) -> list[str]:
    """One cell of a table in words."""
    protocol, plan = sheet.protocol(budget, cell.shots), cell.plan
    stage_times = [stage_hours(*stage, pictures) for stage in stages(plan)]
    hours = "-" if any(time is None for time in stage_times) else f"{sum(filter(None, stage_times)):,.1f}"
    test = f"{protocol.ways}-way {protocol.shots}-shot, {protocol.episodes:,} x {protocol.repeats}"
    return [f"{cell.row}, {cell.column}", in_words(plan.pretraining) + " taught by its twin" * bool(plan.teacher),
            in_words(plan.training), tasks(plan.training), f"{cell.method}, {test}", hours]


def stages(plan: Plan) -> list[tuple[str, Recipe]]:
    """All stages behind a cell, those of a teacher before: data and recipe of each."""
    before = stages(plan.teacher) if plan.teacher else []
    return before + [(plan.data, stage) for stage in (plan.pretraining, plan.whole_training) if stage]


def in_words(recipe: Recipe | None) -> str:
    """The network, what learns on top of it, and the schedule."""
    if recipe is None:
        return "-"
    top = recipe.method if isinstance(recipe, Training) else getattr(recipe, "head")  # noqa: B009
    options = recipe.method_options if isinstance(recipe, Training) else ""
    return (f"{':'.join(filter(None, (recipe.backbone, recipe.backbone_options)))} + "
            f"{':'.join(filter(None, (top, options)))}, {recipe.optimizer} {recipe.lr:g}, {recipe.epochs} epochs")


def tasks(recipe: Training | None) -> str:
    """The episodes of a training."""
    if recipe is None:
        return "classification alone"
    epoch = f"{recipe.episodes:,} episodes" if recipe.episodes else "one pass"
    return f"{recipe.ways}-way {recipe.shots}-shot, {recipe.queries} queries, {epoch} an epoch"


def stage_hours(data: str, recipe: Recipe, pictures: Mapping[str, int]) -> float | None:
    """How long the backbone of a stage takes, forward and back; None if that depends on data of unknown size."""
    seen = pictures_seen(recipe, pictures.get(data))
    if seen is None:
        return None
    return seen * seconds_a_picture(recipe.backbone, recipe.backbone_options, recipe.size) / 3600


def pictures_seen(recipe: Recipe, images: int | None) -> int | None:
    """How many pictures a stage embeds in all, counting each time."""
    if isinstance(recipe, Pretraining):
        return images and recipe.epochs * (images // min(recipe.batch, images)) * min(recipe.batch, images)
    assert isinstance(recipe, Training)
    if not recipe.episodes and images is None:
        return None
    steps = recipe.epochs * steps_in_epoch(images or 0, recipe)
    if recipe.batch_classes:
        return steps * recipe.batch_classes * recipe.batch_images
    views = len(build_method(recipe.method, channels=8, **parse_options(recipe.method_options)).views_at(recipe.shots))
    support, query = recipe.ways * recipe.shots * (1 + views), recipe.ways * recipe.queries
    unlabelled = (recipe.ways + recipe.distractors) * recipe.unlabelled
    return steps * recipe.step_episodes * (support + query + unlabelled)


@cache
def seconds_a_picture(backbone: str, options: str, size: int) -> float:
    """One step of a few pictures, forward and back, for each: the quickest of three."""
    network, taken = start_backbone(Recipe(backbone=backbone, backbone_options=options)).train(), []
    images = torch.rand(TIMED, 3, size, size)
    for _ in range(3):
        begun = time.perf_counter()
        network(images).sum().backward()
        taken.append(time.perf_counter() - begun)
    return min(taken) / TIMED
