import pytest
import torch
from torch import nn
from torch.testing import assert_close

from dmn4.backbones import build_backbone
from dmn4.evidence.receptive import grid_fields, heat, receptive_fields

WINDOW, STEP, FIRST = 26, 4, -7               # Conv-4: a place sees 26 pixels, the next one starts 4 further on


@pytest.fixture(scope="module")
def conv4():
    torch.manual_seed(0)
    return build_backbone("conv4", width=0.125).eval()


def window(place: int, side: int, size: int) -> torch.Tensor:
    """The pixels that a place of Conv-4 can see at most: bool (size, size)."""
    top, left = (FIRST + STEP * number for number in divmod(place, side))
    seen = torch.zeros(size, size, dtype=torch.bool)
    seen[max(top, 0) : top + WINDOW, max(left, 0) : left + WINDOW] = True
    return seen


def test_a_place_of_one_convolution_sees_its_nine_pixels():
    network = nn.Conv2d(3, 2, 3)
    seen = receptive_fields(network, torch.randn(3, 5, 5), torch.tensor([0, 5]))
    assert seen[0].nonzero().tolist() == [[row, column] for row in range(3) for column in range(3)]
    assert seen[1].nonzero().tolist() == [[row, column] for row in (1, 2, 3) for column in (2, 3, 4)]


def test_no_place_of_conv4_sees_beyond_its_window_and_together_random_pictures_fill_it(conv4):
    size, side, places = 36, 7, torch.arange(49)
    seen = torch.zeros(49, size, size, dtype=torch.bool)
    for picture in torch.randn(6, 3, size, size, generator=torch.Generator().manual_seed(1)):
        seen |= receptive_fields(conv4, picture, places)
    for place in places.tolist():
        assert torch.equal(seen[place], window(place, side, size)), f"place {place}"


def test_at_84_pixels_every_place_of_conv4_stays_inside_its_window(conv4):
    places = torch.arange(361)
    seen = receptive_fields(conv4, torch.randn(3, 84, 84, generator=torch.Generator().manual_seed(2)), places)
    allowed = torch.stack([window(place, 19, 84) for place in places.tolist()])
    assert not (seen & ~allowed).any()
    assert seen.any((1, 2)).all()


def test_a_max_pool_lets_one_of_four_pixels_through():
    network = nn.MaxPool2d(2)
    seen = receptive_fields(network, torch.rand(3, 4, 4), torch.arange(4))
    assert (seen.sum((1, 2)) <= 3).all()                      # one for each colour
    assert (seen.sum((1, 2)) >= 1).all()


def test_fields_do_not_depend_on_the_batch_and_the_backbone_comes_back_as_it_was(conv4):
    picture, places = torch.randn(3, 36, 36), torch.tensor([3, 40, 3, 8, 21])
    conv4.train()
    once = receptive_fields(conv4, picture, places, batch=2)
    assert conv4.training
    assert_close(once, receptive_fields(conv4.eval(), picture, places, batch=64))
    assert receptive_fields(conv4, picture, places[:0]).shape == (0, 36, 36)


def test_cells_of_the_grid_form_share_the_picture_without_overlap():
    cells = grid_fields((3, 4), torch.arange(12), (30, 41))
    assert torch.equal(cells.sum(0), torch.ones(30, 41, dtype=torch.long))
    assert cells[5].nonzero().amin(0).tolist() == [10, 11]    # second row, second column
    assert cells[5].nonzero().amax(0).tolist() == [19, 20]


def test_heat_is_the_share_of_the_most_crowded_pixel():
    fields = torch.tensor([[[True, False]], [[True, True]]])
    assert heat(fields).tolist() == [[1.0, 0.5]]
    assert heat(fields[:0]).tolist() == [[0.0, 0.0]]
