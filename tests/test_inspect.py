"""The known traps of a wrong copy are reported."""

import pickle

import numpy as np
import pytest
from PIL import Image

from dmn4.data import inspect as module
from dmn4.data.inspect import inspect
from dmn4.data.splits import class_list
from dmn4.errors import InputError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path / "cache"))


def write(folder, numbers, side=10, colour=(90, 60, 30)):
    """A picture for each number, different for different numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        Image.new("RGB", (side, side), tuple((value + number) % 256 for value in colour)).save(folder / f"{number}.png")


@pytest.fixture
def mini(tmp_path):
    """All 16 val classes of miniImageNet, two pictures of 84 x 84 each, reddish."""
    for place, name in enumerate(class_list("miniimagenet")["val"]):
        write(tmp_path / "mini" / "val" / name, (2 * place, 2 * place + 1), side=84)
    for place, name in enumerate(class_list("miniimagenet")["test"]):
        write(tmp_path / "mini" / "test" / name, (100 + place,), side=50)
    return tmp_path / "mini"


def odd(path) -> str:
    return "\n".join(inspect(path).oddities)


def test_an_ordinary_folder_is_described_and_nothing_is_odd(tmp_path):
    write(tmp_path / "photos" / "cats", (1, 2, 3))
    write(tmp_path / "photos" / "dogs", (4,), side=20)
    report = inspect(tmp_path / "photos")
    assert report.layout == "folders by class"
    assert report.oddities == ()
    (part,) = report.splits
    assert (part.split, part.dataset, part.classes, part.images, part.per_class) == ("all", "", 2, 4, (1, 3))
    assert part.sizes == (("10 x 10", 3), ("20 x 20", 1))


def test_a_benchmark_is_named_and_wrong_counts_and_sizes_are_reported(mini):
    report = inspect(mini)
    assert [part.dataset for part in report.splits] == ["miniImageNet val", "miniImageNet test"]
    assert "val: wrong number of images: 32; miniImageNet val has 9600" in report.oddities
    assert "val: 16 classes do not have 600 images" in report.oddities
    assert any(text.startswith("val: all pictures are 84 x 84, resized already") for text in report.oddities)


def test_too_few_classes_are_reported(mini):
    for name in class_list("miniimagenet")["val"][:6]:
        for path in (mini / "val" / name).iterdir():
            path.unlink()
        (mini / "val" / name).rmdir()
    assert "val: too few classes: 10 of the 16 of miniImageNet val" in odd(mini)


def test_a_split_under_the_wrong_name_is_reported(mini):
    (mini / "val").rename(mini / "train")
    assert "train: these are the val classes of miniImageNet" in odd(mini)


def test_identical_pictures_across_classes_and_splits_are_reported(mini):
    first = {split: class_list("miniimagenet")[split][0] for split in ("val", "test")}
    write(mini / "val" / first["val"], (3,), side=84)              # also the last picture of the second class
    write(mini / "test" / first["test"], (0,), side=84)
    text = odd(mini)
    assert "val: 1 groups of identical pictures, 1 of them across classes" in text
    assert "val and test share 1 identical pictures" in text


def test_exchanged_colours_are_reported(tmp_path):
    for place, name in enumerate(class_list("miniimagenet")["val"]):
        write(tmp_path / "mini" / "test" / name, (place,), colour=(30, 60, 90))
    assert "the colours may be in the order BGR" in odd(tmp_path / "mini")


def test_a_split_of_cub_that_no_rule_makes_is_reported(tmp_path):
    for number in range(1, 31):
        write(tmp_path / "cub" / "train" / f"{number:03d}.Bird", (number,))
    assert "train: 30 classes of CUB-200-2011 that are no split of a benchmark known here" in odd(tmp_path / "cub")


def test_unreadable_pictures_are_reported_and_left_out(tmp_path):
    write(tmp_path / "photos" / "cats", (1, 2, 3))
    write(tmp_path / "photos" / "dogs", (4,))
    (tmp_path / "photos" / "cats" / "2.png").write_bytes(b"words")
    report = inspect(tmp_path / "photos")
    assert report.splits[0].images == 3
    assert "all: 1 pictures cannot be read" in report.oddities
    assert any("cats/2.png" in text for text in report.oddities)
    for path in (tmp_path / "photos").rglob("*.png"):
        path.write_bytes(b"words")
    with pytest.raises(InputError, match="none of the 4 pictures of photos can be read"):
        inspect(tmp_path / "photos")


def test_warnings_of_the_reader_are_oddities(tmp_path):
    pixels = np.full((4, 8, 8, 3), (30, 60, 90), np.uint8)
    np.savez(tmp_path / "val_images.npz", images=pixels)
    (tmp_path / "val_labels.pkl").write_bytes(pickle.dumps({"labels": [0, 0, 1, 1]}))
    assert "are in the order BGR; they are turned to RGB" in odd(tmp_path)


def test_a_known_copy_is_named(mini, monkeypatch):
    print_ = inspect(mini).splits[0].fingerprint
    monkeypatch.setitem(module.KNOWN_COPIES, print_, "a copy of mine")
    assert inspect(mini).splits[0].copy == "a copy of mine"


def test_the_first_look_is_remembered(mini, monkeypatch):
    first = inspect(mini)
    monkeypatch.setattr("dmn4.data.cache.read_image", lambda source: pytest.fail("read again"))
    assert inspect(mini) == first
