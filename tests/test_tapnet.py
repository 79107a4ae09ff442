"""TapNet: references and class means coincide in the null space of an episode."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.solvers import null_space
from dmn4.methods.tapnet import TapNet, choose_references, reference_errors
from dmn4.methods.vectors import class_means, pooled


def tapnet(references=3, seed=0):
    torch.manual_seed(seed)
    return TapNet(6, references=references).double()


def test_after_the_projection_references_and_class_means_coincide():
    references, means = torch.randn(3, 7).double(), torch.randn(3, 7).double()
    basis = null_space(reference_errors(references, means))
    assert basis.shape == (7, 4)
    apart = F.normalize(3 * references - references.sum(0), dim=1)
    assert_close(apart @ basis, F.normalize(means, dim=1) @ basis)


def test_scores_are_the_formula_in_the_projected_space():
    (support, labels, query), method = random_episode(), tapnet()
    references, bias = method.references.weight, method.references.bias
    basis = null_space(reference_errors(references, class_means(pooled(support), labels)))
    vectors = pooled(query)
    expected = (2 * (vectors @ basis @ basis.T @ references.T + bias) - (references @ basis).square().sum(1)
                - (vectors @ basis).square().sum(1)[:, None])
    assert_close(method(support, labels, query), expected)


def test_each_class_takes_the_closest_reference_that_is_left():
    references = torch.tensor([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0], [9.0, 9.0]])
    means = torch.tensor([[0.9, 0.0], [1.1, 0.0], [8.0, 8.0]])
    assert choose_references(means, references, torch.zeros(4)).tolist() == [1, 0, 3]
    assert choose_references(means, references, torch.tensor([0.0, 0, 9, 0])).tolist() == [2, 1, 3]


def test_as_many_classes_as_references_take_them_in_order():
    means, references = torch.tensor([[5.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [5.0, 0.0]])
    assert choose_references(means, references, torch.zeros(2)).tolist() == [0, 1]


def test_no_gradient_passes_the_null_space_and_references_learn():
    (support, labels, query), method = random_episode(), tapnet(references=5)
    support, query = support.requires_grad_(), query.requires_grad_()
    method(support, labels, query).square().sum().backward()
    assert support.grad is None
    assert query.grad.abs().sum() > 0
    assert (method.references.weight.grad.abs().sum(1) > 0).sum() == 3       # those that were chosen


def test_scores_do_not_depend_on_the_order_of_shots_or_on_other_queries():
    (support, labels, query), method = random_episode(), tapnet(references=5)
    scores = method(support, labels, query)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), scores)
    assert_close(method(support, labels, query[1:2]), scores[1:2])


def test_the_loss_falls_on_a_stream_of_episodes():
    before, after = train_on_stream(tapnet().float())
    assert after < 0.9 * before


def test_too_many_classes_are_refused():
    support, labels, query = random_episode()
    with pytest.raises(InputError, match="tapnet has 2 references for 3 classes"):
        tapnet(references=2)(support, labels, query)
    with pytest.raises(InputError, match="there are 3 channels, 3 classes"):
        TapNet(3)(support[:, :3].float(), labels, query[:, :3].float())
    with pytest.raises(InputError, match="'tapnet' learns layers: give channels="):
        TapNet()
