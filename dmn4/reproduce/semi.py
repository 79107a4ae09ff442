"""The paper's semi-supervised table (Sec. 4.5), and a picture of what its classes adopt."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from ..data.folders import ImageSet
from ..episodes.maps import MapStore, pictures
from ..episodes.sampling import Episode, split_labelled
from ..evaluation.contenders import load_trained
from ..evaluation.evaluate import Protocol, evaluate
from ..evaluation.intervals import Accuracy
from ..methods.mn4_semi import AdoptingMethod
from ..recipes import PRETRAINING, TRAINING, Training
from ..training.pretrain import pretrain
from ..training.train import train
from .adopted import Adopted, draw_adopted, find_adopted, tally, true_classes
from .figures import Drawn, available, embedded, write_figure
from .page import write_page
from .plans import CHOSEN, Plan
from .published import SEMI
from .sheets import DATA, Cell, Measured, Sheet
from .workshop import Entry, Step, Workshop, finished, trainings

LABELLED = 0.4
TAUGHT, TESTED = 5, 20                                       # unlabelled images of each class in training and in test
SPLITS = {"tiny": 1, "cpu": 1, "paper": 10}
EPISODES = {"tiny": 20, "cpu": 300, "paper": 10_000}         # test episodes on each split
STRANGE = {"tiny": 3, "cpu": 5, "paper": 5}                  # distractor classes in test
COLUMNS = [(shots, strange) for strange in (False, True) for shots in (1, 5)]
NOTES = {
    "tiny": f"tiny: networks a quarter as wide, 32-pixel images, {EPISODES['tiny']} test episodes with 10 queries and "
            f"{STRANGE['tiny']} distractor classes (the paper: 15 and 5), one training for both settings",
    "cpu": "cpu: one split, 300 test episodes; eight epochs of pre-training on the labelled part, then 400 training "
           "episodes at one shot, for both settings and both numbers of shots",
    "paper": "",
}
NOTE = ("40 % labelled in training, validation and test classes, the split drawn once per seed; 5 unlabelled images of "
        "each class in training and validation, 20 in test; pn, tpn and dsn "
        "on the classic Conv-4 (5 x 5 maps of 84 pixels), the others on the paper's (19 x 19); TPN's own paper has "
        "50.43 and 64.95 with distractors")


# --------------------------------------------------------------------------------------------------- what is trained

def schedule(budget: str, data: str, method: str, shots: int, strange: bool, seed: int) -> Plan:
    """The stages for one method; a smaller budget pre-trains, and trains once for both settings (cpu: and shots)."""
    recipe = replace(episodes_for(budget, method, shots), backbone=backbone_of(method), method=method, seed=seed,
                     labelled=LABELLED, unlabelled=0 if method == "dn4" else TAUGHT)
    if budget == "paper":
        return Plan(data, None, replace(recipe, distractors=5 if strange and method != "dn4" else 0))
    short = replace(PRETRAINING["conv4-cpu"], epochs=8, early_size=60, validate_every=4)
    first = replace(short if budget == "cpu" else PRETRAINING["tiny"], backbone=recipe.backbone, seed=seed)
    return Plan(data, first, replace(recipe, backbone_options=""))


def episodes_for(budget: str, method: str, shots: int) -> Training:
    """The episodes of a budget; in all of them every episode is embedded by itself, with its unlabelled images."""
    if budget == "paper":                                    # Sec. 4.5 or, for a rival, its own paper
        recipe = f"{method}-conv4" if f"{method}-conv4" in TRAINING else "mn4-semi-conv4"
        five = f"{recipe}-5shot"
        return TRAINING[recipe] if shots == 1 else TRAINING.get(five) or replace(
            TRAINING[recipe], shots=5, queries=10, validate_shots=5)
    if budget == "tiny":
        return replace(TRAINING["tiny"], shots=shots, queries=7 if shots == 1 else 3, epochs=2)
    return replace(TRAINING["conv4-cpu"], epochs=2, episodes=200, step_episodes=2, batch_classes=0, batch_images=0,
                   lr=5e-3 if backbone_of(method) == "conv4" else 1e-3, method_options=CHOSEN.get(method, ""))


def backbone_of(method: str) -> str:
    """Conv-4 as the method's own paper has it."""
    return "conv4" if method in ("dn4", "mn4-semi", "dmn4-semi") else "conv4-classic"


