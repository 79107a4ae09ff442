"""From a table of the paper to measured numbers: train, evaluate, write the page; goes on where it stopped."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..data.folders import ImageSet
from ..data.layouts import open_split
from ..errors import InputError
from ..evaluation.contenders import load_trained
from ..evaluation.evaluate import Protocol, evaluate
from ..methods import METHODS
from ..training.pretrain import pretrain
from ..training.runs import Run
from ..training.train import train
from .overview import write_overview
from .page import write_page
from .plans import Plan
from .sheets import DATA, Cell, Measured, Sheet


class Step(NamedTuple):
    """A training or a measurement behind a table; what it makes lies in a folder, where it is found done."""

    key: str
    work: Callable[["Workshop"], object]
    needs: Sequence[str] = ()            # keys of steps that come before it


Wait = Callable[[str], None]             # returns when the step of this key is done
Crew = Callable[["Workshop", Sequence[Step]], AbstractContextManager[Wait]]


@contextmanager
def alone(workshop: "Workshop", steps: Sequence[Step]) -> Iterator[Wait]:
    """Nobody works ahead: each number is made when it is asked for."""
    yield lambda key: None


@dataclass(frozen=True)
class Workshop:
    """Where the data are, where results go, how much may be spent, and who works."""

    out: Path
    budget: str
    data: Mapping[str, str]              # name -> folder
    shown: bool = True
    given: Mapping[str, str] = field(default_factory=dict)       # DATA/BACKBONE -> weights that figures use as they are
    crew: Crew = alone

    def open(self, name: str, split: str) -> ImageSet:
        """A split of a data set, or of the drawn pictures."""
        return open_split("drawn" if name == "drawn" else self.data[name], split)

    def stands_in(self, name: str) -> bool:
        """Whether drawn pictures take the place of this data set: at the smallest budget, where it is not there."""
        return self.budget == "tiny" and name not in self.data

    def has(self, name: str) -> bool:
        """Whether there are pictures of this data set, or drawn ones in their place."""
        return name in self.data or self.stands_in(name)

    def placed(self, plan: Plan) -> Plan:
        """The plan on the pictures that are there."""
        data = "drawn" if self.stands_in(plan.data) else plan.data
        return replace(plan, data=data, teacher=plan.teacher and self.placed(plan.teacher))

    def steps(self, plan: Plan, protocol: Protocol, methods: Sequence[str]) -> list[Step]:
        """What `measure` does for some methods on the weights of one plan; none without the data."""
        if not self.has(plan.data):
            return []
        trained = trainings(self.placed(plan))
        return [*trained, Step(card_name(self.placed(plan), protocol, methods),
                               partial(Workshop.measure, plan=plan, protocol=protocol, methods=methods),
                               [step.key for step in trained[-1:]])]

    def val(self, name: str) -> ImageSet | None:
        """The validation classes, where a data set has any (meta-iNat has none)."""
        try:
            return self.open(name, "val")
        except InputError:
            return None

    def weights(self, plan: Plan) -> Path | None:
        """The run folder of a plan, its stages done, resumed or found done; None for a plan without any."""
        folder: Path | None = None
        images, val = self.open(plan.data, "train"), self.val(plan.data)
        teacher = self.weights(plan.teacher) if plan.teacher else ""
        if plan.pretraining:
            before = replace(plan.pretraining, teacher=str(teacher))
            folder = self.out / "runs" / replace(plan, training=None).key
            finished(pretrain(images, folder, before, val=val, resume=True, shown=self.shown))
        if plan.training:
            after = replace(plan.training, weights=str(folder / "backbone.safetensors") if folder else "")
            folder = self.out / "runs" / plan.key
            finished(train(images, folder, after, val=val, resume=True, shown=self.shown))
        return folder

    def measure(self, plan: Plan, protocol: Protocol, methods: Sequence[str]) -> dict[str, Measured]:
        """The numbers of some methods on the weights of one plan, all on the same episodes; those done are read."""
        if self.stands_in(plan.data):
            plan = replace(plan, data="drawn")
        elif plan.data not in self.data:
            reason = f"needs {DATA[plan.data]}: give --data {plan.data}=FOLDER"
            return {method: Measured(reason=reason) for method in methods}
        who = hashlib.sha256(repr((methods, protocol)).encode()).hexdigest()[:6]
        card = self.out / "cards" / f"{plan.key}-{protocol.shots}shot-{who}" / "card.json"
        if not card.exists():
            trained = load_trained(str(self.weights(plan) or ""))
            adapts = any(METHODS[method.split(":")[0]].adapts for method in methods)
            evaluate(self.open(plan.data, "test"), {method: trained.with_method(method) for method in methods},
                     protocol, card.parent, resume=True, shown=self.shown,
                     base=self.open(plan.data, "train") if adapts else None)
        return Measured.on(card, methods)


def card_name(plan: Plan, protocol: Protocol, methods: Sequence[str]) -> str:
    """The folder of a card: another one for other weights, methods or episodes."""
    who = hashlib.sha256(repr((methods, protocol)).encode()).hexdigest()[:6]
    return f"{plan.key}-{protocol.shots}shot-{who}"


def trainings(plan: Plan, weights: Callable[..., object] = Workshop.weights) -> list[Step]:
    """The stages of a plan, each after the one whose weights it starts from; `weights` runs a stage."""
    steps = trainings(plan.teacher, weights) if plan.teacher else []
    stages = [stage for stage in (replace(plan, training=None), plan) if stage.pretraining or stage.training]
    for stage in dict.fromkeys(stages):
        steps.append(Step(stage.key, partial(weights, plan=stage), [step.key for step in steps[-1:]]))
    return steps


def finished(run: Run) -> None:
    """Raise an InputError if a training was stopped before its end."""
    if run.stopping:
        raise InputError(f"stopped in {str(run.folder)!r}; the same command goes on from there")


@dataclass(frozen=True)
class Entry:
    """Something of the paper that can be reproduced: what it is, and what writes its page."""

    about: str
    run: Callable[[Workshop, str], Path]          # workshop, name -> the page
    picture: Callable[[Workshop, str], Path] | None = None        # the same for a picture that goes with it
    sheet: Callable[[str], Sheet] | None = None   # budget -> the cells of a table, with their plans


def table(about: str, make: Callable[[str], Sheet]) -> Entry:
    """The entry of a table whose cells are measured as their plans say; `make` gives the sheet for a budget."""
    return Entry(about, partial(measure_sheet, make), sheet=make)


def plan_table(workshop: Workshop, name: str, entry: Entry) -> Path:
    """Write what a table would train and test at the workshop's budget; returns the Markdown file."""
    if entry.sheet is None:
        raise InputError(f"{name!r} trains nothing cell by cell: --plan goes with tables")
    sheet = entry.sheet(workshop.budget)
    pictures = {data: len(workshop.open(data, "train")) for data in workshop.data}
    return write_overview(workshop.out / f"{name}-{workshop.budget}-plan.md", sheet, workshop.budget, pictures)


