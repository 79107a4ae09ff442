import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.protonet import ProtoNet


@pytest.mark.parametrize(("temperature", "scores"), [(1, [[-9.0, -16.0]]), (64, [[-0.140625, -0.25]])])
def test_scores_are_squared_distances_to_class_means(temperature, scores):
    support = as_maps([[2.0, 3.0], [-1.0, 0.0], [1.0, 0.0], [4.0, 5.0]])       # means (3, 4) and (0, 0)
    method = ProtoNet(temperature=temperature)
    assert method(support, torch.tensor([1, 0, 0, 1]), as_maps([[3.0, 0.0]])).tolist() == scores


def test_flat_vectors_see_where_a_pattern_lies():
    dot, moved = torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2)
    dot[..., 0, 0] = moved[..., 1, 1] = 1
    support, labels = torch.cat([dot, moved]), torch.tensor([0, 1])
    assert ProtoNet(vector="flat")(support, labels, dot).tolist() == [[0.0, -2.0]]
    assert ProtoNet(vector="gap")(support, labels, dot).tolist() == [[0.0, 0.0]]


def test_moving_all_features_changes_nothing():
    support, labels, query = noise_episode()
    shift = torch.randn(4, 1, 1)
    assert_close(ProtoNet()(support + shift, labels, query + shift), ProtoNet()(support, labels, query),
                 atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("vector", ["gap", "flat"])
def test_gradients_are_exact(vector):
    support, labels, query = noise_episode(channels=2, side=2)
    support, query = support.double().requires_grad_(), query.double().requires_grad_()
    method = ProtoNet(vector=vector, temperature=4)
    assert gradcheck(lambda s, q: method(s, labels, q), (support, query))


def test_pooled_maps_may_differ_in_size():
    support, labels, query = noise_episode()
    assert ProtoNet()(support, labels, query[..., :2]).shape == (4, 3)
    with pytest.raises(InputError, match="they must be alike"):
        ProtoNet(vector="flat")(support, labels, query[..., :2])


def test_a_temperature_is_above_zero():
    with pytest.raises(InputError, match="temperature is 0; it must be above 0"):
        ProtoNet(temperature=0)


def test_an_unknown_vector_is_named():
    with pytest.raises(InputError, match="unknown vector 'max'; choose one of gap, flat"):
        ProtoNet(vector="max")


@pytest.mark.parametrize("vector", ["gap", "flat"])
def test_the_loss_goes_down(vector):
    before, after = train_on_stream(ProtoNet(vector=vector, temperature=4), episodes=80, rate=0.05)
    assert after < 0.5 * before
