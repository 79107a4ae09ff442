"""Folders and tables of anybody's pictures become an ImageSet, or an InputError that says what to do."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.tables import read_csv, read_json
from dmn4.errors import InputError
from dmn4.images.files import digest


def write_images(folder, count, value=0):
    """`count` different small pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.new("RGB", (6, 5), (value, number, 7)).save(folder / f"{number}.png")


@pytest.fixture
def photos(tmp_path):
    """Three cats and two dogs."""
    write_images(tmp_path / "photos" / "dogs", 2, value=100)
    write_images(tmp_path / "photos" / "cats", 3, value=200)
    return tmp_path / "photos"


# ------------------------------------------------------------------------------------------------------------- folders

def test_class_folders_become_labels_in_alphabetical_order(photos):
    images = read_folder(photos)
    assert images.classes == ("cats", "dogs")
    assert images.labels.tolist() == [0, 0, 0, 1, 1]
    assert images.counts.tolist() == [3, 2]
    assert images.images[3] == photos / "dogs" / "0.png"
    assert (images.name, len(images)) == ("photos", 5)


def test_hidden_folders_and_files_are_no_classes(photos):
    write_images(photos / ".trash", 1)
    (photos / ".DS_Store").touch()
    (photos / "readme.txt").touch()
    assert read_folder(photos).classes == ("cats", "dogs")


def test_pictures_beside_the_class_folders_are_left_out_with_a_warning(photos):
    Image.new("RGB", (4, 4)).save(photos / "loose.png")
    with pytest.warns(UserWarning, match=r"1 images directly in .* belong to no class"):
        assert len(read_folder(photos)) == 5


@pytest.mark.parametrize("name", ["two words", "🐦 bird", "line\nbreak"])
def test_strange_class_names_are_kept(photos, name):
    write_images(photos / name, 1)
    assert name in read_folder(photos).classes


def test_what_is_wrong_with_a_folder_is_said(tmp_path, photos):
    with pytest.raises(InputError, match=r"there is no folder '.*none'"):
        read_folder(tmp_path / "none")
    with pytest.raises(InputError, match="is not a folder"):
        read_folder(photos / "cats" / "0.png")
    with pytest.raises(InputError, match=r"holds 3 images but no class folders; expected .*/class/image.jpg"):
        read_folder(photos / "cats")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"'.*empty' holds neither images nor folders"):
        read_folder(tmp_path / "empty")
    write_images(tmp_path / "single" / "cats", 2)
    with pytest.raises(InputError, match=r"holds one class folder \('cats'\); a classifier needs at least two"):
        read_folder(tmp_path / "single")
    (photos / "birds").mkdir()
    with pytest.raises(InputError, match=r"no images in '.*birds' \(looked for .jpg"):
        read_folder(photos)


def test_splits_are_not_taken_for_classes(tmp_path):
    for split in ("train", "test"):
        write_images(tmp_path / split / "cats", 1)
    with pytest.raises(InputError, match=r"holds the splits of a data set, not classes; choose '.*test'"):
        read_folder(tmp_path)


def test_links_in_a_circle_do_not_hang(photos):
    (photos / "cats" / "again").symlink_to(photos)
    assert read_folder(photos).classes == ("cats", "dogs")


# -------------------------------------------------------------------------------------------------------------- tables

def test_a_table_names_files_and_classes_in_its_own_order(tmp_path):
    write_images(tmp_path / "images", 3)
    (tmp_path / "train.csv").write_text("filename,label\n2.png,dog\n0.png,cat\n1.png,dog\n")
    images = read_csv(tmp_path / "train.csv")
    assert images.classes == ("dog", "cat")
    assert [path.name for path in images.images] == ["2.png", "1.png", "0.png"]
    assert images.labels.tolist() == [0, 0, 1]


def test_files_may_lie_in_class_folders_or_in_a_folder_that_is_given(tmp_path):
    write_images(tmp_path / "far" / "n01", 1)
    write_images(tmp_path / "far" / "n02", 1)
    (tmp_path / "t.csv").write_text("class_name,image_name\nn01,0.png\nn02,0.png\n")
    images = read_csv(tmp_path / "t.csv", images=tmp_path / "far")
    assert images.images == [tmp_path / "far" / "n01" / "0.png", tmp_path / "far" / "n02" / "0.png"]


def test_missing_files_are_a_warning_and_none_at_all_an_error(tmp_path):
    write_images(tmp_path / "images", 1)
    (tmp_path / "t.csv").write_text("filename,label\n0.png,a\nlost.png,b\n")
    with pytest.warns(UserWarning, match=r"1 of the 2 files in .* are missing: 'lost.png'"):
        assert read_csv(tmp_path / "t.csv").classes == ("a",)
    (tmp_path / "t.csv").write_text("filename,label\nlost.png,b\n")
    with pytest.raises(InputError, match="names 1 files; none is in"):
        read_csv(tmp_path / "t.csv")


@pytest.mark.parametrize(("text", "words"), [
    ("", "needs a column 'filename'; its first line is ''"),
    ("file,kind\na.png,b\n", "needs a column 'label'"),
    ("filename,label\na.png\n", "fewer columns than its header"),
])
def test_a_table_of_the_wrong_form_is_refused(tmp_path, text, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=words):
        read_csv(tmp_path / "t.csv")


