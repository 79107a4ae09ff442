import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from dmn4.methods.vectors import class_means, cosines, flat, peaks, pooled, squared_distances

MAP = torch.tensor([[[[1.0, 2.0], [3.0, 6.0]], [[-1.0, -1.0], [0.0, -2.0]]]])


def test_one_map_three_vectors():
    assert pooled(MAP).tolist() == [[3.0, -1.0]]
    assert peaks(MAP).tolist() == [[6.0, 0.0]]
    assert flat(MAP).tolist() == [[1.0, 2.0, 3.0, 6.0, -1.0, -1.0, 0.0, -2.0]]


def test_class_means_take_uneven_shots_in_any_order():
    rows = torch.tensor([[1.0, 0.0], [8.0, 8.0], [3.0, 4.0]])
    assert class_means(rows, torch.tensor([1, 0, 1])).tolist() == [[8.0, 8.0], [2.0, 2.0]]


def test_a_shot_moves_its_class_mean_by_its_share():
    rows = torch.zeros(3, 1, requires_grad=True)
    class_means(rows, torch.tensor([1, 0, 1]))[1].sum().backward()
    assert rows.grad.tolist() == [[0.5], [0.0], [0.5]]


@settings(deadline=None)
@given(st.integers(0, 1000))
def test_squared_distances_agree_with_a_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(3, 5, generator=generator), torch.randn(4, 5, generator=generator)
    loop = torch.stack([torch.stack([(x - y).square().sum() for y in b]) for x in a])
    assert_close(squared_distances(a, b), loop, atol=1e-5, rtol=1e-5)


def test_a_vector_is_never_nearer_to_itself_than_zero():
    rows = torch.randn(50, 64, generator=torch.Generator().manual_seed(0)) * 1000
    assert squared_distances(rows, rows).min() == 0


def test_cosines_by_eye():
    assert_close(cosines(torch.tensor([[3.0, 0.0], [0.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 4.0]])),
                 torch.tensor([[1.0, 0.6], [0.0, 0.0]]))
