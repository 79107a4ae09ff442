import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close
from toy_episodes import noise_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.relationnet import ConvRelation, PairConv, PooledRelation, RelationNet, squared_loss

FORMS = ["conv", "pooled"]


def sides(side: int) -> list[int]:
    """The width of a map: at first, before and after each of the two convolutions, and at last."""
    seen, network = [side], ConvRelation(2, momentum=0.1)
    for conv in (network.pair, network.conv):
        conv.register_forward_pre_hook(lambda _, maps: seen.append(maps[0].shape[3]))
        conv.register_forward_hook(lambda _, __, maps: seen.append(maps.shape[3]))
    last = network.shrink(torch.zeros(3, 2, side, side), torch.zeros(1, 2, side, side))
    return [*seen, last.shape[3]]


def test_a_map_of_19_shrinks_as_in_the_paper():
    assert sides(19) == [19, 19, 17, 8, 6, 3]             # the second 19: nothing is padded


def test_a_small_map_is_padded_to_survive():
    assert sides(5) == [5, 7, 5, 4, 2, 1]                            # 5, 2, 1 and the margins around them


@pytest.mark.parametrize("side", [1, 2, 4, 9, 10, 13])
def test_any_map_size_gives_scores(side):
    support, labels, query = noise_episode(side=side)
    scores = RelationNet(4).eval()(support, labels, query)
    assert scores.shape == (4, 3)
    assert scores.isfinite().all()


def test_the_squared_loss_by_hand():
    scores = torch.tensor([[0.9, 0.2]]).logit()
    assert_close(squared_loss(scores, torch.tensor([0])), torch.tensor(0.025))


def test_two_halves_of_a_convolution_equal_one_of_the_stacked_maps():
    classes, query, conv = torch.randn(3, 2, 4, 4), torch.randn(2, 2, 4, 4), PairConv(4, 5, 3)
    stacked = torch.stack([torch.cat([c, q]) for q in query for c in classes])             # the class on top
    assert_close(conv(classes, query), F.conv2d(stacked, conv.weight, conv.bias))


def test_pooled_pairs_are_judged_the_class_first():
    classes, query, relation = torch.randn(3, 4, 1, 1), torch.randn(2, 4, 1, 1), PooledRelation(4)
    judged = [[relation.judge(torch.cat([c, q]).flatten()).item() for c in classes] for q in query]
    assert_close(relation(classes, query).tolist(), judged)


@pytest.mark.parametrize("form", FORMS)
def test_the_mean_of_identical_shots_is_one_shot(form):
    support, _, query = noise_episode()
    method = RelationNet(4, form=form, shots="mean").eval()
    labels = torch.arange(6)
    assert_close(method(support.repeat(3, 1, 1, 1), labels.repeat(3), query), method(support, labels, query))


def test_the_sum_of_two_shots_is_one_shot_of_their_sum():
    support, _, query = noise_episode()
    method, labels = RelationNet(4).eval(), torch.tensor([0, 1, 2])
    summed = method(support[:3] + support[3:], labels, query)
    assert_close(method(support, torch.tensor([0, 1, 2, 0, 1, 2]), query), summed)


def test_sizes_may_differ_only_between_pooled_vectors():
    support, labels, query = noise_episode()
    assert RelationNet(4, form="pooled")(support, labels, query[..., :2]).shape == (4, 3)
    with pytest.raises(InputError, match="they must be alike"):
        RelationNet(4)(support, labels, query[..., :2])


@pytest.mark.parametrize("loss", ["squared", "binary", "softmax"])
def test_every_loss_is_small_for_a_sure_and_right_answer(loss):
    method = RelationNet(4, loss=loss)
    right = torch.tensor([[20.0, -20.0], [-20.0, 20.0]])
    assert method.loss(right, torch.tensor([0, 1])) < 1e-6
    assert method.loss(right, torch.tensor([1, 0])) > 0.9


def test_unknown_options_are_named():
    with pytest.raises(InputError, match="unknown form 'flat'; choose one of conv, pooled"):
        RelationNet(4, form="flat")
    with pytest.raises(InputError, match="unknown shots 'union'; choose one of sum, mean"):
        RelationNet(4, shots="union")


@pytest.mark.parametrize("form", FORMS)
def test_the_loss_goes_down(form):
    torch.manual_seed(0)
    before, after = train_on_stream(RelationNet(6, form=form), episodes=120)
    assert after < 0.75 * before
