import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.feat import FEAT, SetAttention

TRUTH = torch.tensor([0, 1, 2, 1])


def test_an_empty_mixing_layer_leaves_the_layer_norm_of_the_prototype():
    attention = SetAttention(4).eval()
    nn.init.zeros_(attention.mix.weight)
    nn.init.zeros_(attention.mix.bias)
    adapted = attention(torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 9.0]]))
    assert_close(adapted[0], torch.tensor([-1.341635, -0.447212, 0.447212, 1.341635]), atol=1e-6, rtol=0)


def test_attention_agrees_with_the_library():
    torch.manual_seed(0)
    attention, members = SetAttention(4).eval(), torch.randn(3, 4)
    attended = F.scaled_dot_product_attention(attention.query(members)[None], attention.key(members)[None],
                                              attention.value(members)[None])[0]
    assert_close(attention(members), attention.norm(attention.mix(attended) + members))


def test_renaming_the_classes_moves_the_scores_along():
    support, labels, query = noise_episode()
    method, names = FEAT(4).eval(), torch.tensor([2, 0, 1])
    assert_close(method(support, names[labels], query)[:, names], method(support, labels, query))


def test_prototypes_know_each_other():
    support, labels, query = noise_episode()
    method = FEAT(4).eval()
    changed = torch.where((labels == 2)[:, None, None, None], -support, support)
    assert not torch.allclose(method(changed, labels, query)[:, :2], method(support, labels, query)[:, :2])


def test_scores_are_distances_over_the_temperature():
    support, labels, query = noise_episode()
    hot, cold = FEAT(4, temperature=64).eval(), FEAT(4, temperature=16).eval()
    cold.load_state_dict(hot.state_dict())
    assert_close(cold(support, labels, query), 4 * hot(support, labels, query))


def test_the_auxiliary_loss_agrees_with_a_loop():
    support, labels, query = noise_episode()
    method = FEAT(4, auxiliary_temperature=16, balance=0.1).eval()
    images, owner = torch.cat([support, query]).mean((2, 3)), [*labels.tolist(), *TRUTH.tolist()]
    members = [[row for row, name in zip(images, owner, strict=True) if name == c] for c in range(3)]
    centres = [method.adapt_set(torch.stack(rows)).mean(0) for rows in members]
    losses = []
    for row, name in zip(images, owner, strict=True):
        logits = torch.stack([-(row - centre).square().sum() / 16 for centre in centres])
        losses.append(-logits.log_softmax(0)[name])
    assert_close(method.auxiliary(support, labels, query, TRUTH), 0.1 * sum(losses) / 10)


def test_the_conv_form_takes_the_peak_of_each_channel():
    method = FEAT(2, vector="max").eval()
    sparse = torch.zeros(1, 2, 2, 2)
    sparse[0, 0, 1, 1] = 3
    support, labels = as_maps([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    assert_close(method(support, labels, sparse), method(support, labels, as_maps([[3.0, 0.0]])))


def test_dropout_acts_in_training_alone():
    support, labels, query = noise_episode()
    method = FEAT(4)
    assert not torch.equal(method(support, labels, query), method(support, labels, query))
    method.eval()
    assert torch.equal(method(support, labels, query), method(support, labels, query))


def test_it_needs_the_width_of_the_maps():
    with pytest.raises(InputError, match="'feat' learns layers: give channels="):
        FEAT()


def test_the_loss_goes_down():
    torch.manual_seed(0)
    before, after = train_on_stream(FEAT(6, temperature=4, auxiliary_temperature=4, balance=0.1), episodes=120)
    assert after < 0.75 * before
