"""MetaOptNet: the SVM and the ridge regression inside an episode."""

from copy import deepcopy

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.metaoptnet import MetaOptNet, MetaOptNetRidge
from dmn4.methods.solvers import svm_dual

BOTH = pytest.mark.parametrize("method", [MetaOptNet(), MetaOptNetRidge()], ids=["svm", "ridge"])


def unit_maps(*axes):
    return torch.eye(2)[list(axes)][:, :, None, None]                  # e1 or e2 at a single location


def test_two_unit_vectors_push_the_svm_to_its_bounds():
    assert_close(svm_dual(torch.eye(2), torch.tensor([0, 1])), torch.tensor([[0.1, -0.1], [-0.1, 0.1]]))
    scores = MetaOptNet()(unit_maps(0, 1), torch.tensor([0, 1]), unit_maps(0))
    assert_close(scores, torch.tensor([[0.1, -0.1]]))


def test_two_unit_vectors_in_ridge_regression():
    scores = MetaOptNetRidge()(unit_maps(0, 1), torch.tensor([0, 1]), unit_maps(0))
    assert_close(scores, torch.tensor([[2 / 51, 0.0]]))
    halved = MetaOptNetRidge(target=1)(unit_maps(0, 1), torch.tensor([0, 1]), unit_maps(0))
    assert_close(halved, scores / 2)


def test_ridge_regression_is_the_formula_of_the_released_code():
    support, labels, query = random_episode()
    rows, queries = support.flatten(1), query.flatten(1)
    coefficients = torch.linalg.inv(rows @ rows.T + 50 * torch.eye(len(rows))) @ (2 * torch.eye(3).double()[labels])
    assert_close(MetaOptNetRidge()(support, labels, query), queries @ rows.T @ coefficients)


def test_without_its_identity_the_svm_is_another_one():
    support, labels, query = random_episode()
    assert not torch.allclose(MetaOptNet(bound=1)(support, labels, query),
                              MetaOptNet(bound=1, identity=0.1)(support, labels, query))


@BOTH
def test_the_gradient_goes_through_the_fit(method):
    support, labels, query = random_episode(shots=(2, 1), queries=2, channels=3, side=1)
    assert gradcheck(lambda support, query: method.double()(support, labels, query),
                     [support.requires_grad_(), query.requires_grad_()], atol=1e-6)


@BOTH
def test_scores_do_not_depend_on_the_order_of_shots_or_on_other_queries(method):
    support, labels, query = random_episode()
    scores = method(support, labels, query)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), scores)
    assert_close(method(support, labels, query[1:2]), scores[1:2])


@BOTH
def test_renaming_the_classes_permutes_the_scores(method):
    support, labels, query = random_episode()
    names = torch.tensor([2, 0, 1])
    assert_close(method(support, names[labels], query)[:, names], method(support, labels, query))


@BOTH
def test_the_loss_falls_on_a_stream_of_episodes(method):
    before, after = train_on_stream(method)
    assert after < 0.9 * before


@BOTH
def test_a_learnt_scale_multiplies_the_scores(method):
    episode, scaled = random_episode(), deepcopy(method)
    scaled.scale.data.fill_(3.0)
    assert_close(scaled(*episode), 3 / method.scale * method(*episode))


def test_pooled_vectors_are_an_option():
    support, labels, query = random_episode()
    means = support.mean((2, 3), keepdim=True), labels, query.mean((2, 3), keepdim=True)
    assert_close(MetaOptNet(vector="gap")(support, labels, query), MetaOptNet()(*means))
    with pytest.raises(InputError, match="unknown vector 'max'; choose one of gap, flat"):
        MetaOptNet(vector="max")


def test_a_bound_or_a_strength_of_zero_is_refused():
    with pytest.raises(InputError, match="bound is 0; it must be above 0"):
        MetaOptNet(bound=0)
    with pytest.raises(InputError, match="strength is -1; it must be above 0"):
        MetaOptNetRidge(strength=-1)
