"""DSN: distances to the subspaces of the classes."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.methods.dsn import DSN
from dmn4.methods.protonet import ProtoNet

FORMS = pytest.mark.parametrize("form", ["conv", "resnet"])


def points(*rows):
    return torch.tensor(rows, dtype=torch.float64)[:, :, None, None]


def test_the_distance_to_a_line_through_two_shots():
    scores = DSN()(points((1, 1), (3, 1)), torch.tensor([0, 0]), points((5, 4)))
    assert_close(scores, torch.tensor([[-3.0]]).double())


def test_the_squared_distance_to_a_line_through_the_origin():
    scores = DSN(form="resnet")(points((1, 0), (2, 0)), torch.tensor([0, 0]), points((5, 4)))
    assert_close(scores, torch.tensor([[-8.0]]).double(), atol=1e-6, rtol=0)


def test_a_query_inside_the_affine_span_leaves_nothing_over():
    support, labels, _ = random_episode(shots=(3, 3))
    inside = (0.2 * support[labels == 1][0] + 1.5 * support[labels == 1][1] - 0.7 * support[labels == 1][2])[None]
    scores = DSN()(support, labels, inside)
    assert scores[0, 1] > -1e-4
    assert scores[0, 0] < -1


@FORMS
def test_the_subspace_is_that_of_the_singular_vectors(form):
    support, labels, query = random_episode(shots=(3, 4))
    rows, queries, expected = support.flatten(1), query.flatten(1), []
    for c in range(2):
        own = rows[labels == c]
        centre = own.mean(0) if form == "conv" else torch.zeros(rows.shape[1]).double()
        basis = torch.linalg.svd((own - centre).T, full_matrices=False)[0][:, :len(own) - 1]
        rest = (queries - centre) - (queries - centre) @ basis @ basis.T
        expected.append(-rest.norm(dim=1) if form == "conv" else -rest.square().mean(1))
    assert_close(DSN(form=form)(support, labels, query), torch.stack(expected, 1), atol=1e-7, rtol=0)


def test_a_single_shot_without_its_flip_is_its_own_mean():
    support, labels, query = random_episode(shots=(1, 1, 1))
    distances = -ProtoNet(vector="flat", temperature=1.0)(support, labels, query)
    assert_close(DSN()(support, labels, query), -distances.sqrt())


def test_a_single_shot_without_its_flip_is_a_line_in_the_resnet_form():
    scores = DSN(form="resnet")(points((1, 0), (0, 1)), torch.tensor([0, 1]), points((5, 4)))
    assert_close(scores, torch.tensor([[-8.0, -12.5]]).double(), atol=1e-6, rtol=0)


def test_a_learnt_scale_multiplies_the_scores_of_the_resnet_form():
    episode, method = random_episode(), DSN(form="resnet")
    before = method(*episode)
    method.scale.data.fill_(3.0)
    assert_close(method(*episode), 3 * before)


@FORMS
def test_the_gradient_goes_through_the_subspace(form):
    support, labels, query = random_episode(shots=(3, 2), queries=2, channels=5, side=1)
    method = DSN(form=form).double()
    assert gradcheck(lambda support, query: method(support, labels, query),
                     [support.requires_grad_(), query.requires_grad_()], atol=1e-6)


def test_subspaces_at_right_angles_have_no_overlap_and_equal_ones_the_most():
    labels, query = torch.tensor([0, 0, 1, 1]), points((0, 0))
    apart = DSN().auxiliary(points((0, 0), (1, 0), (0, 0), (0, 1)), labels, query, labels)
    equal = DSN().auxiliary(points((0, 0), (1, 0), (0, 3), (2, 3)), labels, query, labels)
    assert apart.item() == pytest.approx(0, abs=1e-8)
    assert equal.item() == pytest.approx(0.03 * 2, abs=1e-8)                 # both orders of the pair
    assert DSN(form="resnet").auxiliary(points((0, 0), (1, 1)), torch.tensor([0, 1]), query, labels) is None


@FORMS
def test_scores_do_not_depend_on_the_order_of_shots_or_on_other_queries(form):
    (support, labels, query), method = random_episode(), DSN(form=form)
    scores = method(support, labels, query)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), scores)
    assert_close(method(support, labels, query[1:2]), scores[1:2])


@FORMS
def test_renaming_the_classes_permutes_the_scores(form):
    (support, labels, query), method = random_episode(), DSN(form=form)
    names = torch.tensor([2, 0, 1])
    assert_close(method(support, names[labels], query)[:, names], method(support, labels, query))


@FORMS
def test_the_loss_falls_on_a_stream_of_episodes(form):
    before, after = train_on_stream(DSN(form=form), shots=3)
    assert after < 0.9 * before
