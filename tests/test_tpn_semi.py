"""TPN-semi: the worked graph, its invariants, and one graph for each query."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close
from toy_episodes import random_episode, train_on_stream

from dmn4.errors import InputError
from dmn4.methods import tpn_semi
from dmn4.methods.tpn_semi import LengthScale, TPNSemi, affinities, join, nearest_only, propagate


def test_labels_spread_over_the_worked_graph():
    graph = torch.tensor([[1, 0.1, 0.8], [0.1, 1, 0.2], [0.8, 0.2, 1]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0], [0, 1], [0, 0]], dtype=torch.float64)
    assert propagate(graph, targets, 0.5)[2].tolist() == pytest.approx([0.414012, 0.168595], abs=1e-6)


def test_a_query_joined_to_one_class_alone_is_labelled_so():
    graph = torch.eye(3, dtype=torch.float64)
    graph[1, 2] = graph[2, 1] = 0.3
    reached = propagate(graph, torch.tensor([[1.0, 0], [0, 1], [0, 0]]).double(), 0.99)[2]
    assert reached[0] == 0
    assert reached[1] > 0


def test_an_unlabelled_image_carries_a_label_on():
    #       class 0 - unlabelled - query       class 1 alone
    graph = torch.eye(4, dtype=torch.float64)
    targets = torch.tensor([[1.0, 0], [0, 1], [0, 0], [0, 0]], dtype=torch.float64)
    graph[0, 2] = graph[2, 0] = graph[2, 3] = graph[3, 2] = 0.5
    assert propagate(graph, targets, 0.99)[3].argmax() == 0


def test_affinities_are_those_of_plain_loops():
    a, b = torch.randn(3, 5, dtype=torch.float64), torch.randn(2, 5, dtype=torch.float64)
    expected = [[float(torch.exp(-0.5 * (x - y).square().mean())) for y in b] for x in a]
    assert_close(affinities(a, b), torch.tensor(expected, dtype=torch.float64))


def test_an_edge_stays_if_it_is_strong_for_either_end():
    graph = torch.tensor([[1.0, 0.9, 0.2], [0.9, 1.0, 0.3], [0.2, 0.3, 1.0]])
    assert nearest_only(graph, 2).tolist() == torch.tensor([[1.0, 0.9, 0.0], [0.9, 1.0, 0.3], [0.0, 0.3, 1.0]]).tolist()
    assert torch.equal(nearest_only(graph, 20), graph)


def test_the_query_is_the_last_node_of_its_own_graph():
    graphs = join(torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([[0.1, 0.2], [0.3, 0.4]]))
    assert_close(graphs[1], torch.tensor([[1.0, 0.5, 0.3], [0.5, 1.0, 0.4], [0.3, 0.4, 1.0]]))


def test_the_normalised_graph_is_symmetric_and_never_amplifies():
    rows = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    graph = nearest_only(affinities(rows, rows), 3)
    root = graph.sum(1).rsqrt()
    spread = root[:, None] * graph * root
    assert_close(spread, spread.T)
    assert torch.linalg.eigvalsh(spread).abs().max() <= 1 + 1e-12


def test_scores_are_those_of_one_whole_graph_a_query():
    torch.manual_seed(0)
    support, labels, query = random_episode(queries=6)
    query, unlabelled = query[:3], query[3:]
    method, rows = TPNSemi(channels=6, k=4).double().eval(), []
    for image in query:
        maps = torch.cat([support, unlabelled, image[None]])
        scaled = maps.flatten(1) / method.length(maps)
        graph = nearest_only(torch.exp(-0.5 * (scaled[:, None] - scaled).square().mean(2)), 4)
        targets = torch.zeros(len(maps), 3, dtype=torch.float64)
        targets[range(6), labels] = 1
        degrees = torch.diag(graph.sum(1) ** -0.5)
        rows.append((torch.linalg.inv(torch.eye(len(maps)) - 0.99 * degrees @ graph @ degrees) @ targets)[-1])
    assert_close(method(support, labels, query, unlabelled), torch.stack(rows))


def test_queries_are_solved_a_few_at_a_time_with_the_same_scores(monkeypatch):
    torch.manual_seed(0)
    (support, labels, query), method = random_episode(), TPNSemi(channels=6).double().eval()
    whole = method(support, labels, query, support)
    monkeypatch.setattr(tpn_semi, "GRAPH_BYTES", 1)
    assert_close(method(support, labels, query, support), whole)


@pytest.mark.parametrize("side", [1, 2, 5, 19])
def test_a_length_scale_is_read_from_maps_of_any_size(side):
    network = LengthScale(4).eval()
    assert network(torch.randn(3, 4, side, side)).shape == (3, 1)
    assert network.blocks[:8](torch.randn(1, 4, 5, 5)).shape == (1, 1, 2, 2)        # 5 -> 3 -> 2, as published


@pytest.mark.parametrize("length", [0.1, 1.0, 5.0])
def test_the_length_scale_starts_where_it_is_told(length):
    torch.manual_seed(0)
    scales = TPNSemi(channels=4, length=length).eval().length(torch.randn(50, 4, 5, 5))
    assert_close(scales / length, torch.ones(50, 1), rtol=0, atol=0.06)       # its start does not depend on the picture


def test_in_units_too_long_the_best_connected_shot_takes_every_query():
    torch.manual_seed(0)
    support, query = (torch.randn(5, 1, 1, 1) + 9 * torch.eye(5)[:, :, None, None] for _ in range(2))
    unlabelled = query + 0.1 * torch.randn(5, 5, 1, 1)
    found = [TPNSemi(channels=5, k=4, length=length).eval()(support, torch.arange(5), query, unlabelled).argmax(1)
             for length in (1.0, 100.0)]
    assert found[0].tolist() == [0, 1, 2, 3, 4]
    assert len(found[1].unique()) < 5


def test_gradients_are_exact():
    torch.manual_seed(0)
    support, labels, query = random_episode(shots=(2, 1), queries=3, channels=2)
    method = TPNSemi(channels=2, k=3).double().eval()
    inputs = (support.requires_grad_(), query[:1].clone().requires_grad_(), query[1:].clone().requires_grad_())
    assert gradcheck(lambda s, q, u: method(s, labels, q, u), inputs)


def test_the_loss_falls_on_a_stream_of_episodes():
    torch.manual_seed(0)
    before, after = train_on_stream(TPNSemi(channels=6))
    assert after < 0.9 * before


@pytest.mark.parametrize(("options", "message"), [
    ({"length": 0.0}, "length is 0.0; a scale above 0"),
    ({"alpha": 1.0}, "alpha is 1.0; it lies between 0 and 1"), ({"k": 0}, "k is 0; at least one neighbour"),
    ({"channels": None}, "method 'tpn-semi' learns layers: give channels="),
])
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        TPNSemi(**{"channels": 6, **options})
