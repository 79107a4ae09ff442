import pytest
import torch

from dmn4.errors import InputError
from dmn4.methods import build_method
from dmn4.methods.descriptors import describe, mean_descriptor, mean_maps, pool_support, pyramid_sides


def test_descriptors_are_the_unit_columns_of_the_map_row_by_row():
    maps = torch.tensor([[[[3.0, 0.0]], [[4.0, 0.0]]]])                # one image, 2 channels, 1 x 2 places
    assert describe(maps).tolist() == [[pytest.approx([0.6, 0.8]), [0.0, 0.0]]]


def test_half_precision_maps_give_float32_descriptors():
    assert describe(torch.ones(1, 2, 1, 1, dtype=torch.float16)).dtype == torch.float32
    assert describe(torch.ones(1, 2, 1, 1, dtype=torch.float64)).dtype == torch.float64


def test_values_are_those_of_normalize_to_the_bit():
    maps = torch.randn(3, 16, 5, 5)
    maps[0, :, 1, 1], maps[1, :, 2, 2], maps[2, :, 3, 3] = 0, 1e-13, -0.0
    rows = maps.flatten(2).mT.contiguous()
    assert torch.equal(describe(maps), torch.nn.functional.normalize(rows, dim=-1))


def test_a_place_without_any_activation_has_no_gradient():
    maps = torch.randn(2, 4, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    maps[:, :, 0, 1] = 0
    maps.requires_grad_()
    (describe(maps) * torch.arange(32.0).view(2, 4, 4)).sum().backward()
    assert maps.grad[:, :, 0, 1].tolist() == [[0.0] * 4] * 2
    assert (maps.grad[:, :, 1, 1].abs() > 0).all()


def test_the_gradient_of_descriptors_is_that_of_finite_differences():
    maps = torch.randn(1, 3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(describe, (maps,))


@pytest.mark.parametrize("name", ["dn4", "mn4", "dmn4", "odm"])
def test_a_dead_place_in_a_query_or_a_shot_does_not_blow_up_the_gradient(name):
    generator = torch.Generator().manual_seed(0)
    support, query = (torch.randn(5, 8, 3, 3, dtype=torch.float64, generator=generator) for _ in range(2))
    support[0, :, 1, 1] = query[2, :, 0, 0] = query[3, :, 2, 1] = 0
    support.requires_grad_(), query.requires_grad_()
    scores = build_method(name)(support, torch.arange(5), query)
    torch.nn.functional.cross_entropy(scores, torch.arange(5)).backward()
    assert query.grad[2, :, 0, 0].abs().max() == query.grad[3, :, 2, 1].abs().max() == 0
    assert support.grad[0, :, 1, 1].abs().max() == 0
    assert 0 < query.grad.abs().max() < 10


def test_a_pyramid_joins_the_means_of_coarser_grids():
    maps = torch.randn(2, 3, 4, 4)
    joined = describe(maps, "2,1")
    assert joined.shape == (2, 16 + 4 + 1, 3)
    torch.testing.assert_close(joined[:, :16], describe(maps))
    torch.testing.assert_close(joined[:, -1], torch.nn.functional.normalize(maps.mean((2, 3)), dim=-1))


@pytest.mark.parametrize("pyramid", ["two", "0", "2,-1", "2;1"])
def test_a_pyramid_that_is_no_list_of_sides_is_named(pyramid):
    with pytest.raises(InputError, match=f"pyramid '{pyramid}' is not a list"):
        describe(torch.ones(1, 2, 3, 3), pyramid)


def test_the_pool_is_class_major_and_remembers_where_each_descriptor_came_from():
    support = torch.randn(4, 3, 1, 2)
    pool = pool_support(support, torch.tensor([1, 0, 1, 1]))
    assert pool.counts == [2, 6]
    assert pool.owner.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert pool.rows.tolist() == [1, 1, 0, 0, 2, 2, 3, 3]
    assert pool.places.tolist() == [0, 1] * 4
    torch.testing.assert_close(pool.descriptors, describe(support)[pool.rows, pool.places])


def test_the_mean_of_shots_is_taken_before_the_norm():
    support = torch.tensor([[2.0, 0.0], [0.0, 4.0], [1.0, 1.0]])[:, :, None, None]
    pool = pool_support(support, torch.tensor([0, 0, 1]), shots="mean")
    assert pool.counts == [1, 1]
    torch.testing.assert_close(pool.descriptors[0], torch.tensor([1.0, 2.0]) / 5**0.5)
    torch.testing.assert_close(mean_maps(support, torch.tensor([0, 0, 1]))[0].flatten(), torch.tensor([1.0, 2.0]))


def test_an_unknown_way_to_combine_shots_is_named():
    with pytest.raises(InputError, match="unknown shots 'median'; choose one of union, mean"):
        pool_support(torch.ones(1, 2, 1, 1), torch.tensor([0]), shots="median")


def test_centred_descriptors_are_measured_from_the_mean_of_the_shots():
    support = torch.tensor([[13.0, 10.0], [7.0, 10.0]])[:, :, None, None]              # much in common: (10, 10)
    pool = pool_support(support, torch.tensor([0, 1]), centre="shots")
    assert pool.centre.tolist() == [10.0, 10.0]
    assert pool.descriptors.tolist() == [[1.0, 0.0], [-1.0, 0.0]]
    assert describe(torch.full((1, 2, 1, 1), 10.0), centre=pool.centre).tolist() == [[[0.0, 0.0]]]


def test_the_centre_weighs_classes_not_pictures():
    support = torch.tensor([[0.0], [0.0], [0.0], [8.0]])[:, :, None, None]
    assert mean_descriptor(support, torch.tensor([0, 0, 0, 1])).tolist() == [4.0]


def test_the_centre_of_half_precision_maps_is_float32():
    support = torch.full((2, 1, 64, 64), 60_000.0, dtype=torch.float16)                # their sum would overflow
    assert mean_descriptor(support, torch.tensor([0, 1])).tolist() == [60_000.0]
    assert pool_support(support, torch.tensor([0, 1]), centre="shots").descriptors.dtype == torch.float32


def test_an_unknown_centre_is_named():
    with pytest.raises(InputError, match="unknown centre 'queries'; choose one of none, shots"):
        pool_support(torch.ones(1, 2, 1, 1), torch.tensor([0]), centre="queries")


@pytest.mark.parametrize(("written", "sides"), [("", []), ("4,2,1", [4, 2, 1]), ("4-2-1", [4, 2, 1]), (3, [3])])
def test_a_pyramid_is_a_list_of_sides(written, sides):
    assert pyramid_sides(written) == sides
