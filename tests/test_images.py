"""Image files become upright RGB arrays or an InputError; batches become what a network sees."""

import contextlib
import os
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dmn4.errors import InputError
from dmn4.images import (
    TRANSFORMS,
    Crop,
    Transform,
    crop_batch,
    files,
    find_images,
    jitter_batch,
    normalise,
    random_boxes,
    read_image,
    resize_batch,
    resize_image,
)

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def halves(left=RED, right=BLUE, width=16, height=8) -> Image.Image:
    """A picture whose left half and right half differ."""
    image = Image.new("RGB", (width, height), right)
    image.paste(left, (0, 0, width // 2, height))
    return image


# ------------------------------------------------------------------------------------------------------------- reading

@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tiff", "webp", "jpg"])
def test_every_format_is_read_as_rgb_bytes(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    halves().save(path)
    pixels = read_image(path)
    assert pixels.shape == (8, 16, 3)
    assert pixels.dtype == np.uint8
    assert np.abs(pixels[4, 2].astype(int) - RED).max() < 12
    assert np.abs(pixels[4, 13].astype(int) - BLUE).max() < 12


def test_of_a_moving_picture_the_first_frame_counts(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in (RED, BLUE)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "a.gif")[0, 0].tolist() == list(RED)


def test_the_picture_of_a_telephone_with_two_views_is_read(tmp_path):
    halves().save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[halves(BLUE, RED)])
    assert read_image(tmp_path / "a.jpg").shape == (8, 16, 3)


def test_a_picture_taken_sideways_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6                                               # the camera lay on its side: turn right to view
    halves().save(tmp_path / "a.png", exif=exif)
    pixels = read_image(tmp_path / "a.png")
    assert pixels.shape == (16, 8, 3)
    assert pixels[0, 0].tolist() == list(RED)                      # left becomes top
    assert pixels[-1, 0].tolist() == list(BLUE)


@pytest.fixture
def huge(tmp_path):
    """A photograph far larger than a network looks at, taken sideways."""
    exif = Image.Exif()
    exif[0x0112] = 6
    rng = np.random.default_rng(0)
    scene = Image.fromarray(rng.integers(0, 256, (15, 20, 3), dtype=np.uint8)).resize((2000, 1500))
    scene.save(tmp_path / "huge.jpg", quality=90, exif=exif)
    return tmp_path / "huge.jpg"


@pytest.mark.parametrize(("size", "shape"), [(None, (2000, 1500)), (800, (2000, 1500)), (224, (1000, 750)),
                                             ((100, 80), (500, 375)), (1, (250, 188))])
def test_a_large_jpeg_is_decoded_at_twice_the_size_that_is_asked_for_or_more(huge, size, shape):
    assert read_image(huge, size).shape == (*shape, 3)


def test_scaled_down_a_large_jpeg_is_the_same_however_it_was_decoded(huge):
    whole, soon = (resize_image(read_image(huge, size), 224).astype(int) for size in (None, 224))
    assert np.abs(whole - soon).mean() < 1
    assert np.abs(whole - soon).max() < 10


def test_a_large_jpeg_that_is_cut_off_is_refused_at_any_size(huge):
    huge.write_bytes(huge.read_bytes()[:-5000])
    for size in (None, 224, 1):
        with pytest.raises(InputError, match="the file is truncated"):
            read_image(huge, size)


@pytest.mark.parametrize("kind", ["RGB", "RGBA", "P", "I;16", "F", "L"])
def test_a_very_large_picture_is_converted_in_strips_to_the_same_bytes(tmp_path, monkeypatch, kind):
    values = np.random.default_rng(0).integers(0, 256, (90, 70, 4), dtype=np.uint8)
    grey = {"I;16": values[:, :, 0].astype(np.uint16) * 200, "F": values[:, :, 0] / np.float32(300)}
    image = Image.fromarray(grey[kind]) if kind in grey else Image.fromarray(values, "RGBA").convert(kind)
    image.save(tmp_path / "a.tif")
    whole = read_image(tmp_path / "a.tif")
    monkeypatch.setattr(files, "LARGE", 1000)
    monkeypatch.setattr(files, "STRIP", 1000)
    assert np.array_equal(read_image(tmp_path / "a.tif"), whole)
    assert np.array_equal(read_image(Image.open(tmp_path / "a.tif")), whole)
    small = read_image(tmp_path / "a.tif", 10)                 # 70 = 3 * 2 * 10 + 10; 90 = 4 * 2 * 10 + 10
    assert small.shape == (23, 24, 3)
    assert np.abs(small[:22, :23].astype(int) - whole[:88, :69].reshape(22, 4, 23, 3, 3).mean((1, 3))).max() <= 1


def test_a_jpeg_that_goes_through_its_pixels_again_and_again_is_refused(tmp_path, monkeypatch):
    Image.effect_noise((64, 64), 50).save(tmp_path / "a.jpg", progressive=True)
    scans = (tmp_path / "a.jpg").read_bytes().count(b"\xff\xda")
    assert scans > 1
    monkeypatch.setattr(files, "DECODED", scans * 64 * 64)
    assert read_image(tmp_path / "a.jpg").shape == (64, 64, 3)
    monkeypatch.setattr(files, "DECODED", scans * 64 * 64 - 1)
    with pytest.raises(InputError, match=f"it goes {scans} times through its 64 x 64 pixels"):
        read_image(tmp_path / "a.jpg")


def test_a_picture_that_the_user_opened_is_left_as_it_was(huge):
    with Image.open(huge) as image:
        read_image(image, 224)
        assert image.size == (2000, 1500)


def test_grey_palette_and_cmyk_become_rgb():
    grey = Image.new("L", (4, 4), 100)
    assert read_image(grey)[0, 0].tolist() == [100, 100, 100]
    assert read_image(halves().convert("P", palette=Image.Palette.ADAPTIVE))[0, 0].tolist() == list(RED)
    assert read_image(Image.new("CMYK", (4, 4), (0, 255, 255, 0)))[0, 0].tolist() == list(RED)
    assert read_image(Image.new("1", (4, 4), 1))[0, 0].tolist() == list(WHITE)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_parts_lie_on_white(mode):
    assert read_image(Image.new(mode, (4, 4), 0))[0, 0].tolist() == list(WHITE)


def test_a_transparent_palette_colour_lies_on_white(tmp_path):
    image = Image.new("P", (4, 4), 0)
    image.putpalette([10, 20, 30] + [0] * 765)
    image.save(tmp_path / "a.png", transparency=0)
    assert read_image(tmp_path / "a.png")[0, 0].tolist() == list(WHITE)


def test_sixteen_bits_become_eight(tmp_path):
    values = np.array([[0, 32768], [65535, 257]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png")[..., 0].tolist() == [[0, 128], [255, 1]]


def test_a_dark_picture_of_sixteen_bits_stays_dark(tmp_path):
    Image.fromarray(np.full((4, 4), 200, dtype=np.uint16)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").max() == 1


def test_floats_between_0_and_1_become_bytes():
    assert read_image(Image.fromarray(np.array([[0.0, 1.0], [0.5, 0.0]], dtype=np.float32)))[..., 0].tolist() == [
        [0, 255], [128, 0]]


def test_arrays_bytes_and_open_pictures_are_pictures_too(tmp_path):
    halves().save(tmp_path / "a.png")
    expected = np.asarray(halves())
    for source in (expected, (tmp_path / "a.png").read_bytes(), halves(), str(tmp_path / "a.png")):
        assert np.array_equal(read_image(source), expected)
    assert read_image(expected[..., 0]).shape == read_image(expected[..., :1]).shape == (8, 16, 3)


def test_a_given_picture_stays_open():
    image = halves()
    read_image(image)
    assert image.getpixel((0, 0)) == RED


@pytest.mark.parametrize(("array", "words"), [
    (np.zeros((4, 4, 3)), "uint8 values 0 to 255, not float64"),
    (np.zeros((4, 4, 2), np.uint8), "shape \\(h, w, 3\\), not \\(4, 4, 2\\)"),
    (np.zeros((0, 4, 3), np.uint8), "shape \\(h, w, 3\\)"),
])
def test_other_arrays_are_refused(array, words):
    with pytest.raises(InputError, match=words):
        read_image(array)


def test_a_crop_is_cut_out_and_ends_at_the_border(tmp_path):
    halves().save(tmp_path / "a.png")
    part = read_image(Crop(tmp_path / "a.png", (8.0, 2.0, 30.0, 5.0)))
    assert part.shape == (3, 8, 3)
    assert (part == BLUE).all()
    with pytest.raises(InputError, match="lies outside"):
        read_image(Crop(tmp_path / "a.png", (20, 0, 30, 5)))


# ----------------------------------------------------------------------------------------------------------- bad input

def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of(width: int, height: int) -> bytes:
    """A small PNG file that claims this size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize(("content", "words"), [
    (b"", "the content is none of JPEG, PNG"),
    (b"these are words, not a picture", "the content is none of JPEG, PNG"),
    (png_of(30_000, 30_000), "more than 89,478,485"),
    (png_of(10_000, 10_000), "10000 x 10000 pixels are more than"),
    (png_of(1, 1), "1 x 1 pixels show nothing"),
], ids=["empty", "renamed", "huge", "large", "one pixel"])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_what_is_no_picture_is_named_in_the_error(tmp_path, content, words):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_image(path)
    assert repr(str(path)) in str(caught.value)


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "bmp", "gif", "tiff"])
def test_a_truncated_file_is_an_input_error(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match="cannot read"):
        read_image(path)


def test_a_part_that_claims_two_gigabytes_makes_no_room_for_them(tmp_path):
    path = tmp_path / "a.png"
    halves().save(path)
    content, start = path.read_bytes(), path.read_bytes().index(b"IDAT") - 4
    path.write_bytes(content[:start] + struct.pack(">I", 2**31 - 1) + content[start + 4:])
    tracemalloc.start()
    with contextlib.suppress(InputError):
        read_image(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10_000_000


def test_a_missing_file_a_folder_and_a_pipe_are_input_errors(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")                               # opening it would wait for ever
    for name, words in (("none.jpg", "no such file"), ("", "it is a folder"), ("pipe.jpg", "it is not a file")):
        with pytest.raises(InputError, match=words):
            read_image(tmp_path / name)


@pytest.mark.parametrize("name", ["two words.jpg", "🐦.jpg", "line\nbreak.jpg"])
def test_strange_names_are_read_and_reported_on_one_line(tmp_path, name):
    halves().save(tmp_path / name)
    assert find_images(tmp_path) == [tmp_path / name]
    assert read_image(tmp_path / name).shape == (8, 16, 3)
    (tmp_path / name).write_bytes(b"words")
    with pytest.raises(InputError) as caught:
        read_image(tmp_path / name)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------------- finding

def test_images_are_found_sorted_below_the_folder_and_hidden_names_are_passed_over(tmp_path):
    for name in ("b/2.PNG", "a.jpeg", "b/1.tif", ".hidden.jpg", ".cache/x.jpg", "__MACOSX/y.jpg", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder.jpg").mkdir()
    assert [str(path.relative_to(tmp_path)) for path in find_images(tmp_path)] == ["a.jpeg", "b/1.tif", "b/2.PNG"]


def test_links_in_a_circle_end(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").touch()
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    (tmp_path / "a" / "self.jpg").symlink_to(tmp_path / "a" / "self.jpg")
    (tmp_path / "a" / "gone.jpg").symlink_to(tmp_path / "nothing")
    assert find_images(tmp_path) == [tmp_path / "a" / "1.jpg"]


def test_a_link_to_a_folder_above_does_not_bring_what_lies_beside(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        halves().save(tmp_path / "photos" / name / f"{name}.png")
    (tmp_path / "photos" / "b" / "up").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "b" / "far up").symlink_to(tmp_path)
    assert [path.name for path in find_images(tmp_path / "photos" / "b")] == ["b.png"]


def test_a_folder_that_cannot_be_listed_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    halves().save(tmp_path / "a.png")
    listed = os.scandir

    def scan(folder):
        if str(folder).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(folder))
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.warns(UserWarning, match="left out: cannot list the folder '.*locked': Permission denied"):
        assert [path.name for path in find_images(tmp_path)] == ["a.png"]


def test_linked_folders_are_followed(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "1.jpg").touch()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "far")
    assert find_images(tmp_path / "here") == [tmp_path / "here" / "link" / "1.jpg"]


# ------------------------------------------------------------------------------------------------------------- batches

@pytest.fixture
def batch() -> torch.Tensor:
    """Six random pictures of 12 x 12, values far from 0."""
    return torch.randint(1, 256, (6, 12, 12, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_normalised_values_follow_the_formula():
    pixel = torch.tensor([[[[255, 0, 51]]]], dtype=torch.uint8)                                  # (1, 1, 1, 3)
    out = normalise(pixel, mean=(0.5, 0.5, 0.2), std=(0.5, 0.25, 0.1))
    assert out.shape == (1, 3, 1, 1)
    torch.testing.assert_close(out.flatten(), torch.tensor([1.0, -2.0, 0.0]))


def test_the_batch_resize_agrees_with_the_resize_of_one_picture():
    pictures = np.random.default_rng(0).integers(0, 255, (2, 50, 40, 3), dtype=np.uint8)
    batch = resize_batch(torch.from_numpy(pictures), 20, 30).numpy()
    for one, many in zip(pictures, batch, strict=True):
        assert np.abs(resize_image(one, (20, 30)).astype(int) - many).max() <= 1


def test_an_exact_resize_distorts_and_a_resize_of_the_shorter_side_does_not():
    batch = torch.zeros(1, 40, 80, 3, dtype=torch.uint8)
    batch[:, :, 40:] = 255                                                                       # white on the right
    exact = Transform(size=20, resize=(20, 20), mean=(0, 0, 0), std=(1, 1, 1))(batch)
    shorter = Transform(size=20, resize=20, crop="centre", mean=(0, 0, 0), std=(1, 1, 1))(batch)
    assert exact[0, 0, 5].gt(0.5).sum() == shorter[0, 0, 5].gt(0.5).sum() == 10
    assert Transform(size=20, resize=20, crop="centre")._resized(40, 80) == (20, 40)


@pytest.mark.parametrize("reflect", [True, False])
def test_windows_over_the_border_agree_with_padding_and_slicing(batch, reflect):
    generator = torch.Generator().manual_seed(1)
    top, left = torch.randint(-4, 5, (2, 6), generator=generator)
    flipped = torch.rand(6, generator=generator) < 0.5
    mode = {"mode": "reflect"} if reflect else {"mode": "constant"}
    windows = crop_batch(batch, top, left, 12, flipped, reflect)
    for got, picture, y, x, mirrored in zip(windows, batch, top, left, flipped, strict=True):
        window = np.pad(picture.numpy(), ((4, 4), (4, 4), (0, 0)), **mode)[y + 4 : y + 16, x + 4 : x + 16]
        assert np.array_equal(got.numpy(), window[:, ::-1] if mirrored else window)


def test_a_random_crop_reaches_every_place_and_a_centre_crop_the_middle():
    ramp = torch.arange(6, dtype=torch.uint8).view(1, 1, 6, 1).expand(400, 6, 6, 3)
    plain = {"size": 4, "mean": (0.0,) * 3, "std": (1 / 255,) * 3}
    random = Transform(crop="random", **plain)(ramp, torch.Generator().manual_seed(0))
    assert random[:, 0, 0, 0].unique().tolist() == [0, 1, 2]
    assert Transform(crop="centre", **plain)(ramp)[0, 0, 0].tolist() == [1, 2, 3, 4]


def test_half_of_the_pictures_are_mirrored(batch):
    many = batch[:1].expand(400, -1, -1, -1)
    out = Transform(size=12, flip=True)(many, torch.Generator().manual_seed(0))
    straight = (out == normalise(batch[:1])).all((1, 2, 3)).sum()
    mirrored = (out == normalise(batch[:1].flip(2))).all((1, 2, 3)).sum()
    assert straight + mirrored == 400
    assert 150 < mirrored < 250


@given(height=st.integers(2, 60), width=st.integers(2, 60), seed=st.integers(0, 99))
def test_random_windows_lie_inside_the_picture(height, width, seed):
    for top, left, tall, wide in random_boxes(20, height, width, torch.Generator().manual_seed(seed)):
        assert 0 <= top <= top + tall <= height
        assert 0 <= left <= left + wide <= width


def test_random_windows_have_the_published_areas_and_aspects():
    boxes = torch.tensor(random_boxes(500, 200, 200, torch.Generator().manual_seed(0))).float()
    share, aspect = boxes[:, 2] * boxes[:, 3] / 200**2, boxes[:, 3] / boxes[:, 2]
    assert 0.07 < share.min() < 0.12
    assert share.max() > 0.8
    assert 0.74 < aspect.min() < 0.8
    assert 1.25 < aspect.max() < 1.36


def test_jitter_changes_pictures_one_by_one_and_keeps_grey_grey():
    grey = torch.full((50, 4, 4, 3), 100, dtype=torch.uint8)
    values = jitter_batch(grey, 0.4, torch.Generator().manual_seed(0))
    assert torch.allclose(values, values[..., :1], atol=1e-3)      # no colour appears
    assert values.min() >= 59
    assert values.max() <= 141
    assert values[:, 0, 0, 0].unique().numel() == 50


def test_a_jitter_of_nothing_changes_nothing(batch):
    torch.testing.assert_close(jitter_batch(batch, 0.0), batch.float(), atol=1e-2, rtol=0)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_published_transform_gives_its_size_and_repeats_with_its_generator(name):
    train, test = TRANSFORMS[name]
    side = 32 if "cifar" in name else 84
    batch = torch.randint(0, 256, (3, side, side, 3), dtype=torch.uint8)
    first, again = (train(batch, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == test(batch).shape == (3, 3, train.size, train.size)
    assert torch.equal(test(batch), test(batch))                   # nothing random at test time
    assert (train.mean, train.std) == (test.mean, test.std)


def test_pictures_too_small_for_the_crop_are_refused():
    with pytest.raises(InputError, match="pictures of 50 x 50 pixels give no 84 x 84"):
        Transform(crop="centre")(torch.zeros(1, 50, 50, 3, dtype=torch.uint8))