def test_a_table_that_is_missing_or_no_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_csv(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(InputError, match=r"cannot read .* no UTF-8 text"):
        read_csv(tmp_path / "t.csv")
    (tmp_path / "t.json").write_text('{"label_names": []}')
    with pytest.raises(InputError, match="as a list of pictures: image_names: Field required"):
        read_json(tmp_path / "t.json")


# ------------------------------------------------------------------------------------------------------------ ImageSet

@pytest.fixture
def drawn():
    """Ten random pictures of three classes."""
    pixels = np.random.default_rng(0).integers(0, 255, (10, 4, 4, 3), dtype=np.uint8)
    return ImageSet(pixels, [0, 1, 2, 0, 1, 2, 0, 1, 2, 2], ("a", "b", "c"))


def test_classes_are_chosen_by_name_or_label_and_relabelled_in_the_order_given(drawn):
    part = drawn.of_classes(["c", "a"])
    assert part.classes == ("c", "a")
    assert part.labels.tolist() == [1, 0, 1, 0, 1, 0, 0]
    assert np.array_equal(part.images, drawn.images[[0, 2, 3, 5, 6, 8, 9]])
    assert drawn.of_classes([2, 0]).fingerprint == part.fingerprint
    with pytest.raises(InputError, match="has no class 'd'; it has 'a', 'b', 'c'"):
        drawn.of_classes(["d"])


def test_neighbouring_rows_are_a_view_and_any_mask_will_do(drawn):
    assert np.shares_memory(drawn.rows([3, 4, 5]).images, drawn.images)
    assert drawn.rows(drawn.labels == 1).labels.tolist() == [1, 1, 1]
    assert drawn.rows([9, 0]).labels.tolist() == [2, 0]
    assert len(drawn.rows([])) == 0


def test_a_fingerprint_is_the_same_in_any_order_format_and_under_any_name(photos, tmp_path):
    images = read_folder(photos)
    write_images(tmp_path / "other" / "z", 2, value=100)
    (tmp_path / "other" / "y").mkdir()
    for number in range(3):
        Image.open(photos / "cats" / f"{number}.png").save(tmp_path / "other" / "y" / f"x{9 - number}.bmp")
    assert read_folder(tmp_path / "other").fingerprint == images.fingerprint
    assert images.rows([4, 0, 2, 1, 3]).fingerprint == images.fingerprint


def test_a_fingerprint_changes_with_a_pixel_a_label_or_a_picture(drawn):
    pixels = drawn.images.copy()
    pixels[3, 0, 0, 0] ^= 1
    others = [ImageSet(pixels, drawn.labels, drawn.classes), drawn.rows(range(9)),
              ImageSet(drawn.images, [1, 1, 2, 0, 1, 2, 0, 1, 2, 2], drawn.classes)]
    assert len({drawn.fingerprint, *(other.fingerprint for other in others)}) == 4


@given(st.permutations(range(10)))
def test_the_order_of_pictures_never_changes_the_fingerprint(order):
    rng = np.random.default_rng(0)
    images = ImageSet(rng.integers(0, 255, (10, 2, 2, 3), dtype=np.uint8), [0] * 5 + [1] * 5, ("a", "b"))
    assert images.rows(order).fingerprint == images.fingerprint


def test_pictures_of_another_shape_have_another_digest():
    assert not np.array_equal(digest(np.zeros((2, 8, 3), np.uint8)), digest(np.zeros((8, 2, 3), np.uint8)))


def test_identical_pictures_have_the_same_number(drawn):
    pixels = drawn.images.copy()
    pixels[7] = pixels[2]
    numbers = ImageSet(pixels, drawn.labels, drawn.classes).duplicates
    assert numbers[7] == numbers[2]
    assert len(set(numbers.tolist())) == 9


@pytest.mark.parametrize(("text", "words"), [
    ('{"label_names": ["a"], "image_names": ["1.png"], "image_labels": [-1]}', "image_labels.0: .* greater than"),
    ('{"label_names": ["a"], "image_names": ["1.png"], "image_labels": [1]}', "1 labels and 1 classes"),
    ('{"label_names": ["a"], "image_names": ["1.png"], "image_labels": []}', "do not belong together"),
    ('{"label_names": ["a"], "image_names": ["' + "n" * 300 + '.png"], "image_labels": [0]}', "none is in"),
    ("[" * 100_000, "cannot read"), ("NaN", "cannot read"),
])
def test_a_list_of_the_wrong_form_is_refused(tmp_path, text, words):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InputError, match=words):
        read_json(tmp_path / "t.json")


@pytest.mark.parametrize(("read", "name"), [(read_csv, "t.csv"), (read_json, "t.json")])
def test_a_pipe_in_place_of_a_table_is_not_waited_for(tmp_path, read, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="no ordinary file"):
        read(tmp_path / name)


def test_a_cell_without_an_end_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text('filename,label\n"' + "x" * 200_000)
    with pytest.raises(InputError, match="field larger than field limit"):
        read_csv(tmp_path / "t.csv")
