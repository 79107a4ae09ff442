"""How the weights behind a number are made: which stages, with which settings, at which budget."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from ..errors import choose
from ..methods import METHODS
from ..recipes import PRETRAINING, TRAINING, Pretraining, Recipe, Training, adjusted

BUDGETS = ("tiny", "cpu", "paper")
FIRST_STAGE = {("cpu", "conv4"): "conv4-cpu", ("cpu", "resnet12"): "resnet12-cpu", ("paper", "resnet12"): "resnet12",
               ("tiny", "conv4"): "tiny", ("tiny", "resnet12"): "tiny"}     # the paper trains Conv-4 from scratch
SHORT = {"miniimagenet": "mini", "tieredimagenet": "tiered", "cub": "cub", "meta-inat": "inat",
         "tiered-meta-inat": "inat"}                                        # a data set in the name of a recipe
# The more descriptors a method sums, the sharper its softmax: chosen on CUB's val (docs/results/equal-budget.md).
# The semi-supervised forms take theirs from dmn4 and protonet: at 1, short episodes spoil the features of the first
# stage, and TPN's graph would join everything with everything.
CHOSEN = {"dn4": "temperature=6", "dmn4": "temperature=3", "protonet": "temperature=64",
          **dict.fromkeys(("mn4-semi", "dmn4-semi"), "temperature=3"),
          **dict.fromkeys(("pn-semi", "pn-semi-masked"), "temperature=64"),
          "tpn-semi": "length=0.1"}
WITHOUT_EPISODES = ("rfs", "dc", "negative-margin", "centroid")             # trained by classification alone


@dataclass(frozen=True)
class Plan:
    """How the weights behind a cell are made: on which data, by which stages."""

    data: str
    pretraining: Pretraining | None = None
    training: Training | None = None
    teacher: "Plan | None" = None        # whose classifier is distilled into this one

    @property
    def key(self) -> str:
        """A folder name that differs for different plans. A setting that comes later, at its default, changes none."""
        stages = [stage and changed(stage) for stage in (self.pretraining, self.training)] + [
            self.teacher and self.teacher.key]
        kind = self.training.method if self.training else "pretrain"
        return f"{self.data}-{kind}-{hashlib.sha256(json.dumps(stages).encode()).hexdigest()[:8]}"


    @property
    def whole_training(self) -> Training | None:
        """The second stage with the options that its backbone brings along from the first one."""
        if self.pretraining is None or self.training is None:
            return self.training
        options = joined(self.pretraining.backbone_options, self.training.backbone_options)
        return replace(self.training, backbone_options=options)


def changed(recipe: Recipe) -> dict[str, Any]:
    """The settings of a recipe that are not the defaults."""
    return {field.name: getattr(recipe, field.name) for field in fields(recipe)
            if getattr(recipe, field.name) != field.default}


def plan_for(budget: str, data: str, method: str, shots: int = 1, backbone: str = "conv4", options: str = "") -> Plan:
    """The stages that a budget affords for one method: the paper's, an hour or two on two cores, or minutes."""
    first = first_stage(choose("budget", budget, BUDGETS), data, method, backbone, options)
    if method.split(":")[0] in WITHOUT_EPISODES or (budget == "cpu" and backbone == "resnet12"):
        return Plan(data, first)
    return Plan(data, first, second_stage(budget, data, method, shots, backbone, "" if first else options))


def first_stage(budget: str, data: str, method: str, backbone: str, options: str) -> Pretraining | None:
    """Classification, where the budget or the method has such a stage."""
    name = method.split(":")[0]
    published = next((PRETRAINING[key] for key in names(name, backbone, data) if key in PRETRAINING), None)
    if budget == "paper" and (published or f"{name}-{backbone}" in TRAINING):             # as its own paper has it
        return published
    known = FIRST_STAGE.get((budget, backbone), "conv4-cpu" if name in WITHOUT_EPISODES else "")
    if not known:
        return None
    recipe = PRETRAINING[known]
    return replace(recipe, backbone=backbone,
                   backbone_options=",".join(filter(None, [recipe.backbone_options, options])))


def second_stage(budget: str, data: str, method: str, shots: int, backbone: str, options: str) -> Training:
    """Episodes; the backbone's options come with the weights of a first stage, so they are given only without one."""
    name, _, method_options = method.partition(":")
    if budget == "paper":
        published = next((TRAINING[key] for key in names(name, backbone, data, shots) if key in TRAINING), None)
        if published:                                                                     # as its own paper has it
            return published
        recipe = next(TRAINING[key] for key in names("", backbone, data, shots) if key in TRAINING)
    else:
        recipe = TRAINING[{"cpu": "conv4-cpu", "tiny": "tiny"}[budget]]
    if budget == "cpu":
        method_options = method_options or CHOSEN.get(name, "")
    papers = recipe.method_options if METHODS[name].compares_descriptors else ""       # the paper's are of descriptors
    recipe = adjusted(recipe, backbone=backbone, backbone_options=options or "drop=0" * (backbone == "resnet12"),
                      method=name, method_options=joined(papers, method_options))
    return replace(recipe, shots=5, queries=3, validate_shots=5) if budget == "cpu" and shots == 5 else recipe


def names(method: str, backbone: str, data: str, shots: int = 1) -> Iterator[str]:
    """What a recipe for this may be called, the most special name first."""
    for of_data in (SHORT.get(data, data), ""):
        for of_shots in ("5shot", "") if shots == 5 else ("",):
            yield "-".join(filter(None, (method, backbone, of_data, of_shots)))


def joined(*options: str) -> str:
    """Options one after another; a later one replaces an earlier one of the same name."""
    values = dict(setting.split("=", 1) for text in options for setting in text.split(",") if setting)
    return ",".join(f"{name}={value}" for name, value in values.items())
