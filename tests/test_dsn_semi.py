"""DSN-semi: origins that unlabelled images move, and the class of distractors."""

import pytest
import torch
from torch.testing import assert_close
from toy_episodes import random_episode

from dmn4.errors import InputError
from dmn4.methods.dsn import DSN
from dmn4.methods.dsn_semi import DSNSemi


def points(*rows):
    return torch.tensor(rows, dtype=torch.float64)[:, :, None, None]


def test_an_unlabelled_image_moves_the_origin_of_a_line():
    support, labels = points((-3, 1), (7, 1)), torch.tensor([0, 0])      # mean (2, 1); with (2, 4): (2, 2)
    scores = DSNSemi()(support, labels, points((5, 2), (2, 7)), points((2, 4)))
    assert_close(scores, torch.tensor([[0.0], [-5.0]]).double(), atol=1e-5, rtol=0)      # the line y = 2


def test_a_single_shot_is_the_mean_of_it_and_what_it_was_given():
    support, labels = points((0, 0), (100, 0)), torch.tensor([0, 1])
    scores = DSNSemi()(support, labels, points((0, 3)), points((0, 2)))
    assert_close(scores, torch.tensor([[-2.0, -(100**2 + 3**2) ** 0.5]]).double())


def test_distractors_near_zero_fall_to_nobody():
    support, labels, query = points((20, 0), (20, 2), (0, 20), (2, 20)), torch.tensor([0, 0, 1, 1]), points((9, 9))
    distractors = points((1, 1), (-1, 0))
    assert_close(DSNSemi(distractors=1)(support, labels, query, distractors), DSN()(support, labels, query))
    assert not torch.allclose(DSNSemi()(support, labels, query, distractors), DSN()(support, labels, query))


def test_the_refined_origin_is_a_weighted_mean_in_plain_loops():
    support, labels, query = random_episode(shots=(3, 2), queries=6, channels=2)
    query, unlabelled = query[:2], query[2:]
    expected = torch.zeros(2, 2, dtype=torch.float64)
    means = torch.stack([support[labels == c].flatten(1).mean(0) for c in range(2)])
    for c in range(2):
        total, weight = support[labels == c].flatten(1).sum(0), float((labels == c).sum())
        for image in unlabelled.flatten(1):
            share = torch.softmax(-(image - means).square().sum(1), 0)[c]
            total, weight = total + share * image, weight + float(share)
        centred = (support[labels == c].flatten(1) - total / weight).T
        basis = torch.linalg.svd(centred, full_matrices=False)[0][:, : centred.shape[1] - 1]
        for place, image in enumerate(query.flatten(1)):
            rest = (image - total / weight) - basis @ (basis.T @ (image - total / weight))
            expected[place, c] = -rest.norm()
    assert_close(DSNSemi()(support, labels, query, unlabelled), expected, atol=1e-6, rtol=0)


def test_without_unlabelled_images_distractors_change_nothing():
    episode = random_episode()
    assert torch.equal(DSNSemi(distractors=1)(*episode), DSN()(*episode))


def test_a_single_shot_asks_for_its_flip():
    assert (DSNSemi.views, DSNSemi.views_shots) == (("flip",), 1)


def test_distractors_are_a_yes_or_a_no():
    with pytest.raises(InputError, match="distractors is 5; it is 1 if"):
        DSNSemi(distractors=5)
