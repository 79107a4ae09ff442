"""The paper's tables: cells, plans, pages."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from dmn4.backbones import build_backbone
from dmn4.evaluation.evaluate import Protocol
from dmn4.evaluation.intervals import Accuracy
from dmn4.methods import METHODS
from dmn4.recipes import PRETRAINING, TRAINING, Pretraining, Training, parse_options
from dmn4.reproduce import ENTRIES, Workshop, published, sheets, tables
from dmn4.reproduce.page import cell_text, fill_grid
from dmn4.reproduce.plans import BUDGETS, Plan, plan_for
from dmn4.reproduce.sheets import Cell, Measured, Sheet
from dmn4.reproduce.workshop import measure_sheet

MAKERS = {"sota-mini": tables.sota_mini, "sota-tiered": tables.sota_tiered, "fine-grained": tables.fine_grained,
          "descriptor-size": tables.descriptor_size, "odm": tables.odm, "rank": tables.rank}


def test_the_published_dmn4_numbers_are_the_papers():
    assert published.SOTA_CONV4["dmn4"] == (55.77, 74.22, 56.99, 74.13)
    assert published.SOTA_RESNET12["dmn4"] == (66.58, 83.52, 72.10, 85.72)
    assert published.FINE_GRAINED["dmn4"][:2] == (78.36, 92.16)
    assert len(published.SOTA_CONV4) == len(published.SOTA_RESNET12) == 19


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", MAKERS)
def test_every_cell_names_methods_networks_and_data_that_exist(name, budget):
    sheet = MAKERS[name](budget)
    assert name in ENTRIES
    places = [(cell.row, cell.column) for cell in sheet.cells]
    assert len(places) == len(set(places))
    for cell in sheet.cells:
        assert cell.method.split(":")[0] in METHODS
        assert cell.plan.data in sheets.DATA
        assert cell.plan.pretraining or cell.plan.training


def test_the_papers_budget_is_the_papers_schedule():
    plan = plan_for("paper", "miniimagenet", "dmn4", 5)
    assert plan.pretraining is None
    assert (plan.training.epochs, plan.training.episodes) == (30, 20_000)
    assert (plan.training.shots, plan.training.queries) == (5, 10)
    plan = plan_for("paper", "miniimagenet", "mn4", 1, "resnet12")
    assert (plan.pretraining.epochs, plan.training.epochs) == (350, 40)
    assert parse_options(plan.training.method_options) == {"shots": "mean", "temperature": 0.5}


def test_at_the_papers_budget_a_rival_has_its_own_papers_stages():
    plan = plan_for("paper", "miniimagenet", "feat", 5)
    assert plan.pretraining == PRETRAINING["feat-conv4"]
    assert plan.training == TRAINING["feat-conv4-5shot"]
    assert plan_for("paper", "miniimagenet", "protonet", 1) == Plan("miniimagenet", None, TRAINING["protonet-conv4"])
    assert plan_for("paper", "miniimagenet", "rfs", 1, "resnet12") == Plan("miniimagenet", PRETRAINING["rfs-resnet12"])


def test_an_ablation_network_is_built_by_its_plan():
    plan = plan_for("cpu", "miniimagenet", "dn4", 1, "resnet12", "blocks=64-160,pools=2")
    backbone = build_backbone("resnet12", **parse_options(plan.pretraining.backbone_options))
    assert backbone.out_channels == 40                              # 160, a quarter as wide


def test_different_plans_have_different_folders():
    plans = [plan_for("cpu", "cub", method, shots) for method in ("dn4", "dmn4") for shots in (1, 5)]
    assert len({plan.key for plan in plans}) == 4
    assert len({replace(plan, training=None).key for plan in plans}) == 1       # they share a first stage


def test_a_cell_shows_paper_measured_and_difference():
    cell = Cell("dmn4", "1-shot", 55.77, Plan("cub"), "dmn4")
    assert cell_text(cell, {cell: Measured(Accuracy(0.5, 0.002))}) == "55.77 → 50.00 ± 0.20 (-5.77)"
    assert cell_text(cell, {cell: Measured(Accuracy(0.5, 0.002))}, ("cub",)) == "55.77 → 50.00 ± 0.20"
    assert cell_text(cell, {}) == "55.77 → -"


def test_a_table_without_data_says_which_and_how_to_get_it(tmp_path):
    page = ENTRIES["fine-grained"].run(Workshop(tmp_path, "cpu", {}, shown=False), "fine-grained").read_text()
    assert "needs meta-iNat (908/227 classes): give --data meta-inat=FOLDER" in page
    assert "78.36 → -" in page
    assert "<td>78.36 → -</td>" in (tmp_path / "fine-grained-cpu.html").read_text()


SMALL = {"backbone_options": "width=0.125", "size": 24, "epochs": 1, "validate_episodes": 2, "validate_every": 0}


def toy_sheet(budget):
    first = Pretraining(**SMALL, batch=400)
    plans = {"dn4": Plan("cub", first), "mn4": Plan("cub", first, Training(
        **SMALL | {"backbone_options": ""}, method="mn4", episodes=1, queries=2))}
    return Sheet("toy", [Cell(name, "1-shot", 70.0, plan, name) for name, plan in plans.items()])


def test_a_small_table_is_measured_and_not_measured_again(tmp_path, monkeypatch):
    workshop = Workshop(tmp_path, "tiny", {}, shown=False)
    page = measure_sheet(toy_sheet, workshop, "toy")
    first = page.read_text()
    assert first.count("70.00 → ") == 2
    assert "→ -" not in first
    assert "drawn pictures stand in for CUB" in first
    assert first.count("card.json") == 2
    monkeypatch.setattr("dmn4.reproduce.workshop.evaluate", None)      # would fail if it were called
    assert measure_sheet(toy_sheet, workshop, "toy").read_text() == first


@contextmanager
def before_anything_is_asked(workshop, steps):
    """A crew that does every step at once, in order."""
    done = []
    for step in steps:
        assert set(step.needs) <= set(done)
        step.work(workshop)
        done.append(step.key)
    yield lambda key: done.index(key)


def test_a_crew_that_works_ahead_makes_the_same_page(tmp_path, monkeypatch):
    alone = measure_sheet(toy_sheet, Workshop(tmp_path / "a", "tiny", {}, shown=False), "toy")
    ahead = measure_sheet(toy_sheet, Workshop(tmp_path / "b", "tiny", {}, False, crew=before_anything_is_asked), "toy")
    assert ahead.read_text().replace(str(tmp_path / "b"), str(tmp_path / "a")) == alone.read_text()


def test_a_stage_that_cells_share_is_one_step_and_the_teacher_comes_first():
    cells = toy_sheet("tiny").cells
    workshop = Workshop("", "tiny", {})
    steps = [workshop.steps(cell.plan, Protocol(episodes=5), [cell.method]) for cell in cells]
    assert [len(group) for group in steps] == [2, 3]
    assert steps[0][0].key == steps[1][0].key
    taught = replace(cells[0].plan, teacher=cells[0].plan)
    first, second, last = workshop.steps(taught, Protocol(episodes=5), ["dn4"])
    assert (first.key, second.needs, last.needs) == (steps[0][0].key, [first.key], [second.key])
    assert "drawn" in second.key


def test_drawn_pictures_stand_in_for_the_teachers_too():
    plan = Workshop("", "tiny", {}).placed(Plan("cub", teacher=Plan("cub")))
    assert plan == Plan("drawn", teacher=Plan("drawn"))


def test_without_its_data_a_cell_has_no_steps():
    assert not Workshop("", "cpu", {}).steps(Plan("cub", Pretraining(**SMALL)), Protocol(), ["dn4"])


def test_the_grid_has_a_line_for_each_row_and_a_column_for_each_kind():
    grid = fill_grid(tables.rank("tiny"), {})
    assert len(grid) == 1 + 8
    assert grid[0] == ["", "miniimagenet 1-shot", "miniimagenet 5-shot", "cub 1-shot", "cub 5-shot"]
