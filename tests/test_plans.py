"""The plan of every cell of every table, at every budget, would run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dmn4.data.samples import draw_clutter
from dmn4.errors import InputError
from dmn4.evaluation.contenders import load_trained
from dmn4.evaluation.evaluate import evaluate
from dmn4.methods import METHODS, build_method
from dmn4.recipes import PRETRAINING, TRAINING, Pretraining, Training, parse_options
from dmn4.reproduce import ENTRIES, Workshop, overview
from dmn4.reproduce.plans import BUDGETS, Plan, joined, plan_for
from dmn4.reproduce.workshop import plan_table
from dmn4.training.pretrain import pretrain, start_network
from dmn4.training.setup import check_recipe
from dmn4.training.train import start_model, train

SHEETS = {(name, budget): entry.sheet(budget) for name, entry in ENTRIES.items() if entry.sheet for budget in BUDGETS}
CELLS = [(name, budget, cell) for (name, budget), sheet in SHEETS.items() for cell in sheet.cells]
PLANS = {(plan.pretraining, plan.training): None for _, _, cell in CELLS for plan in (cell.plan, cell.plan.teacher)
         if plan}
# One model of their own papers serves all numbers of shots: many-shot solvers, or episodes of one shot.
FOR_ALL_SHOTS = {"metaoptnet", "meta-baseline", "deepemd", "frn", "ctx", "covariance", "dsn"}
# Settings of systems that stand in no table of the paper, or of their first publication; and what other stages borrow.
BESIDE = {"wrn28-10", "resnet12-cub", "protonet-2017", "relationnet-2018", "dn4-2019", "conv4-classic-cpu", "mcl-conv4",
          "conv4-nbnn-cpu", "conv4-many-cpu", "mcl-resnet12", "mcl-conv4-cub", "metaoptnet-rr-conv4",
          "metaoptnet-rr-resnet12"}


def test_every_table_of_the_paper_has_cells_with_plans():
    assert {name for name, _ in SHEETS} == {"sota-mini", "sota-tiered", "fine-grained", "descriptor-size", "odm",
                                            "rank", "semi"}
    assert len(CELLS) > 800


@pytest.mark.parametrize(("name", "budget"), SHEETS)
def test_every_cell_builds_its_networks_its_heads_and_its_method(name, budget):
    built = {}
    with torch.device("meta"):                                # everything but the numbers
        for cell in SHEETS[name, budget].cells:
            plan, whole = cell.plan, cell.plan.whole_training
            for stage in filter(None, (plan.pretraining, whole, plan.teacher and plan.teacher.pretraining)):
                if stage not in built:
                    check_recipe(stage)
                    built[stage] = (start_network(stage, 7) if isinstance(stage, Pretraining) else
                                    start_model(stage)).backbone.out_channels
            method, _, options = cell.method.partition(":")
            build_method(method, channels=built[whole or plan.pretraining], **parse_options(options))


@pytest.mark.parametrize(("name", "budget"), [one for one in SHEETS if one[1] != "tiny"])
def test_a_cell_is_trained_with_as_many_shots_as_it_tests_unless_its_paper_has_one_model(name, budget):
    for cell in SHEETS[name, budget].cells:
        recipe = cell.plan.training
        if recipe and not (budget == "cpu" and name == "semi") and recipe.method not in FOR_ALL_SHOTS:
            assert recipe.shots == cell.shots, (cell.row, cell.column)
        if recipe and recipe.method in FOR_ALL_SHOTS - {"meta-baseline", "deepemd", "dsn"} and budget == "paper":
            assert recipe.shots >= 5


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", ["sota-mini", "sota-tiered"])
def test_resnet12_compares_descriptors_with_the_mean_map_of_the_shots(name, budget):
    five = {cell.row: cell for cell in SHEETS[name, budget].cells if cell.column == "resnet12 5-shot"}
    assert {row for row, cell in five.items() if "shots=mean" in cell.method} == {"dn4", "mn4", "dmn4"}
    trained = [cell.plan.training for cell in five.values() if cell.plan.training]
    for recipe in trained if budget == "paper" else ():
        assert ("shots=mean,temperature=0.5" in recipe.method_options) == METHODS[recipe.method].compares_descriptors


@pytest.mark.parametrize("method", ["protonet", "relationnet", "dn4", "mn4", "dmn4"])
def test_what_the_paper_reimplemented_has_its_backbone_and_its_schedule(method):
    shared = ("backbone", "optimizer", "lr", "betas", "epochs", "episodes", "step_episodes", "ways", "transform")
    for backbone, shots in (("conv4", 1), ("conv4", 5), ("resnet12", 1), ("resnet12", 5)):
        plan, own = (plan_for("paper", "miniimagenet", one, shots, backbone) for one in (method, "dmn4"))
        assert plan.pretraining == own.pretraining
        assert [getattr(plan.training, name) for name in shared] == [getattr(own.training, name) for name in shared]


def test_a_data_set_with_settings_of_its_own_has_them():
    def training(data, method, shots=1, backbone="conv4"):
        return plan_for("paper", data, method, shots, backbone).training

    assert training("tieredimagenet", "dmn4", 5, "resnet12").epochs == 100
    assert training("tieredimagenet", "frn", 5, "resnet12").epochs == 60
    assert training("cub", "frn").optimizer == "sgd"
    assert training("meta-inat", "frn").optimizer == training("tiered-meta-inat", "ctx").optimizer == "adam"
    assert (training("cub", "protonet").ways, training("cub", "protonet", 5).ways) == (30, 20)


def test_every_recipe_is_reached_by_a_table_or_stands_beside_them():
    reached = {id_of(stage) for stages in PLANS for stage in stages if stage}
    missed = {name for name, recipe in (PRETRAINING | TRAINING).items() if id_of(recipe) not in reached
              and id_of(TRAINING.get(name, recipe)) not in reached}
    assert missed - {"resnet12-cpu", "conv4-cpu", "tiny", "mn4-semi-conv4", "mn4-semi-conv4-5shot", "pn-semi-conv4",
                     "pn-semi-masked-conv4", "tpn-semi-conv4", "dsn-semi-conv4", "resnet12", "resnet12-5shot", "conv4",
                     "conv4-5shot"} == BESIDE


def id_of(recipe):
    """A recipe without what a table fills in."""
    return replace(recipe, backbone_options="", method_options="") if isinstance(recipe, Training) else replace(
        recipe, backbone_options="")


def test_a_setting_that_is_new_renames_no_folder_of_old_plans():
    plan = plan_for("cpu", "cub", "dmn4")
    assert plan.key == Plan("cub", replace(plan.pretraining), replace(plan.training, average=0.0)).key
    assert plan.key != Plan("cub", plan.pretraining, replace(plan.training, average=0.9)).key


def test_of_two_options_with_one_name_the_later_counts():
    assert joined("shots=mean,temperature=0.5", "", "temperature=2,share=0.3") == "shots=mean,temperature=2,share=0.3"


# ---------------------------------------------------------------------------------------------------- the overview

def test_pictures_are_counted_each_time_they_are_embedded():
    recipe = Training(epochs=2, episodes=10, step_episodes=5, ways=5, shots=1, queries=15)
    assert overview.pictures_seen(recipe, None) == 2 * 10 * 80
    assert overview.pictures_seen(replace(recipe, method="dsn"), None) == 2 * 10 * 85             # and a flip of each
    assert overview.pictures_seen(replace(recipe, unlabelled=3, distractors=1), None) == 2 * 10 * (80 + 6 * 3)
    assert overview.pictures_seen(replace(recipe, batch_classes=8, batch_images=4), None) == 2 * 2 * 32
    assert overview.pictures_seen(replace(recipe, reuse="no", episodes=0, step_episodes=1), 850) == 2 * 10 * 80
    assert overview.pictures_seen(replace(recipe, reuse="no", episodes=0), None) is None
    assert overview.pictures_seen(Pretraining(epochs=3, batch=100), 250) == 3 * 200


def test_the_overview_names_recipe_options_shots_and_hours_of_each_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "seconds_a_picture", lambda *_: 0.036)
    page = plan_table(Workshop(tmp_path, "paper", {}), "sota-mini", ENTRIES["sota-mini"]).read_text()
    line, = (line for line in page.splitlines() if line.startswith("| dmn4, resnet12 5-shot "))
    assert "resnet12:drop=0.1,square=5 + linear, sgd 0.1, 350 epochs" in line
    assert "dmn4:shots=mean,temperature=0.5, sgd 0.0005, 40 epochs" in line
    assert "| 5-way 5-shot, 10 queries, 200 episodes an epoch |" in line
    assert "| dmn4:shots=mean, 5-way 5-shot, 10,000 x 10 |" in line
    assert f"| {(350 * 38_400 + 40 * 200 * 75) * 0.036 / 3600:,.1f} |" in line
    assert (tmp_path / "sota-mini-paper-plan.html").exists()


def test_a_figure_has_no_overview(tmp_path):
    with pytest.raises(InputError, match="--plan goes with tables"):
        plan_table(Workshop(tmp_path, "paper", {}), "time", ENTRIES["time"])


# ------------------------------------------------------------------------------------------ one step of each, for real

IMAGES, TESTED = (draw_clutter(classes, 22, 0.2, 32, seed=classes) for classes in (32, 10))
SCHEDULE = {"epochs": 1, "lr": 0.01, "schedule": "constant", "warmup": 0.3, "every": 10, "milestones": "",
            "factors": "", "decay": 0.1, "seed": 0}           # that it can be read is tested above, for every plan
VALIDATION = {"validate": "dmn4", "validate_options": "", "validate_every": 0, "validate_from": 0, "validate_ways": 5,
              "validate_shots": 1, "validate_episodes": 200, "validate_images": 60}


def smallest(recipe, first=False):
    """The recipe with a narrow network, small pictures, and a single step; None stays None."""
    if recipe is None:
        return None
    width = joined(recipe.backbone_options, "width=0.125") if not first else recipe.backbone_options
    more = ({"batch": 64} if isinstance(recipe, Pretraining) else
            {"episodes": 1, "step_episodes": 1, "queries": min(recipe.queries, 3)})
    return replace(recipe, size=32, **SCHEDULE, **VALIDATION, **more, backbone_options=width)


def small_plans():
    """What the cells need, shrunk: those that differ in size or schedule alone are one; and the tests they play."""
    plans = {}
    for name, budget, cell in CELLS:
        plan = cell.plan
        small = smallest(plan.pretraining), smallest(plan.training, first=bool(plan.pretraining))
        plans.setdefault(small, {})[cell.method, protocol_of(name, budget, cell)] = None
    return plans


def protocol_of(name, budget, cell):
    """One episode like those of the cell."""
    protocol = SHEETS[name, budget].protocol(budget, cell.shots)
    few = {"unlabelled": 4, "queries": 2} if name == "semi" else {"queries": 2}
    return replace(protocol, episodes=1, repeats=1, **few)


def quick(method):
    """A method with fewer steps of what it does in every episode."""
    few = {"deepemd": "epochs=1", "centroid": "steps=1,head_steps=1", "e3bm": "steps=2"}
    name, _, options = method.partition(":")
    return ":".join(filter(None, (name, joined(options, few.get(name, "")))))


SMALL = small_plans()


@pytest.mark.slow
@pytest.mark.parametrize("small", SMALL, ids=lambda small: Plan("any", *small).key)
def test_every_plan_takes_a_step_and_plays_an_episode(small, tmp_path, monkeypatch):
    monkeypatch.setattr("dmn4.training.setup.draw_curves", lambda folder: None)       # most of the time
    (first, second), folder = small, None
    if first:
        folder = pretrain(IMAGES, tmp_path / "first", first, shown=False).folder
    if second:
        start = str(folder / "backbone.safetensors") if folder else ""
        folder = train(IMAGES, tmp_path / "second", replace(second, weights=start), shown=False).folder
    trained = load_trained(str(folder))
    for method, protocol in SMALL[small]:
        played = evaluate(TESTED, {method: trained.with_method(quick(method))}, protocol, shown=False,
                          base=IMAGES if METHODS[method.split(":")[0]].adapts else None)
        assert np.isfinite(played.values[method]).all()
