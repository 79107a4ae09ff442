"""FRN: queries rebuilt from the descriptors of a class."""

import math

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.methods.frn import FRN


def frn(**options):
    return FRN(**options).double()


def test_two_equal_descriptors_rebuild_half_of_the_query():
    support, query = torch.ones(1, 1, 1, 2), torch.full((1, 1, 1, 2), 4.0)
    assert_close(FRN()(support, torch.tensor([0]), query), torch.tensor([[-4.0]]), atol=1e-4, rtol=0)    # lambda + 1e-6


@pytest.mark.parametrize("channels", [2, 6, 30])
def test_the_error_is_that_of_the_hat_matrix(channels):
    support, labels, query = random_episode(shots=(2, 3), channels=channels)
    method, expected = frn(), []
    with torch.no_grad():
        method.alpha.fill_(0.3), method.beta.fill_(-0.2), method.scale.fill_(2.0)
    for c in range(2):
        rows = support[labels == c].flatten(2).mT.flatten(0, 1)
        strength = len(rows) / channels * math.exp(0.3) + 1e-6
        hat = torch.linalg.inv(rows.T @ rows + strength * torch.eye(channels)) @ rows.T @ rows
        wanted = query.flatten(2).mT
        expected.append(-2 * (math.exp(-0.2) * wanted @ hat - wanted).square().sum(2).mean(1))
    assert_close(method(support, labels, query), torch.stack(expected, 1))


def test_what_the_support_spans_is_rebuilt_when_lambda_vanishes():
    support, labels, _ = random_episode(shots=(1, 1), channels=30)
    method = frn()
    method.alpha.data.fill_(-30.0)
    mixed = 0.5 * support[labels == 0] - 2 * support[labels == 0].flip(3)
    scores = method(support, labels, mixed)
    assert scores[0, 0].item() == pytest.approx(0, abs=1e-6)
    assert scores[0, 1] < -1


def test_scaling_divides_features_by_the_root_of_their_width():
    support, labels, query = random_episode()
    assert_close(frn(scaling="sqrt")(support, labels, query), frn()(support / 6 ** 0.5, labels, query / 6 ** 0.5))


def test_the_auxiliary_loss_is_the_sum_over_pairs_of_classes():
    support, labels, query = random_episode()
    whole = support / support.norm()
    rows = [whole[labels == c].flatten(2).mT.flatten(0, 1) for c in range(3)]
    expected = sum((rows[i] @ rows[j].T).square().sum() for i, j in [(0, 1), (0, 2), (1, 2)])
    for scaling in ("none", "sqrt"):
        assert_close(frn(scaling=scaling).auxiliary(support, labels, query, labels), 0.03 * expected)


def test_the_gradient_goes_through_the_regression():
    support, labels, query = random_episode(shots=(2, 1), queries=2, channels=3)
    method = frn()

    def score(support, query, alpha, beta, scale):
        return torch.func.functional_call(method, {"alpha": alpha, "beta": beta, "scale": scale},
                                          (support, labels, query))

    learnt = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.1, -0.2, 1.3)]
    assert gradcheck(score, [support.requires_grad_(), query.requires_grad_(), *learnt])


def test_scores_do_not_depend_on_the_order_of_shots_of_locations_or_on_other_queries():
    (support, labels, query), method = random_episode(), frn()
    scores = method(support, labels, query)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), scores)
    assert_close(method(support.flip(2), labels, query.mT), scores)
    assert_close(method(support, labels, query[1:2]), scores[1:2])


def test_renaming_the_classes_permutes_the_scores():
    (support, labels, query), method = random_episode(), frn()
    names = torch.tensor([2, 0, 1])
    assert_close(method(support, names[labels], query)[:, names], method(support, labels, query))


def test_queries_may_have_maps_of_another_size():
    support, labels, query = random_episode()
    assert_close(frn()(support, labels, query.repeat(1, 1, 2, 1)), frn()(support, labels, query))


def test_the_loss_falls_on_a_stream_of_episodes():
    before, after = train_on_stream(FRN())
    assert after < 0.9 * before