def labelled_part(images: ImageSet, seed: int) -> ImageSet:
    """The images that keep their label."""
    return images.rows(np.flatnonzero(split_labelled(images.labels, LABELLED, seed)))


def weights(workshop: Workshop, plan: Plan) -> Path:
    """The run folder of a plan, done, resumed or found done; pre-training sees the labelled part alone."""
    images, val, folder = workshop.open(plan.data, "train"), workshop.val(plan.data), Path()
    if plan.pretraining:
        seed, folder = plan.pretraining.seed, workshop.out / "runs" / f"{replace(plan, training=None).key}-labelled"
        finished(pretrain(labelled_part(images, seed), folder, plan.pretraining,
                          val=val and labelled_part(val, seed), resume=True, shown=workshop.shown))
    if plan.training:
        after = replace(plan.training, weights=str(folder / "backbone.safetensors")) if plan.pretraining else \
            plan.training
        folder = workshop.out / "runs" / f"{plan.key}-labelled"
        finished(train(images, folder, after, val=val, resume=True, shown=workshop.shown))
    return folder


# -------------------------------------------------------------------------------------------------- what is measured

def protocol_of(budget: str, shots: int, strange: bool, seed: int) -> Protocol:
    """The test episodes of one column on one split."""
    return Protocol(5, shots, 10 if budget == "tiny" else 15, EPISODES[budget], seed=seed, unlabelled=TESTED,
                    distractors=STRANGE[budget] if strange else 0, labelled=LABELLED)


def written(method: str, strange: bool) -> str:
    """A method with the option that tells it of distractors, if it has one."""
    return f"{method}:distractors=1" if method == "dsn-semi" and strange else method


def measure(workshop: Workshop, data: str, method: str, shots: int, strange: bool, seed: int) -> Measured:
    """The number of one method on one split; those done are read. All methods see the same episodes."""
    plan = schedule(workshop.budget, data, method, shots, strange, seed)
    card = workshop.out / "cards" / card_name(plan, shots, strange) / "card.json"
    if not card.exists():
        contender = load_trained(str(weights(workshop, plan))).with_method(written(method, strange))
        evaluate(workshop.open(data, "test"), {method: contender}, protocol_of(workshop.budget, shots, strange, seed),
                 card.parent, resume=True, shown=workshop.shown)
    return Measured.on(card, [method])[method]


def card_name(plan: Plan, shots: int, strange: bool) -> str:
    """The folder of a card."""
    return f"{plan.key}-{shots}shot{'-strange' * strange}"


def steps_of(budget: str, data: str, method: str, shots: int, strange: bool) -> list[list[Step]]:
    """What `measure` does on each split; the last step is the measurement."""
    steps = []
    for seed in range(SPLITS[budget]):
        plan = schedule(budget, data, method, shots, strange, seed)
        work = partial(measure, data=data, method=method, shots=shots, strange=strange, seed=seed)
        steps.append([*trainings(plan, weights), Step(card_name(plan, shots, strange), work, [plan.key])])
    return steps


def mean_of(splits: Sequence[Measured]) -> Measured:
    """The mean of the means and of the half-widths over all splits, with all cards."""
    numbers = [split.accuracy for split in splits if split.accuracy]
    mean, half_width = np.mean([(accuracy.mean, accuracy.half_width) for accuracy in numbers], axis=0).tolist()
    return Measured(Accuracy(mean, half_width), ", ".join(split.card for split in splits))


def make_sheet(budget: str) -> Sheet:
    """The table; DN4 makes no use of unlabelled images, so it has no column with distractors."""
    cells = [Cell("dn4 (labelled only)" if method == "dn4" else method, column_name(shots, strange), paper,
                  schedule(budget, "miniimagenet", method, shots, strange, 0), method, shots)
             for method, papers in SEMI.items() for (shots, strange), paper in zip(COLUMNS, papers, strict=True)
             if not (method == "dn4" and strange)]
    return Sheet("miniImageNet, 40 % labelled: semi-supervised methods, Conv-4", cells,
                 f"{NOTE}; {NOTES[budget]}".rstrip("; "), lambda budget, shots: protocol_of(budget, shots, False, 0))


