"""The semi-supervised table: who sees which images, what a budget affords, and the picture of adoption."""

from dataclasses import replace

import numpy as np
import pytest

from dmn4.data.layouts import open_split
from dmn4.errors import InputError
from dmn4.evaluation.intervals import Accuracy
from dmn4.methods import METHODS
from dmn4.recipes import PRETRAINING, TRAINING
from dmn4.reproduce import ENTRIES, Workshop, semi
from dmn4.reproduce.plans import BUDGETS
from dmn4.reproduce.published import SEMI
from dmn4.reproduce.sheets import Measured
from dmn4.training.steps import step_batches


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """The smallest budget, made smaller still."""
    small = {"backbone_options": "width=0.125", "size": 24, "epochs": 1, "validate_every": 0}
    monkeypatch.setitem(PRETRAINING, "tiny", replace(PRETRAINING["tiny"], **small, batch=320))
    monkeypatch.setitem(TRAINING, "tiny", replace(TRAINING["tiny"], **small, episodes=1))
    monkeypatch.setitem(semi.EPISODES, "tiny", 2)
    return Workshop(tmp_path, "tiny", {}, shown=False)


def test_the_published_numbers_are_the_papers():
    assert SEMI["mn4-semi"] == (53.48, 71.06, 52.73, 70.31)
    assert SEMI["dn4"][:2] == (51.46, 68.75)
    assert set(SEMI) == {name for name in METHODS if "semi" in name} - {"dmn4-linear-semi"} | {"dn4"}


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_method_has_four_cells_but_dn4_none_with_distractors(budget):
    cells = semi.make_sheet(budget).cells
    assert len(cells) == len({(cell.row, cell.column) for cell in cells}) == 4 * len(SEMI) - 2
    assert not [cell for cell in cells if cell.method == "dn4" and "distractors" in cell.column]


def test_the_papers_budget_is_the_papers_schedule_on_ten_splits():
    one, five = (semi.schedule("paper", "miniimagenet", "mn4-semi", shots, True, 3).training for shots in (1, 5))
    assert (one.epochs, one.episodes, one.step_episodes) == (30, 5_000, 1)
    assert (five.epochs, five.episodes, five.step_episodes, five.queries) == (30, 10_000, 2, 10)
    assert (one.unlabelled, one.distractors, one.labelled, one.seed) == (5, 5, 0.4, 3)
    assert semi.SPLITS["paper"] == 10
    assert semi.schedule("paper", "miniimagenet", "mn4-semi", 1, False, 0).training.distractors == 0
    test = semi.protocol_of("paper", 1, True, 3)
    assert (test.unlabelled, test.distractors, test.labelled, test.seed) == (20, 5, 0.4, 3)


def test_dn4_trains_without_unlabelled_images():
    recipe = semi.schedule("paper", "miniimagenet", "dn4", 5, False, 0).training
    assert (recipe.labelled, recipe.unlabelled, recipe.distractors) == (0.4, 0, 0)


@pytest.mark.parametrize("shots", [1, 5])
def test_the_drawn_pictures_are_enough_for_the_smallest_budget(shots):
    episode = next(semi.protocol_of("tiny", shots, True, 0).draw(open_split("drawn", "test").labels))
    assert len(episode.unlabelled) == (5 + 3) * 20
    assert "3 distractor classes" in semi.make_sheet("tiny").note


@pytest.mark.parametrize("budget", BUDGETS)
def test_training_draws_unlabelled_images_outside_the_labelled_part(budget):
    labels = np.arange(20).repeat(60)
    recipe = semi.schedule(budget, "miniimagenet", "mn4-semi", 5, True, 4).training
    one = step_batches(labels, recipe, step=0)[0]
    known = semi.split_labelled(labels, 0.4, 4)
    own, (episode,) = known[one.rows], one.episodes
    assert own[episode.support].all()
    assert own[episode.query].all()
    assert not own[episode.unlabelled].any()
    assert len(episode.unlabelled) == (5 + recipe.distractors) * 5


def test_pretraining_sees_the_labelled_part_alone(workshop, monkeypatch):
    seen = {}
    for stage in ("pretrain", "train"):
        monkeypatch.setattr(semi, stage, lambda images, folder, recipe, *, val, stage=stage, **more: seen.update(
            {stage: images, f"{stage} val": val, f"{stage} recipe": recipe}))
    monkeypatch.setattr(semi, "finished", lambda run: None)
    semi.weights(workshop, semi.schedule("tiny", "drawn", "mn4-semi", 1, True, 0))
    counts = {name: np.unique(np.bincount(seen[name].labels)).tolist() for name in seen if "recipe" not in name}
    assert counts == {"pretrain": [16], "pretrain val": [16], "train": [40], "train val": [40]}
    assert seen["train recipe"].weights.endswith("backbone.safetensors")


def test_splits_are_averaged_and_all_their_cards_named():
    mean = semi.mean_of([Measured(Accuracy(0.5, 0.02), "a"), Measured(Accuracy(0.6, 0.04), "b")])
    assert mean.accuracy.mean == pytest.approx(0.55)
    assert mean.accuracy.half_width == pytest.approx(0.03)
    assert mean.card == "a, b"


def test_a_small_table_is_measured_once_and_says_what_was_reduced(workshop, monkeypatch):
    monkeypatch.setattr(semi, "SEMI", {name: SEMI[name] for name in ("dsn-semi", "dn4", "mn4-semi")})
    page = ENTRIES["semi"].run(workshop, "semi").read_text()
    assert "→ -" not in page
    assert page.count(" → ") == 10 + 1                              # ten cells, and the note that explains them
    assert "3 distractor classes (the paper: 15 and 5)" in page
    assert len(list((workshop.out / "runs").iterdir())) == 2 + 6    # two backbones; three methods at 1 and 5 shots
    monkeypatch.setattr(semi, "evaluate", None)                     # would fail if it were called
    assert ENTRIES["semi"].run(workshop, "semi").read_text() == page


def test_without_miniimagenet_a_larger_budget_says_what_it_needs(tmp_path):
    workshop = Workshop(tmp_path, "cpu", {}, shown=False)
    page = ENTRIES["semi"].run(workshop, "semi").read_text()
    assert "give --data miniimagenet=FOLDER" in page
    assert "53.48 → -" in page
    with pytest.raises(InputError, match="--data miniimagenet=FOLDER"):
        ENTRIES["semi"].picture(workshop, "semi")


def test_the_picture_tells_how_many_descriptors_came_from_distractors(workshop):
    page = ENTRIES["semi"].picture(workshop, "semi")
    text = page.read_text()
    assert "descriptors adopted in 2 tasks" in text
    assert "by chance: 12.5%, 50.0%, 37.5%" in text
    assert page.with_suffix(".png").exists()
