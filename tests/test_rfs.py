"""RFS: a logistic regression in every episode."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.images import Transform
from dmn4.images.looks import view
from dmn4.methods.rfs import RFS, logistic_regression


def objective(weights, bias, rows, labels, C=1.0):
    loss = F.cross_entropy(rows @ weights.T + bias, labels, reduction="sum")
    return loss + weights.square().sum() / (2 * C)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_fit_minimises_summed_cross_entropy_and_half_the_squared_weights(classes):
    support, labels, _ = random_episode(shots=(4,) * classes)
    rows = F.normalize(support.mean((2, 3)))
    fitted = [torch.from_numpy(x).requires_grad_() for x in logistic_regression(rows.numpy(), labels.numpy(), 1.0)]
    objective(*fitted, rows, labels).backward()
    assert all(x.grad.abs().max() < 5e-3 for x in fitted)                # LBFGS stops there; a wrong C gives 0.1


def test_a_separable_set_is_fitted():
    support = torch.eye(4).repeat_interleave(2, 0)[:, :, None, None] + 0.1
    labels = torch.arange(4).repeat_interleave(2)
    assert RFS()(support, labels, support).argmax(1).tolist() == labels.tolist()


def test_the_scale_of_raw_features_does_not_matter():
    support, labels, query = random_episode()
    assert_close(RFS()(7 * support, labels, 0.1 * query), RFS()(support, labels, query))


def test_a_constant_on_all_class_scores_leaves_the_loss():
    support, labels, query = random_episode()
    scores, answers = RFS()(support, labels, query), torch.tensor([0, 1, 2, 0])
    assert_close(F.cross_entropy(scores + 5, answers), F.cross_entropy(scores, answers))


def test_a_larger_C_fits_with_larger_weights():
    support, labels, _ = random_episode()
    rows, labels = support.mean((2, 3)).numpy(), labels.numpy()
    small, large = (np.linalg.norm(logistic_regression(rows, labels, C)[0]) for C in (0.1, 10))
    assert large > 2 * small


def test_scores_do_not_depend_on_the_order_of_shots_or_on_other_queries():
    support, labels, query = random_episode()
    scores = RFS()(support, labels, query)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(RFS()(support[order], labels[order], query), scores, atol=1e-6, rtol=0)
    assert_close(RFS()(support, labels, query[1:2]), scores[1:2])


@pytest.mark.parametrize("shots", [(2, 3), (2, 1, 3)])
def test_renaming_the_classes_permutes_the_scores(shots):
    support, labels, query = random_episode(shots=shots)
    names = torch.arange(len(shots)).roll(1)
    assert_close(RFS()(support, names[labels], query)[:, names], RFS()(support, labels, query), atol=1e-6, rtol=0)


def test_a_single_class_scores_zero():
    support, _, query = random_episode()
    assert_close(RFS()(support, torch.zeros(6, dtype=torch.long), query), torch.zeros(4, 1).double())


def test_the_loss_falls_on_a_stream_of_episodes():
    before, after = train_on_stream(RFS())
    assert after < 0.95 * before


def test_its_extra_views_are_moved_and_recoloured_pictures_of_the_same_size():
    batch = torch.randint(0, 256, (2, 84, 84, 3), dtype=torch.uint8)
    crop = view(Transform(), "crop")
    first, second = (crop(batch, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert first.shape == Transform()(batch).shape
    assert not torch.equal(first, second)
    assert (crop.crop, crop.padding, crop.jitter, crop.flip) == ("random", 8, 0.4, True)
