import math

import numpy as np
import pytest
import torch
from toy_episodes import as_maps

from dmn4.classify.calibration import Calibration, calibrate, evidence, fit_rejection, likeness, rounds
from dmn4.classify.shots import Shots
from dmn4.methods import build_method


def shots_of(maps: torch.Tensor, labels: list[int], look: list[int] | None = None,
             image: list[int] | None = None) -> Shots:
    rows = list(range(len(labels)))
    columns = (torch.tensor(column) for column in (labels, look or [0] * len(rows), image or rows))
    return Shots.of(maps.half(), *columns)


def clusters(shots: int, classes: int = 4, spread: float = 0.3, seed: int = 0) -> tuple[torch.Tensor, list[int]]:
    """Maps of well separated classes: (classes * shots, 8, 2, 2)."""
    generator = torch.Generator().manual_seed(seed)
    labels = [label for label in range(classes) for _ in range(shots)]
    centres = torch.eye(8)[:, :, None, None] * 3
    return centres[labels] + spread * torch.randn(len(labels), 8, 2, 2, generator=generator), labels


def score(support: Shots, query: torch.Tensor) -> torch.Tensor:
    return build_method("dmn4")(*support.plain(), query)


def seen(shots: Shots, query: torch.Tensor) -> torch.Tensor:
    """The evidence of pictures beside some shots: (Q, C, H, W) -> (Q, 2)."""
    return evidence(score(shots, query), likeness(shots, query))


def test_evidence_of_a_picture_between_two_classes_by_hand():
    shots = shots_of(as_maps([[1.0, 0.0], [0.0, 1.0]]), [0, 1])
    lead, alike = seen(shots, as_maps([[1.0, 0.0], [3.0, 4.0], [1.0, 1.0]])).unbind(1)
    assert lead.tolist() == pytest.approx([1.0, 0.2, 0.0])                       # 1 - 0, 0.8 - 0.6, equal
    assert alike.tolist() == pytest.approx([1.0, 0.8, math.sqrt(0.5)])


def test_beside_one_class_there_is_likeness_but_no_lead():
    assert evidence(torch.tensor([[5.0]]), torch.tensor([[0.6]])).tolist() == [pytest.approx([0.0, 0.6])]


def test_judged_without_its_class_a_picture_has_the_evidence_of_the_others():
    scores, alike = torch.tensor([[9.0, 4.0, 1.0], [2.0, 3.0, 8.0]]), torch.tensor([[0.9, 0.2, 0.3], [0.5, 0.4, 0.6]])
    strangers = evidence(scores, alike, torch.tensor([0, 2]))
    assert strangers.tolist() == [pytest.approx([3.0, 0.3]), pytest.approx([1.0, 0.5])]


def test_in_every_round_each_class_of_several_pictures_gives_up_one():
    maps = torch.randn(6, 4, 2, 2)
    trials = rounds(shots_of(maps, [0, 0, 0, 1, 1, 2]))
    assert [trial.labels.tolist() for trial in trials] == [[0, 1]] * 3
    assert [trial.support.image.tolist() for trial in trials] == [[1, 2, 4, 5], [0, 2, 3, 5], [0, 1, 4, 5]]


def test_strangers_are_told_from_known_pictures():
    maps, labels = clusters(5)
    calibration = calibrate(score, shots_of(maps, labels))
    assert (calibration.source, calibration.held_out) == ("leave-one-out", 20)
    query, _ = clusters(5, classes=7, seed=1)
    known = calibration.known(seen(shots_of(maps, labels), query)) >= 0.5
    assert known.tolist() == [True] * 20 + [False] * 15


def test_single_pictures_are_calibrated_by_their_views():
    maps, labels = clusters(1)
    views, _ = clusters(1, seed=2)
    shots = shots_of(torch.cat([maps, views]), labels * 2, [0] * 4 + [2] * 4, [0, 1, 2, 3] * 2)
    calibration = calibrate(score, shots)
    assert (calibration.source, calibration.held_out, calibration.weights[0]) == ("views", 4, 0.0)
    query, _ = clusters(1, classes=7, seed=3)
    assert (calibration.known(seen(shots, query)) >= 0.5).tolist() == [True] * 4 + [False] * 3


def test_without_views_single_pictures_stay_uncalibrated():
    calibration = calibrate(score, shots_of(*clusters(1)))
    assert calibration == Calibration(source="uncalibrated")
    assert not calibration.rejects
    assert calibration.known(torch.zeros(2, 2)).isnan().all()


def test_two_classes_are_calibrated_by_likeness_alone():
    calibration = calibrate(score, shots_of(*clusters(4, classes=2)))
    assert calibration.weights[0] == 0
    assert calibration.weights[1] > 0


def test_a_picture_given_twice_does_not_vouch_for_itself():
    maps, labels = clusters(3)
    twice = shots_of(torch.cat([maps, maps]), labels * 2)
    once, again = calibrate(score, shots_of(maps, labels)), calibrate(score, twice)
    assert again == once


def test_a_class_of_copies_is_a_single_picture():
    maps, labels = clusters(1)
    assert calibrate(score, shots_of(torch.cat([maps, maps]), labels * 2)).source == "uncalibrated"


def test_the_temperature_of_single_pictures_does_not_depend_on_their_views():
    def alone(support: Shots, query: torch.Tensor) -> torch.Tensor:
        return score(support.rows(support.look == 0), query)

    maps, labels = clusters(1)
    found = {calibrate(alone, shots_of(torch.cat([maps, clusters(1, seed=seed)[0]]), labels * 2, [0] * 4 + [2] * 4,
                                       [0, 1, 2, 3] * 2)).temperature for seed in (2, 3)}
    assert len(found) == 1


def test_two_single_pictures_have_a_temperature_too():
    maps, labels = clusters(1, classes=2)
    shots = shots_of(torch.cat([maps, clusters(1, classes=2, seed=2)[0]]), labels * 2, [0, 0, 2, 2], [0, 1, 0, 1])
    assert 0 < calibrate(score, shots).temperature < math.inf


def test_more_evidence_never_makes_a_picture_stranger():
    rng = np.random.default_rng(0)
    weights, bias = fit_rejection(rng.normal(1, 0.3, (20, 2)), rng.normal(0, 0.3, (20, 2)), lead=True)
    assert min(weights) > 0
    fuller, emptier = Calibration("leave-one-out", weights=weights, bias=bias).known(torch.tensor([[1.0, 1], [0, 0]]))
    assert fuller > 0.5 > emptier
