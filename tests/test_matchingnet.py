import math

import pytest
import torch
from torch.testing import assert_close
from toy_episodes import as_maps, noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.matchingnet import Context, MatchingNet, attention_votes

SHOTS = torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(("scale", "share"), [(1, 0.657853), (10, 0.998903)])
def test_cosines_vote_for_their_class(scale, share):
    cosines = torch.tensor([[0.8, 0.6, 0.1, 0.0]])
    assert_close(attention_votes(scale * cosines, SHOTS), torch.tensor([[share, 1 - share]]), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("scale", "share"), [(1, 0.657853), (10, 0.998903)])
def test_a_score_is_the_log_of_the_votes(scale, share):
    rows = [[cosine, math.sqrt(1 - cosine**2)] for cosine in (0.8, 0.6, 0.1, 0.0)]
    scores = MatchingNet(scale=scale)(as_maps(rows), SHOTS, as_maps([[5.0, 0.0]]))
    assert_close(scores.exp(), torch.tensor([[share, 1 - share]]), atol=3e-6, rtol=0)


def test_votes_sum_to_one():
    support, labels, query = noise_episode()
    assert_close(MatchingNet()(support, labels, query).exp().sum(1), torch.ones(4), atol=4e-6, rtol=0)


def test_showing_every_shot_twice_changes_nothing():
    support, labels, query = noise_episode()
    method = MatchingNet(vector="flat")
    assert_close(method(support.repeat(2, 1, 1, 1), labels.repeat(2), query), method(support, labels, query))


def test_context_reads_the_support_set_as_a_plain_loop_does():
    torch.manual_seed(0)
    context, rows, asked = Context(3), torch.randn(4, 3), torch.randn(2, 3)
    read, answered = context(rows, asked)
    out = context.reader(rows)[0]
    assert_close(read, rows + out[:, :3] + out[:, 3:])
    for q in range(2):
        hidden, cell = asked[q], torch.zeros(3)
        for _ in range(4):
            attention = torch.stack([hidden @ row for row in read]).softmax(0)
            looked = sum(a * row for a, row in zip(attention, read, strict=True))
            hidden, cell = context.asker(torch.cat([asked[q], looked]), (hidden, cell))
            hidden = hidden + asked[q]
        assert_close(answered[q], hidden)


def test_context_makes_it_a_method_to_train():
    assert MatchingNet(4, context=1).needs_training
    assert not MatchingNet().needs_training


def test_context_needs_the_width_of_pooled_vectors():
    with pytest.raises(InputError, match="'matchingnet' learns layers: give channels="):
        MatchingNet(context=1)
    with pytest.raises(InputError, match="context=1 works on vector='gap', not 'flat'"):
        MatchingNet(4, vector="flat", context=1)


@pytest.mark.parametrize("context", [0, 1])
def test_the_loss_goes_down(context):
    before, after = train_on_stream(MatchingNet(6, context=context))
    assert after < 0.75 * before
