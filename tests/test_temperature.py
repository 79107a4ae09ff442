import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dmn4.classify.calibration import (
    BY_SHOTS,
    BY_WAYS,
    START,
    STRANGE,
    STRANGERS,
    best_power,
    fit_temperature,
    single_shot_temperature,
    spread_of,
    strange_scores,
    usual_power,
)
from dmn4.classify.shots import Shots
from dmn4.methods import build_method

MEASURED = Path(__file__).parents[1] / "docs" / "results" / "temperature-law.md"
NOTHING = torch.empty(0, 5), torch.empty(0, dtype=torch.long)


def single_shots(classes: int) -> Shots:
    maps = torch.randn(classes, 6, 2, 2, generator=torch.Generator().manual_seed(0)).half()
    return Shots.of(maps, torch.arange(classes), torch.zeros(classes, dtype=torch.long), torch.arange(classes))


def score(support: Shots, query: torch.Tensor) -> torch.Tensor:
    return build_method("protonet")(*support.plain(), query)


def drawn(count: int, temperature: float, ways: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores whose right class is drawn with the probabilities that this temperature gives."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(count, ways, generator=generator)
    return scores, torch.multinomial((scores / temperature).softmax(1), 1, generator=generator).squeeze(1)


def test_the_rule_is_the_one_that_was_measured():
    text = MEASURED.read_text()
    line = re.search(r"power = (\S+) (\S+) ln\(ways\) (\S+) ln\(shots\)", text).groups()
    assert [float(number) for number in line] == [START, BY_WAYS, BY_SHOTS]
    assert f"1 - {STRANGE} / ways" in text


def test_more_shots_and_fewer_ways_are_surer():
    assert usual_power(5, 5) < usual_power(5, 1)
    assert usual_power(2, 1) < usual_power(20, 1)


def test_without_pictures_the_power_is_the_usual_one():
    assert best_power(*NOTHING, usual=-0.7, far=0.3) == pytest.approx(-0.7, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_many_pictures_find_the_temperature_that_drew_their_labels(temperature):
    scores, labels = drawn(40_000, temperature)
    assert math.exp(best_power(scores, labels, usual=-0.7, far=0.35)) == pytest.approx(temperature, rel=0.02)


def test_few_pictures_move_it_less_than_many():
    scores, labels = drawn(4000, 3.0)
    few, many = (best_power(scores[:count], labels[:count], usual=-0.7, far=0.35) for count in (6, 4000))
    assert -0.7 < few < many


def test_answers_that_are_all_right_are_not_certain():
    scores, labels = torch.tensor([[5.0, 0.0]] * 8), torch.zeros(8, dtype=torch.long)
    usual = usual_power(2, 1)
    sure = (scores / fit_temperature(scores, labels, usual, usual)).softmax(1)[0, 0]
    assert 0.9 < sure < 0.999


def test_answers_right_half_of_the_time_get_about_one_half():
    scores, labels = torch.tensor([[3.0, 0.0]] * 60), torch.tensor([0, 1] * 30)
    usual = usual_power(2, 1)
    assert (scores / fit_temperature(scores, labels, usual, usual)).softmax(1)[0, 0] == pytest.approx(0.5, abs=0.1)


def test_one_more_shot_than_was_held_out_lowers_the_temperature_as_usual():
    scores, labels = drawn(20, 1.0)
    before, after = usual_power(4, 1), usual_power(4, 2)
    ratio = fit_temperature(scores, labels, before, after) / fit_temperature(scores, labels, before, before)
    assert ratio == pytest.approx(math.exp(after - before))


@given(st.floats(0.1, 50))
def test_the_scale_of_the_scores_does_not_change_the_probabilities(scale):
    scores, labels = drawn(20, 0.5)
    first, second = (each / fit_temperature(each, labels, -0.7, -0.9) for each in (scores, scores * scale))
    assert torch.allclose(first, second, atol=1e-3)


def test_equal_scores_have_a_temperature_above_zero():
    assert fit_temperature(torch.ones(3, 4), torch.tensor([0, 1, 2]), -0.7, -0.9) > 0
    assert single_shot_temperature(torch.ones(3, 4), 5) > 0


def test_a_stranger_is_scored_by_the_other_classes_alone():
    shots = single_shots(4)
    found = strange_scores(score, shots)
    assert found.shape == (4, 3)
    distances = -((shots.maps.float().mean((2, 3))[2] - shots.maps.float().mean((2, 3))[[0, 1, 3]]) ** 2).sum(1)
    assert torch.allclose(found[2], distances, atol=1e-4)


def test_of_many_classes_a_few_are_judged_as_strangers():
    assert strange_scores(score, single_shots(30)).shape == (STRANGERS, 29)


def test_spread_is_the_mean_deviation_within_a_picture():
    assert spread_of(torch.tensor([[0.0, 2.0], [5.0, 5.0]])) == pytest.approx(math.sqrt(2) / 2)
