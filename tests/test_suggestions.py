import csv

import numpy as np
import pytest
import torch
from test_cli_photos import home, run  # noqa: F401  the fixture
from toy_pictures import Eye, labelled, painted

from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.suggestions import representatives, suggest_pictures
from dmn4.errors import InputError


def corners(*degrees: float) -> torch.Tensor:
    """Points on a circle."""
    turns = torch.tensor(degrees).deg2rad()
    return torch.stack([turns.cos(), turns.sin()], dim=1)


def test_every_group_is_shown_before_any_is_shown_twice():
    groups = [0, 0, 0, 1, 1, 2, 2]
    chosen = representatives(corners(0, 2, 4, 120, 121, 240, 241), 3).tolist()
    assert sorted(groups[place] for place in chosen) == [0, 1, 2]


def test_what_is_like_a_labelled_picture_comes_last():
    chosen = representatives(corners(0, 90, 180, 270), 4, labelled=corners(91, 181)).tolist()
    assert set(chosen[:2]) == {0, 3}


def test_of_groups_as_large_the_one_that_is_unsure_comes_first():
    groups, doubts = corners(0, 2, 120, 122, 240, 242), torch.tensor([0.1, 0.1, 0.9, 0.9, 0.5, 0.5])
    chosen = representatives(groups, 3, doubts=doubts).tolist()
    assert [place // 2 for place in chosen] == [1, 2, 0]


def test_of_many_pictures_an_even_share_stands_for_all(monkeypatch):
    monkeypatch.setattr("dmn4.classify.suggestions.MOST", 4)
    vectors = corners(0, 1, 2, 90, 91, 92, 180, 181, 182, 270, 271, 272)
    chosen = suggest_pictures(((some, torch.ones(len(some))) for some in vectors.split(5)), 4).tolist()
    assert sorted(place // 3 for place in chosen) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [1, 5, 12, 40])
def test_every_picture_is_suggested_once_at_most(count):
    vectors = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    chosen = representatives(vectors, count, vectors[:3]).tolist()
    assert len(chosen) == len(set(chosen)) == min(count, 12)


def test_a_colour_that_nobody_labelled_is_suggested_first():
    classifier = FewShotClassifier(backbone=Eye()).fit(*labelled(4, noise=15))
    inbox = [*painted("red", 3, seed=1, noise=15), *painted("grey", 2, seed=1, noise=15),
             *painted("blue", 3, seed=1, noise=15)]
    assert classifier.suggest(inbox, 1)[0] in (3, 4)


def test_a_first_set_shows_every_colour():
    pictures, truth = labelled(6, noise=15)
    chosen = FewShotClassifier(backbone=Eye()).suggest(iter(pictures), n=3)
    assert isinstance(chosen, np.ndarray)
    assert {truth[place] for place in chosen} == {"red", "green", "blue"}


def test_nothing_to_choose_from_is_said():
    with pytest.raises(InputError, match="no pictures were given"):
        FewShotClassifier(backbone=Eye()).suggest([])
    with pytest.raises(InputError, match="at least 1, not 0"):
        FewShotClassifier(backbone=Eye()).suggest(painted("red", 2), n=0)


def test_the_command_names_pictures_with_a_model_and_without(home, tmp_path, capsys):  # noqa: F811
    table = tmp_path / "label.csv"
    code, out, messages = run(["suggest", home / "colours.dmn4", home / "inbox", "-n", "4", "--csv", table], capsys)
    names = out.split("\n")[:-1]
    assert code == 0
    assert len(set(names)) == 4
    assert "left out: cannot read" in messages
    assert [(row["image"], row["label"]) for row in csv.DictReader(table.open())] == [(name, "") for name in names]
    code, _, messages = run(["suggest", home / "colours.dmn4"], capsys)
    assert code == 2
    assert "no pictures to choose from" in messages
