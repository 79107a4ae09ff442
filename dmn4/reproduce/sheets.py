"""A table of the paper as cells, each of which says how its number is made; and what a budget affords."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from ..errors import choose
from ..evaluation.evaluate import Protocol
from ..evaluation.intervals import Accuracy
from ..recipes import PRETRAINING, TRAINING, Pretraining, Training, adjusted

DATA = {
    "miniimagenet": "miniImageNet (64/16/20 classes, 84 x 84)",
    "tieredimagenet": "tieredImageNet (351/97/160 classes)",
    "cub": "CUB-200-2011, cropped (100/50/50 classes)",
    "meta-inat": "meta-iNat (908/227 classes)",
    "tiered-meta-inat": "tiered meta-iNat (781/354 classes)",
}

BUDGETS = ("tiny", "cpu", "paper")
FIRST_STAGE = {("cpu", "conv4"): "conv4-cpu", ("cpu", "resnet12"): "resnet12-cpu", ("paper", "resnet12"): "resnet12",
               ("tiny", "conv4"): "tiny", ("tiny", "resnet12"): "tiny"}     # the paper trains Conv-4 from scratch
# The more descriptors a method sums over, the sharper its softmax: chosen on CUB's val (docs/results.md). The
# semi-supervised forms take theirs from dmn4 and protonet: at 1, short episodes spoil the features of a first stage.
# TPN's graph would join everything with everything.
CHOSEN = {"dn4": "temperature=6", "dmn4": "temperature=3", "protonet": "temperature=64",
          **dict.fromkeys(("mn4-semi", "dmn4-semi"), "temperature=3"),
          **dict.fromkeys(("pn-semi", "pn-semi-masked"), "temperature=64"),
          "tpn-semi": "length=0.1"}
WITHOUT_EPISODES = ("rfs", "dc", "negative-margin", "centroid")             # trained by classification alone


def protocol_for(budget: str, shots: int) -> Protocol:
    """The episodes that a budget affords: the paper's 10 x 10,000; 10,000 (5 shots: 2,000); 100."""
    episodes = {"paper": 10_000, "cpu": 10_000 if shots == 1 else 2_000, "tiny": 100}[budget]
    return Protocol(shots=shots, episodes=episodes, repeats=10 if budget == "paper" else 1)


@dataclass(frozen=True)
class Plan:
    """How the weights behind a cell are made: on which data, by which stages."""

    data: str
    pretraining: Pretraining | None = None
    training: Training | None = None
    teacher: "Plan | None" = None        # whose classifier is distilled into this one

    @property
    def key(self) -> str:
        """A folder name that differs for different plans."""
        stages = [stage and asdict(stage) for stage in (self.pretraining, self.training)] + [
            self.teacher and self.teacher.key]
        kind = self.training.method if self.training else "pretrain"
        return f"{self.data}-{kind}-{hashlib.sha256(json.dumps(stages).encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Cell:
    """One number of a table: where it stands, what the paper says, and how it is measured."""

    row: str
    column: str
    paper: float | None
    plan: Plan
    method: str                          # name:option=value,...
    shots: int = 1


@dataclass(frozen=True)
class Sheet:
    """A table of the paper at one budget."""

    title: str
    cells: Sequence[Cell]
    note: str = ""
    protocol: Callable[[str, int], Protocol] = protocol_for       # budget, shots -> episodes


@dataclass(frozen=True)
class Found:
    """What became of a cell: a number and its card, or the reason why there is none."""

    accuracy: Accuracy | None = None
    card: str = ""
    reason: str = ""


def plan_for(budget: str, data: str, method: str, shots: int = 1, backbone: str = "conv4", options: str = "") -> Plan:
    """The stages that a budget affords for one method: the paper's, an hour or two on two cores, or minutes."""
    first = first_stage(choose("budget", budget, BUDGETS), method, backbone, options)
    if method.split(":")[0] in WITHOUT_EPISODES or (budget == "cpu" and backbone == "resnet12"):
        return Plan(data, first)
    return Plan(data, first, second_stage(budget, method, shots, backbone, "" if first else options))


def first_stage(budget: str, method: str, backbone: str, options: str) -> Pretraining | None:
    """Classification, where the budget or the method has such a stage."""
    name = method.split(":")[0]
    own = f"{name}-{backbone}"
    if budget == "paper" and (own in PRETRAINING or own in TRAINING):                     # as its own paper has it
        return PRETRAINING.get(own)
    known = FIRST_STAGE.get((budget, backbone), "conv4-cpu" if name in WITHOUT_EPISODES else "")
    if not known:
        return None
    recipe = PRETRAINING[known]
    return replace(recipe, backbone=backbone,
                   backbone_options=",".join(filter(None, [recipe.backbone_options, options])))


def second_stage(budget: str, method: str, shots: int, backbone: str, options: str) -> Training:
    """Episodes; the backbone's options come with the weights of a first stage, so they are given only without one."""
    name, _, method_options = method.partition(":")
    papers = backbone if shots == 1 else f"{backbone}-5shot"
    if budget == "paper" and f"{name}-{backbone}" in TRAINING:                            # as its own paper has it
        return TRAINING.get(f"{name}-{papers}", TRAINING[f"{name}-{backbone}"])
    recipe = TRAINING[{"paper": papers, "cpu": "conv4-cpu", "tiny": "tiny"}[budget]]
    drop = "drop=0" if backbone == "resnet12" else ""
    if budget == "cpu":
        method_options = method_options or CHOSEN.get(name, "")
    recipe = adjusted(recipe, backbone=backbone, backbone_options=options or drop, method=name,
                      method_options=method_options or recipe.method_options)
    return replace(recipe, shots=5, queries=3, validate_shots=5) if budget == "cpu" and shots == 5 else recipe