def column_name(shots: int, strange: bool) -> str:
    """What stands above a column."""
    return f"{shots}-shot{', distractors' * strange}"


def write_semi(workshop: Workshop, name: str) -> Path:
    """Measure the table column by column, and write the page after each number; returns the Markdown file."""
    sheet, measured, budget = make_sheet(workshop.budget), dict[Cell, Measured](), workshop.budget
    path, drawn = workshop.out / f"{name}-{budget}.md", workshop.stands_in("miniimagenet")
    missing = Measured(reason=f"needs {DATA['miniimagenet']}: give --data miniimagenet=FOLDER")
    data, has = "drawn" if drawn else "miniimagenet", workshop.has("miniimagenet")
    places = [(cell, shots, strange) for shots, strange in COLUMNS
              for cell in sheet.cells if cell.column == column_name(shots, strange)]
    steps = {cell: steps_of(budget, data, cell.method, shots, strange) if has else []
             for cell, shots, strange in places}
    every = {step.key: step for splits in steps.values() for split in splits for step in split}
    with workshop.crew(workshop, list(every.values())) as wait:
        for cell, shots, strange in places:
            for split in steps[cell]:
                wait(split[-1].key)
            splits = [measure(workshop, data, cell.method, shots, strange, seed) for seed in range(len(steps[cell]))]
            measured[cell] = mean_of(splits) if splits else missing
            write_page(path, sheet, measured, budget, ("miniimagenet",) if drawn else ())
    return path


# ------------------------------------------------------------------------------------------------- what is adopted

def adoption(workshop: Workshop, picture: Path) -> Drawn:
    """What the classes of a one-shot task adopt with MN4-semi, distractors among the unlabelled images."""
    data, = available(workshop, "miniimagenet")
    plan = schedule(workshop.budget, data, "mn4-semi", 1, True, 0)
    trained = load_trained(str(weights(workshop, plan))).with_method()
    assert isinstance(trained.method, AdoptingMethod)
    images, maps = embedded(workshop, data, trained)
    episodes = list(islice(protocol_of(workshop.budget, 1, True, 0).draw(images.labels), 20))
    first, truth = episodes[0], true_classes(episodes[0], images.labels)
    height, width = maps[first.support].shape[2:]
    draw_adopted(adopted_in(first, maps, trained.method), pictures(images, first.unlabelled).numpy(), truth,
                 (height, width), [images.classes[label] for label in first.classes], picture)
    counts = torch.stack([tally(adopted_in(one_task, maps, trained.method), true_classes(one_task, images.labels), 5)
                          for one_task in episodes]).sum((0, 1))                                       # (3,)
    right, other, strange = (counts / counts.sum()).tolist()
    return "What classes adopt from unlabelled pictures (MN4-semi, Conv-4, 1 shot)", [
        f"of the {int(counts.sum()):,} descriptors adopted in {len(episodes)} tasks {right:.1%} came from pictures of "
        f"the class that took them, {other:.1%} of another class of the task, {strange:.1%} of distractors",
        f"by chance: {TESTED / len(truth):.1%}, {4 * TESTED / len(truth):.1%}, {1 - 5 * TESTED / len(truth):.1%}",
        "the picture shows the first task: frames are adopted patches, their colour the class that took them"]


@torch.no_grad()
def adopted_in(episode: Episode, maps: MapStore, method: AdoptingMethod) -> Adopted:
    """What the classes of one task adopt."""
    pool = method.derive_with(maps[episode.support], episode.support_labels, maps[episode.unlabelled])
    return find_adopted(pool, len(episode.support))


def draw_adoption(workshop: Workshop, name: str) -> Path:
    """Draw the picture of adoption and write its page."""
    return write_figure(adoption, workshop, f"{name}-picture")


ENTRY = Entry("semi-supervised methods, with and without distractors (Table 6)", write_semi, picture=draw_adoption,
              sheet=make_sheet)
