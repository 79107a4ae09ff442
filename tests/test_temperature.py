import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dmn4.classify.held_out import Answers
from dmn4.classify.shots import Shots
from dmn4.classify.temperature import SPREADS, STRANGE, STRANGERS, best_power, find_temperature, spread, spread_of
from dmn4.methods import build_method
from dmn4.methods.base import Law

MEASURED = Path(__file__).parents[1] / "docs" / "results" / "temperature-law.md"
NOTHING = torch.empty(0, 5), torch.empty(0, dtype=torch.long)


def single_shots(classes: int) -> Shots:
    maps = torch.randn(classes, 6, 2, 2, generator=torch.Generator().manual_seed(0)).half()
    return Shots.of(maps, torch.arange(classes), torch.zeros(classes, dtype=torch.long), torch.arange(classes))


def judge(support: Shots, pictures: Shots) -> tuple[torch.Tensor, torch.Tensor]:
    scores = build_method("protonet")(support.maps.float(), support.labels, pictures.maps.float())
    return scores, scores.amax(1)


def fitted(scores: torch.Tensor, labels: torch.Tensor, shots: int = 1) -> tuple[float, float]:
    """The temperatures of a classifier with two pictures a class, one of which judged these."""
    rows = torch.arange(2 * scores.shape[1])
    held = Shots.of(torch.zeros(len(rows), 1, 1, 1).half(), rows // 2, torch.zeros_like(rows), rows)
    answers = Answers(scores, scores.amax(1), labels, torch.arange(len(labels)), float(shots))
    return find_temperature(build_method("protonet"), judge, held, answers)


def drawn(count: int, temperature: float, ways: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores whose right class is drawn with the probabilities that this temperature gives."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(count, ways, generator=generator)
    return scores, torch.multinomial((scores / temperature).softmax(1), 1, generator=generator).squeeze(1)


def test_the_rule_is_the_one_that_was_measured():
    text = MEASURED.read_text()
    line = re.search(r"power = (\S+) (\S+) ln\(ways\) (\S+) ln\(shots\)", text).groups()
    assert [float(number) for number in line] == list(SPREADS)
    assert f"1 - {STRANGE} / ways" in text


def test_the_law_of_dmn4_linear_is_the_one_that_was_measured():
    text = MEASURED.with_name("photo-temperature.md").read_text()
    line = re.search(r"power = (\S+) (\S+) ln\(ways\) (\S+) ln\(shots\)", text).groups()
    assert [float(number) for number in line] == list(build_method("dmn4-linear").temperature_law)


def test_more_shots_and_fewer_ways_are_surer():
    assert SPREADS.power(5, 5) < SPREADS.power(5, 1)
    assert SPREADS.power(2, 1) < SPREADS.power(20, 1)


def test_the_law_of_dmn4_linear_follows_its_options():
    plain, sharp = (build_method("dmn4-linear", temperature=t).temperature_law for t in (1.0, 0.5))
    assert isinstance(plain, Law)
    assert sharp.power(5, 5) - plain.power(5, 5) == pytest.approx(math.log(2))
    assert build_method("dmn4-linear", linear=0.5).temperature_law is None       # another scale, not measured


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
    scores = torch.tensor([[5.0, 0.0]] * 8)
    sure = (scores / fitted(scores, torch.zeros(8, dtype=torch.long))[0]).softmax(1)[0, 0]
    assert 0.9 < sure < 0.999


def test_answers_right_half_of_the_time_get_about_one_half():
    scores = torch.tensor([[3.0, 0.0]] * 60)
    assert (scores / fitted(scores, torch.tensor([0, 1] * 30))[0]).softmax(1)[0, 0] == pytest.approx(0.5, abs=0.1)


def test_one_more_shot_than_was_held_out_lowers_the_temperature_as_usual():
    before, after = fitted(*drawn(20, 1.0))
    assert after / before == pytest.approx(math.exp(SPREADS.power(4, 2) - SPREADS.power(4, 1)))


@given(st.floats(0.1, 50))
def test_the_scale_of_the_scores_does_not_change_the_probabilities(scale):
    scores, labels = drawn(20, 0.5)
    first, second = (each / fitted(each, labels)[1] for each in (scores, scores * scale))
    assert torch.allclose(first, second, atol=1e-3)


def test_equal_scores_have_a_temperature_above_zero():
    assert fitted(torch.ones(3, 4), torch.tensor([0, 1, 2]))[1] > 0


def test_of_single_pictures_strangers_tell_the_spread_a_few_of_many_classes():
    asked = []

    def counted(support: Shots, pictures: Shots) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(len(support.counts))
        return judge(support, pictures)

    assert spread(counted, single_shots(30), None) > 0
    assert asked == [29] * STRANGERS


def test_spread_is_the_mean_deviation_within_a_picture():
    assert spread_of(torch.tensor([[0.0, 2.0], [5.0, 5.0]])) == pytest.approx(math.sqrt(2) / 2)
