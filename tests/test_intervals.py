"""Means, intervals and paired differences."""

import numpy as np
import pytest
from scipy import stats

from dmn4.errors import InputError
from dmn4.evaluation.intervals import accuracy_of, half_width, paired_difference

FOUR = np.array([0.4, 0.5, 0.6, 0.7])


@pytest.mark.parametrize(("formula", "expected"), [("t", 0.205426), ("normal", 0.109567)])
def test_the_two_formulas_give_the_published_example(formula, expected):
    assert half_width(FOUR, formula) == pytest.approx(expected, abs=1e-6)


def test_repeats_average_their_means_and_their_half_widths():
    result = accuracy_of(np.stack([FOUR, 2 * FOUR]))
    assert result.mean == pytest.approx(0.825)
    assert result.half_width == pytest.approx(1.5 * 0.205426, abs=1e-5)


def test_an_unknown_formula_is_refused_by_name():
    with pytest.raises(InputError, match="unknown interval formula 'z'; choose one of t, normal"):
        half_width(FOUR, "z")


def test_a_constant_lead_is_certain_however_much_episodes_differ():
    second = np.array([0.25, 0.5, 0.75])
    difference = paired_difference(second + 0.125, second)
    assert (difference.mean, difference.half_width, difference.p_value) == (0.125, 0, 0)


def test_the_p_value_is_that_of_the_paired_t_test_and_tightness_the_ratio_of_intervals():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 0.1, 200)                                 # what both methods share
    first, second = 0.6 + hard + rng.normal(0, 0.02, 200), 0.59 + hard + rng.normal(0, 0.02, 200)
    difference = paired_difference(first, second)
    assert difference.p_value == pytest.approx(stats.ttest_1samp(first - second, 0).pvalue)
    assert difference.half_width == pytest.approx(half_width(first - second))
    separate = np.sqrt(half_width(first) ** 2 + half_width(second) ** 2)
    assert difference.tighter == pytest.approx(separate / difference.half_width)
    assert difference.tighter > 3


def test_a_method_does_not_differ_from_itself():
    difference = paired_difference(FOUR, FOUR)
    assert (difference.mean, difference.half_width, difference.p_value) == (0, 0, 1)
