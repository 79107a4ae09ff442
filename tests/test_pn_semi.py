"""Semi-supervised ProtoNet: the worked numbers, and what a mask does."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import random_episode

from dmn4.errors import InputError
from dmn4.methods.pn_semi import PNSemi, PNSemiMasked, move_means, shape_of_columns, soft_assignment
from dmn4.methods.protonet import ProtoNet

ENDS = torch.tensor([[0.0], [4.0]], dtype=torch.float64)
ONE_SHOT = torch.tensor([1, 1])


def blank(power: int = 1) -> PNSemiMasked:
    """A masked method whose network says 0: scale = bias = 1."""
    method = PNSemiMasked(mask_power=power).double()
    torch.nn.init.zeros_(method.gauge[2].weight)
    return method


def test_the_temperature_is_the_scale_of_the_space():
    support, labels, query = random_episode()
    extra = query.flip(0) + 1
    near, far = (PNSemi(temperature=t)(factor * support, labels, factor * query, unlabelled=factor * extra)
                 for t, factor in ((1.0, 0.5), (4.0, 1.0)))
    assert_close(near, far)


def test_one_unlabelled_image_between_two_prototypes():
    extra = torch.tensor([[1.0]], dtype=torch.float64)
    weight = soft_assignment(ENDS, extra)
    assert weight[0].tolist() == pytest.approx([0.999665, 0.000335], abs=1e-6)
    assert move_means(ENDS, ONE_SHOT, extra, weight).flatten().tolist() == pytest.approx([0.499916, 3.998994], abs=1e-6)


def test_refined_prototypes_are_what_the_query_is_compared_with():
    maps = torch.tensor([0.0, 4.0, 1.0, 2.0], dtype=torch.float64)[:, None, None, None]
    scores = PNSemi()(maps[:2], torch.tensor([0, 1]), maps[3:], unlabelled=maps[2:3])
    assert scores[0].tolist() == pytest.approx([-(2 - 0.499916) ** 2, -(3.998994 - 2) ** 2], abs=1e-5)


@pytest.mark.parametrize(("power", "refined"), [(1, [0.408354, 3.591646]), (2, [0.322508, 3.677492])])
def test_a_mask_weighs_near_images_more(power, refined):
    extra = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    weight = blank(power).weigh(ENDS, extra)
    mask = (weight / soft_assignment(ENDS, extra)) ** (1 / power)
    assert mask[0].tolist() == pytest.approx([0.689974, 0.310026], abs=1e-6)
    assert move_means(ENDS, ONE_SHOT, extra, weight).flatten().tolist() == pytest.approx(refined, abs=1e-6)


def test_a_mask_that_lets_all_pass_is_soft_k_means():
    support, labels, query = random_episode(queries=9)
    method = blank()
    method.gauge[2].bias.data[0] = 10.0                         # a bias of e^10 times the mean distance
    scores = method(support, labels, query[:4], unlabelled=query[4:])
    assert_close(scores, PNSemi()(support, labels, query[:4], unlabelled=query[4:]))


def test_a_mask_that_lets_nothing_pass_is_protonet():
    support, labels, query = random_episode(queries=9)
    method = blank()
    method.gauge[2].bias.data[:] = torch.tensor([-10.0, 10.0])
    scores = method(support, labels, query[:4], unlabelled=query[4:])
    assert_close(scores, ProtoNet(vector="flat")(support, labels, query[:4]))


def test_the_shape_of_columns_is_their_moments():
    values = torch.tensor([[0.0, 2.0], [0.0, 2.0], [0.0, 2.0], [4.0, 2.0]], dtype=torch.float64)
    skew, excess = 2 / 3**0.5, 7 / 3 - 3
    expected = torch.tensor([[0, 4, 3, skew, excess], [2, 2, 0, 0, -3]], dtype=torch.float64)
    assert_close(shape_of_columns(values), expected)


def test_equal_distances_and_distances_of_zero_give_numbers():
    support, labels, query = random_episode(shots=(1, 1))
    for unlabelled in (support[:1], support[:1].repeat(3, 1, 1, 1), torch.zeros_like(support)):
        assert blank()(support, labels, query, unlabelled).isfinite().all()
    same = support[:1].repeat(2, 1, 1, 1)
    assert blank()(same, torch.tensor([0, 1]), query, same).isfinite().all()


def test_the_mask_teaches_its_network():
    support, labels, query = random_episode(queries=9)
    method = PNSemiMasked().double()
    method(support, labels, query[:4], unlabelled=query[4:])[:, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in method.parameters())


def test_gradients_are_exact_with_the_assignment_held():
    _, labels, query = random_episode(channels=2, queries=6)
    prototypes, extra = query[:2].flatten(1).requires_grad_(), query[2:].flatten(1).requires_grad_()
    weight = soft_assignment(prototypes, extra)
    assert not weight.requires_grad
    assert gradcheck(lambda means, rows: move_means(means, labels.bincount()[:2], rows, weight), (prototypes, extra))


def test_a_wrong_power_is_named():
    with pytest.raises(InputError, match="mask_power is 3; it is 1"):
        PNSemiMasked(mask_power=3)
