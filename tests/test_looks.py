import io

import pytest
import torch
from PIL import Image
from toy_pictures import painted

from dmn4.errors import InputError
from dmn4.images import Transform
from dmn4.images.looks import LOOKS, at_once, batches, look, places_of, read_pixels, thumbnail

SMALL = Transform(12, (12, 12))


def test_batches_are_full_until_the_last():
    assert list(batches(iter(range(5)), 2)) == [[0, 1], [2, 3], [4]]


def test_pictures_of_mixed_sizes_become_one_batch():
    assert read_pixels(painted("red", 3), SMALL).shape == (3, 12, 12, 3)


def test_a_view_depends_on_its_picture_alone():
    pixels = read_pixels(painted("red", 4), SMALL)
    for place in range(len(LOOKS)):
        together = look(pixels, SMALL, place)
        assert torch.equal(together[2:3], look(pixels[2:3], SMALL, place))
        assert together.shape == (4, 3, 12, 12)


def test_two_windows_of_a_picture_differ_and_a_flip_is_a_mirror():
    pixels = read_pixels(painted("red", 1), SMALL)
    plain, flip, first, second = (look(pixels, SMALL, place) for place in range(4))
    assert torch.equal(flip, plain.flip(-1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("side", "count"), [(224, 6), (448, 1), (2000, 1)])
def test_a_processor_embeds_few_pictures_at_a_time(side, count):
    assert at_once(torch.empty(32, 3, side, side, device="meta")) == count


def test_views_are_found_by_kind():
    assert places_of(("crop", "flip", "crop")) == [2, 1, 3]
    with pytest.raises(InputError, match="asks for 2 views 'flip'; there are 1"):
        places_of(("flip", "flip"))
    with pytest.raises(InputError, match="unknown view 'zoom'"):
        places_of(("zoom",))


def test_a_thumbnail_is_a_jpeg_of_the_same_size():
    picture = Image.open(io.BytesIO(thumbnail(read_pixels(painted("red", 1), SMALL)[0])))
    assert (picture.format, picture.size) == ("JPEG", (12, 12))
