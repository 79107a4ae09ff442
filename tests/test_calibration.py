"""Promises about new pictures: none of these, sets of classes, and how sure they are."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from dmn4.classify.calibration import Calibration, calibrate
from dmn4.classify.held_out import BUDGET, ROUNDS, judge_held_out, rounds
from dmn4.classify.shots import Shots
from dmn4.methods import build_method
from dmn4.methods.linear_head import fit_head


def shots_of(maps: Tensor, labels: list[int]) -> Shots:
    rows = torch.arange(len(labels))
    return Shots.of(maps.half(), torch.tensor(labels), torch.zeros_like(rows), rows)


def clusters(shots: int, classes: int = 4, spread: float = 1.0, seed: int = 0) -> tuple[Tensor, list[int]]:
    """Maps around the centre of each class: (classes * shots, 8, 2, 2)."""
    generator = torch.Generator().manual_seed(seed)
    labels = [label for label in range(classes) for _ in range(shots)]
    centres = torch.eye(8)[:, :, None, None] * 3
    return centres[labels] + spread * torch.randn(len(labels), 8, 2, 2, generator=generator), labels


METHOD = build_method("dmn4-linear")


def judge(support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
    head = fit_head(support.maps.means, support.labels, [8], 100.0)
    scores = METHOD(support.maps.float(), support.labels, pictures.maps.float())
    return scores, head.scores(pictures.maps.means).amax(1)


def test_in_every_round_each_class_of_several_pictures_gives_up_one_and_keeps_the_rest():
    shots = shots_of(torch.randn(6, 8, 2, 2), [0, 0, 0, 1, 1, 2])
    assert [held_out.tolist() for held_out in rounds(shots)] == [[0, 3], [1, 4], [2]]


def test_of_many_pictures_a_class_gives_up_a_tenth_in_each_round():
    held_out = rounds(shots_of(torch.randn(50, 8, 2, 2), [0, 1] * 25))
    assert len(held_out) == ROUNDS
    assert sorted(torch.cat(held_out).tolist()) == list(range(50))


def test_no_more_pictures_are_judged_than_the_budget_spread_over_the_classes():
    asked = []

    def cheap(support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
        asked.append(pictures.labels)
        return torch.zeros(len(pictures.labels), 500), torch.zeros(len(pictures.labels))

    labels = torch.arange(500).repeat_interleave(2).tolist()
    answers = judge_held_out(cheap, shots_of(torch.randn(1000, 8, 1, 1), labels))
    assert answers is not None
    assert len(answers.labels) == BUDGET
    assert len(asked) == 1
    assert int(asked[0].diff().max()) <= 2


def test_nobody_vouches_for_itself():
    def peeking(support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
        assert not torch.isin(pictures.image, support.image).any()
        return judge(support, pictures)

    judge_held_out(peeking, shots_of(*clusters(3)))


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_about_the_promised_share_of_known_pictures_is_refused(share):
    refused = []
    for seed in range(12):
        shots = shots_of(*clusters(5, seed=seed))
        calibration = calibrate(METHOD, judge, shots)
        fresh = shots_of(*clusters(20, seed=100 + seed))
        refused.append(float((calibration.known(judge(shots, fresh)[1]) <= share).double().mean()))
    assert 0.3 * share < np.mean(refused) < share + 0.03


def test_sets_hold_the_class_as_often_as_promised():
    held, sizes = [], []
    for seed in range(12):
        shots = shots_of(*clusters(6, spread=5.0, seed=seed))
        calibration = calibrate(METHOD, judge, shots)
        fresh = shots_of(*clusters(20, spread=5.0, seed=100 + seed))
        sets = calibration.contains(calibration.probabilities(judge(shots, fresh)[0]), 0.8)
        held.append(float(sets.gather(1, fresh.labels[:, None]).double().mean()))
        sizes.append(float(sets.sum(1).double().mean()))
    assert 0.76 < np.mean(held) < 0.9
    assert np.mean(sizes) < 3.5                                        # of four classes: it says something


def test_strangers_fit_worse_than_known_pictures():
    shots = shots_of(*clusters(5))
    calibration = calibrate(METHOD, judge, shots)
    query, labels = clusters(5, classes=7, seed=1)
    known = calibration.known(judge(shots, shots_of(query, labels))[1])
    assert float((known[20:] <= 0.1).double().mean()) > 0.8 > 0.4 > float((known[:20] <= 0.1).double().mean())


def test_the_share_of_known_pictures_that_fit_no_better_by_hand():
    calibration = Calibration(fits=(0.1, 0.2, 0.2, 0.7), chances=(0.1,) * 4)
    assert calibration.known(torch.tensor([0.0, 0.1, 0.2, 0.5, 0.9])).tolist() == [0.2, 0.4, 0.8, 0.8, 1.0]


def test_sets_by_hand():
    calibration = Calibration(fits=(0.0,) * 9, chances=(0.1, 0.3, *[0.9] * 7))
    chances = torch.tensor([[0.6, 0.2, 0.1], [0.35, 0.35, 0.3], [0.05, 0.05, 0.05]])
    assert calibration.contains(chances, 0.8).tolist() == [[True, False, False], [True, True, True], [False] * 3]
    assert calibration.contains(chances, 0.75).tolist() == [[True, False, False], [False] * 3, [False] * 3]     # 0.6
    assert calibration.contains(chances, 0.95).all()                   # nine pictures cannot promise more than 90 %


def test_single_pictures_support_no_promise():
    calibration = calibrate(METHOD, judge, shots_of(*clusters(1)))
    assert (calibration.held_out, calibration.rejects(0.5)) == (0, False)
    assert calibration.known(torch.zeros(2)).isnan().all()
    assert calibration.contains(torch.ones(2, 4) / 4, 0.9).all()
    assert "refusing 10% of known pictures takes 9 held-out ones and there are 0" in calibration.promise(0.1)


def test_a_promise_says_how_sure_it_is():
    few, many = (Calibration(fits=(0.0,) * count, chances=(0.0,) * count) for count in (19, 999))
    assert re.search(r"about 10% of known pictures \(2% to 23%, judged by 19", few.promise(0.1))
    assert re.search(r"about 10% of known pictures \(8% to 12%, judged by 999", many.promise(0.1))


def test_a_picture_given_twice_does_not_vouch_for_itself():
    maps, labels = clusters(3)
    twice = shots_of(torch.cat([maps, maps]), labels * 2)
    assert calibrate(METHOD, judge, twice) == calibrate(METHOD, judge, shots_of(maps, labels))


def test_a_class_of_copies_is_a_single_picture():
    maps, labels = clusters(1)
    assert calibrate(METHOD, judge, shots_of(torch.cat([maps, maps]), labels * 2)).held_out == 0


def test_two_single_pictures_have_a_temperature_too():
    for name in ("dmn4", "dmn4-linear"):
        assert 0 < calibrate(build_method(name), judge, shots_of(*clusters(1, classes=2))).temperature < 1e3
