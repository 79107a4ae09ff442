"""DeepEMD: similarity moved between the locations of two images."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import random_episode, toy_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods.deepemd import DeepEMD
from dmn4.methods.solvers import transport


def one_score(left, right):
    """The score of one query location set (M, C) against one class location set (m, C), by the definition."""
    supply, demand = (left @ right.mean(0)).relu() + 1e-3, (right @ left.mean(0)).relu() + 1e-3
    supply, demand = len(left) * supply / supply.sum(), len(left) * demand / demand.sum()
    left, right = left - left.mean(1, keepdim=True), right - right.mean(1, keepdim=True)
    cost = 1 - F.cosine_similarity(left[:, None], right[None], dim=2)
    return 12.5 * (1 - transport(cost[None], supply[None], demand[None])[0] / len(left))


def test_scores_of_single_shots_are_the_definition():
    support, labels, query = random_episode(shots=(1, 1, 1))
    expected = [[one_score(q.flatten(1).T, support[labels == c][0].flatten(1).T) for c in range(3)] for q in query]
    assert_close(DeepEMD()(support, labels, query), torch.tensor(expected).double())


def test_an_image_scores_the_whole_scale_with_itself_and_less_with_others():
    support, labels, _ = random_episode(shots=(1, 1, 1))
    support = support[labels.argsort()].abs()
    scores = DeepEMD()(support, torch.arange(3), support)
    assert_close(scores.diag(), torch.full((3,), 12.5).double())
    assert (scores - scores.diag().diag_embed() < 12.5).all()


def test_a_single_location_is_a_cosine():
    support, labels, query = random_episode(shots=(1, 1, 1), side=1)
    left, right = (x.flatten(1) - x.flatten(1).mean(1, keepdim=True) for x in (query, support[labels.argsort()]))
    assert_close(DeepEMD()(support, labels, query), 12.5 * F.cosine_similarity(left[:, None], right[None], dim=2))


def test_the_order_of_locations_does_not_matter_and_sizes_may_differ():
    support, labels, query = random_episode(shots=(1, 1, 1))
    scores = DeepEMD()(support, labels, query)
    assert_close(DeepEMD()(support.flip(2), labels, query.mT), scores)
    assert_close(DeepEMD()(support, labels, query.repeat(1, 1, 1, 2)), scores)     # every location twice


def test_the_gradient_goes_through_costs_and_weights():
    support, labels, query = random_episode(shots=(1, 1), queries=2, channels=4)
    assert gradcheck(lambda support, query: DeepEMD()(support, labels, query),
                     [support.abs().requires_grad_(), query.abs().requires_grad_()])


def test_the_flow_gradient_leaves_out_the_weights():
    support, labels, query = random_episode(shots=(1, 1))
    gradients = []
    for gradient in ("full", "flow"):
        free = query.clone().requires_grad_()
        DeepEMD(gradient=gradient)(support, labels, free).sum().backward()
        gradients.append(free.grad)
    assert not torch.allclose(*gradients)
    towards_all_channels = gradients[1].sum(1)                                     # cosines are of centred descriptors
    assert_close(towards_all_channels, torch.zeros_like(towards_all_channels))


def test_refined_class_maps_tell_the_support_apart_better_than_their_means():
    support, labels, _, _ = toy_episode(torch.Generator().manual_seed(0), shots=3)
    methods = DeepEMD(epochs=0), DeepEMD(epochs=20, rate=0.1)
    before, after = (F.cross_entropy(method.compare(method.class_maps(support, labels), support, "flow"), labels)
                     for method in methods)
    assert after < 0.8 * before


def test_refining_is_gradient_descent_with_damped_momentum():
    support, labels, _ = random_episode()
    start = DeepEMD(epochs=0).class_maps(support, labels)
    method = DeepEMD(epochs=2, batch=6, rate=0.5)
    maps, velocity = start.clone().requires_grad_(), 0
    for step in range(2):
        loss = F.cross_entropy(method.compare(maps, support, "flow"), labels)
        slope, = torch.autograd.grad(loss, maps)
        velocity = slope if step == 0 else 0.9 * velocity + 0.1 * slope
        maps = (maps - 0.5 * velocity).detach().requires_grad_()
    assert_close(method.class_maps(support, labels), maps.detach())


def test_without_epochs_shots_are_averaged():
    support, labels, query = random_episode()
    means = torch.stack([support[labels == c].mean(0) for c in range(3)])
    assert_close(DeepEMD(epochs=0)(support, labels, query), DeepEMD()(means, torch.arange(3), query))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_equal_calls_give_equal_scores_whatever_the_mode_and_seeds_differ(mode):
    episode = random_episode()
    scores = DeepEMD(epochs=3)(*episode)
    with mode():
        episode = random_episode()
        assert torch.equal(DeepEMD(epochs=3)(*episode), scores)
        assert not torch.equal(DeepEMD(epochs=3, seed=1)(*episode), scores)


@pytest.mark.parametrize("shots", [(1, 1, 1), (2, 1, 3)])
def test_scores_do_not_depend_on_class_names_or_other_queries(shots):
    support, labels, query = random_episode(shots=shots)
    method, names = DeepEMD(epochs=5), torch.tensor([2, 0, 1])
    scores = method(support, labels, query)
    assert_close(method(support, names[labels], query)[:, names], scores)
    assert_close(method(support, labels, query[1:2]), scores[1:2])
    assert method(support, labels, query[:0]).shape == (0, 3)


def test_the_order_of_shots_does_not_matter_when_all_are_one_batch():
    support, labels, query = random_episode()
    method, order = DeepEMD(epochs=5, batch=6), torch.tensor([3, 0, 5, 1, 4, 2])
    assert_close(method(support[order], labels[order], query), method(support, labels, query))


def test_many_queries_are_compared_in_blocks(monkeypatch):
    support, labels, query = random_episode(shots=(1, 1), queries=5)
    whole = DeepEMD()(support, labels, query)
    monkeypatch.setattr("dmn4.methods.deepemd.CELLS", 2 * 4 * 4 * 2)               # two queries at a time
    assert_close(DeepEMD()(support, labels, query), whole)


def test_sinkhorn_is_near_the_exact_scores_and_below():
    support, labels, query = random_episode(shots=(1, 1, 1))
    exact = DeepEMD()(support, labels, query)
    entropic = DeepEMD(solver="sinkhorn", entropy=0.01, iterations=1000)(support, labels, query)
    assert ((exact - entropic).abs() < 0.2).all()
    assert (entropic < exact + 1e-3).all()


@pytest.mark.parametrize("solver", ["exact", "sinkhorn"])
def test_the_loss_falls_on_a_stream_of_episodes(solver):
    before, after = train_on_stream(DeepEMD(solver=solver, iterations=50, entropy=0.1), shots=1)
    assert after < 0.9 * before


def test_unknown_options_are_refused():
    with pytest.raises(InputError, match="unknown solver 'opencv'; choose one of exact, sinkhorn"):
        DeepEMD(solver="opencv")
    with pytest.raises(InputError, match="unknown gradient 'none'"):
        DeepEMD(gradient="none")


def test_larger_maps_can_be_averaged_first():
    generator = torch.Generator().manual_seed(0)
    support, query = (torch.rand(3, 4, 6, 6, generator=generator) for _ in range(2))
    labels = torch.arange(3)
    small = [F.adaptive_avg_pool2d(maps, 2) for maps in (support, query)]
    assert_close(DeepEMD(side=2)(support, labels, query), DeepEMD()(small[0], labels, small[1]))
