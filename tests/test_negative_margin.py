import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.methods.heads import fresh_weights
from dmn4.methods.negative_margin import NegativeMargin
from dmn4.methods.vectors import cosines


def test_the_classifier_learns_the_support_set():
    support = as_maps([[1.0, 0.2, 0.0], [0.0, 1.0, 0.2], [0.1, 0.0, 1.0]])
    scores = NegativeMargin()(support, torch.tensor([0, 1, 2]), support)
    assert scores.argmax(1).tolist() == [0, 1, 2]
    assert scores.abs().max() <= 5


def test_without_epochs_the_head_is_the_random_start():
    support, labels, query = noise_episode()
    weights = fresh_weights(support.mean((2, 3)), labels, 0.5, torch.Generator().manual_seed(7))
    expected = 5 * cosines(query.mean((2, 3)), weights)
    assert_close(NegativeMargin(epochs=0, seed=7)(support, labels, query), expected)


def test_a_step_is_momentum_sgd_with_dampening():
    rows, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])           # one batch an epoch
    weight = fresh_weights(rows, labels, 2**-0.5, torch.Generator().manual_seed(0))
    velocity = None
    for _ in range(3):
        weight.requires_grad_()
        slope = torch.autograd.grad(F.cross_entropy(5 * cosines(rows, weight), labels), weight)[0] + 1e-3 * weight
        velocity = slope if velocity is None else 0.9 * velocity + 0.1 * slope
        weight = (weight - 0.01 * velocity).detach()
    assert_close(NegativeMargin(epochs=3).fit(rows, labels), weight)


def test_equal_calls_give_equal_scores_and_another_seed_others():
    support, labels, query = noise_episode()
    method = NegativeMargin(epochs=2)
    assert torch.equal(method(support, labels, query), method(support, labels, query))
    assert not torch.allclose(method(support, labels, query), NegativeMargin(epochs=2, seed=1)(support, labels, query))


def test_renaming_the_classes_moves_the_scores_along():
    support, labels, query = noise_episode()
    method, names = NegativeMargin(epochs=3), torch.tensor([2, 0, 1])
    assert_close(method(support, names[labels], query)[:, names], method(support, labels, query))


@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_it_fits_where_gradients_are_off(guard):
    support, labels, query = noise_episode()
    method = NegativeMargin(epochs=2)
    with guard():
        scores = method(support * 1, labels * 1, query * 1)
    assert not scores.requires_grad
    assert torch.equal(scores, method(support, labels, query))


def test_fitting_leaves_the_random_numbers_of_others_alone():
    state = torch.get_rng_state()
    NegativeMargin(epochs=1)(*noise_episode())
    assert torch.equal(torch.get_rng_state(), state)


def test_the_loss_goes_down():
    before, after = train_on_stream(NegativeMargin(epochs=10, lr=0.1), episodes=80, rate=0.05)
    assert after < 0.5 * before
