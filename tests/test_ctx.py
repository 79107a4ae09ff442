import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.ctx import CTX


def identity_layers(method: CTX, sharpness: float) -> CTX:
    """The method with values as they are and keys multiplied by `sharpness`."""
    nn.init.eye_(method.value.weight)
    nn.init.eye_(method.key.weight)
    method.key.weight.data *= sharpness
    return method


def test_equal_attention_averages_the_shots():
    method = identity_layers(CTX(2, width=2), sharpness=0)
    scores = method(as_maps([[0.0, 0.0], [2.0, 2.0]]), torch.tensor([0, 0]), as_maps([[1.0, 0.0]]))
    assert scores.tolist() == [[-1.0]]


def test_sharp_attention_finds_the_query_itself():
    support, labels, _ = noise_episode()
    support = nn.functional.normalize(support, dim=1)              # a unit key is nearest to itself
    scores = identity_layers(CTX(4, width=4), sharpness=100)(support, labels, support)
    assert_close(scores.gather(1, labels[:, None])[:, 0], torch.zeros(6), atol=1e-5, rtol=0)
    assert scores.argmax(1).tolist() == labels.tolist()


def test_it_agrees_with_a_loop_over_classes_and_locations():
    support, labels, query = noise_episode()
    method = CTX(4, width=5)
    scores = method(support, labels, query)
    for c in range(3):
        pool = support[labels == c].permute(0, 2, 3, 1).reshape(-1, 4)
        for q in range(4):
            total = 0
            for place in query[q].flatten(1).T:
                attention = (method.key(pool) @ method.key(place) / math.sqrt(5)).softmax(0)
                total += (method.value(place) - attention @ method.value(pool)).square().sum()
            assert_close(scores[q, c], -total / 9)


def test_the_order_of_shots_does_not_matter():
    support, labels, query = noise_episode()
    method, order = CTX(4), torch.tensor([5, 3, 0, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), method(support, labels, query))


def test_gradients_are_exact():
    support, labels, query = noise_episode(channels=2, side=1)
    method = CTX(2, width=2).double()
    support, query = support.double().requires_grad_(), query.double().requires_grad_()
    assert gradcheck(lambda s, q: method(s, labels, q), (support, query))


def test_it_needs_the_width_of_the_maps():
    with pytest.raises(InputError, match="'ctx' learns layers: give channels="):
        CTX()


def test_the_loss_goes_down():
    before, after = train_on_stream(CTX(6, width=8))
    assert after < 0.75 * before