def measure_sheet(make: Callable[[str], Sheet], workshop: Workshop, name: str) -> Path:
    """Measure the cells of a table, plan by plan, and write the page after each; returns the Markdown file."""
    sheet, measured = make(workshop.budget), dict[Cell, Measured]()
    path = workshop.out / f"{name}-{workshop.budget}.md"
    groups: dict[tuple[Plan, int], list[Cell]] = {}
    for cell in sheet.cells:
        groups.setdefault((cell.plan, cell.shots), []).append(cell)
    drawn = tuple(data for data in dict.fromkeys(cell.plan.data for cell in sheet.cells) if workshop.stands_in(data))
    asked = [(plan, sheet.protocol(workshop.budget, shots), list(dict.fromkeys(cell.method for cell in cells)))
             for (plan, shots), cells in groups.items()]
    steps = [workshop.steps(*what) for what in asked]
    every = {step.key: step for group in steps for step in group}
    with workshop.crew(workshop, list(every.values())) as wait:
        for what, group, cells in zip(asked, steps, groups.values(), strict=True):
            for step in group[-1:]:
                wait(step.key)
            numbers = workshop.measure(*what)
            measured |= {cell: numbers[cell.method] for cell in cells}
            write_page(path, sheet, measured, workshop.budget, drawn)
    return path
