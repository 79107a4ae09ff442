"""Every benchmark is recognised in the layouts it circulates in, written here small but exactly in their form."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

from dmn4.data.layouts import open_dataset, recognise
from dmn4.data.splits import class_list
from dmn4.errors import InputError
from dmn4.images import read_image

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 200, (6, 84, 84, 3), dtype=np.uint8)
PIXELS[..., 0] += 50                                               # redder than blue, as photographs are
LABELS = [5, 5, 3, 3, 9, 9]


def write(path, pixels=PIXELS[0]):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def pickled(path, content):
    path.write_bytes(pickle.dumps(content, protocol=2))


def png(pixels) -> np.ndarray:
    """A PNG file as OpenCV hands it out: bytes in an array (n, 1)."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png")
    return np.frombuffer(buffer.getvalue(), np.uint8)[:, None]


def check_pixels(images):
    """The pictures are PIXELS, in their order."""
    assert all(np.array_equal(read_image(image), picture) for image, picture in zip(images.images, PIXELS, strict=True))


# ------------------------------------------------------------------------------------------------------------- folders

@pytest.mark.parametrize(("train", "val", "test"), [("train", "val", "test"), ("meta-train", "meta-val", "meta-test")])
def test_folders_by_split_and_class(tmp_path, train, val, test):
    for folder in (train, val, test):
        for name in ("n01", "n02"):
            write(tmp_path / folder / name / f"{folder}.png")
    assert recognise(tmp_path).name == "folders by split and class"
    for split, folder in zip(("train", "val", "test"), (train, val, test), strict=True):
        images = open_dataset(tmp_path, split)
        assert images.classes == ("n01", "n02")
        assert images.images[0].name == f"{folder}.png"
        assert images.name == f"{tmp_path.name} {split}"


def test_a_split_must_be_chosen_where_there_are_several(tmp_path):
    for folder in ("train", "test"):
        for name in ("a", "b"):
            write(tmp_path / folder / name / "1.png")
    with pytest.raises(InputError, match="has train, test: choose a split"):
        open_dataset(tmp_path)
    with pytest.raises(InputError, match="has train, test: there is no split 'val'"):
        open_dataset(tmp_path, "val")
    with pytest.raises(InputError, match="offers no choice of 'cub_split'"):
        open_dataset(tmp_path, "test", cub_split="frn")


def test_class_folders_of_a_whole_benchmark_can_be_split_by_its_list(tmp_path):
    for names in class_list("cifar-fs").values():
        for name in names:
            write(tmp_path / name / "1.png", PIXELS[0, :4, :4])
    assert len(open_dataset(tmp_path).classes) == 100
    assert [len(open_dataset(tmp_path, split).classes) for split in ("train", "val", "test")] == [64, 16, 20]
    assert set(open_dataset(tmp_path, "val").classes) == set(class_list("cifar-fs")["val"])


def test_what_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no folder or file"):
        open_dataset(tmp_path / "none")
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(InputError, match="neither a folder of pictures nor a table"):
        open_dataset(tmp_path / "a.txt")


# -------------------------------------------------------------------------------------------------------------- tables

def test_mini_imagenet_as_tables_with_images(tmp_path):
    for number in (5, 6):
        write(tmp_path / "images" / f"n015328290000000{number}.jpg")
        write(tmp_path / "images" / f"n015589930000000{number}.jpg")
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "train.csv").write_text("filename,label\nn0153282900000005.jpg,n01532829\n"
                                                  "n0153282900000006.jpg,n01532829\nn0155899300000005.jpg,n01558993\n")
    assert recognise(tmp_path).name == "CSV tables"
    assert open_dataset(tmp_path, "train").counts.tolist() == [2, 1]


def test_mini_imagenet_with_the_file_names_of_ilsvrc(tmp_path):
    write(tmp_path / "images" / "n01532829_20457.JPEG")
    write(tmp_path / "images" / "n01558993" / "n01558993_7.JPEG")
    (tmp_path / "test.csv").write_text(
        "class_name,image_name\nn01532829,n01532829_20457.JPEG\nn01558993,n01558993_7.JPEG\n")
    assert open_dataset(tmp_path, "test").classes == ("n01532829", "n01558993")


def test_the_table_of_feat_with_its_third_column(tmp_path):
    write(tmp_path / "images" / "Crow_1.jpg")
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "val.csv").write_text("filename, label, concept_label\nCrow_1.jpg, 29, 029.Crow\n")
    assert open_dataset(tmp_path, "val").classes == ("29",)


def test_the_lists_of_closerlook(tmp_path):
    write(tmp_path / "images" / "001.Albatross" / "a.jpg")
    write(tmp_path / "images" / "003.Auklet" / "b.jpg")
    (tmp_path / "base.json").write_text(json.dumps({
        "label_names": ["001.Albatross", "002.Other", "003.Auklet"],
        "image_names": ["/home/someone/CUB/images/001.Albatross/a.jpg", "/home/someone/CUB/images/003.Auklet/b.jpg"],
        "image_labels": [0, 2]}))
    images = open_dataset(tmp_path, "train")
    assert images.classes == ("001.Albatross", "003.Auklet")
    assert open_dataset(tmp_path / "base.json", images=tmp_path / "images").classes == images.classes


# -------------------------------------------------------------------------------------------------------------- arrays

@pytest.mark.parametrize("name", ["miniImageNet_category_split_train_phase_train.pickle", "CIFAR_FS_train.pickle"])
def test_pickles_of_data_and_labels(tmp_path, name):
    pickled(tmp_path / name, {"data": PIXELS, "labels": LABELS, "label2catname": {}})
    images = open_dataset(tmp_path, "train")
    assert images.labels.tolist() == [1, 1, 0, 0, 2, 2]
    assert images.classes == ("3", "5", "9")
    check_pixels(images)


def test_the_pickles_of_gidaris_have_five_parts(tmp_path):
    for part in ("train_phase_train", "train_phase_val", "train_phase_test", "val", "test"):
        pickled(tmp_path / f"miniImageNet_category_split_{part}.pickle", {"data": PIXELS, "labels": LABELS})
    assert set(recognise(tmp_path).readers) == {"train", "val", "test", "train_phase_val", "train_phase_test"}


@pytest.mark.parametrize("key", [str, str.encode], ids=["text", "bytes"])
def test_the_pickle_of_ren(tmp_path, key):
    rows = {"n01532829": [4, 5], "n01558993": [0, 1, 2, 3]}
    pickled(tmp_path / "mini-imagenet-cache-val.pkl", {key("image_data"): PIXELS, key("class_dict"): rows})
    images = open_dataset(tmp_path, "val")
    assert images.classes == ("n01532829", "n01558993")
    assert images.labels.tolist() == [1, 1, 1, 1, 0, 0]


def test_tiered_imagenet_as_pickled_png_files_is_rgb(tmp_path):
    pickled(tmp_path / "test_images_png.pkl", [png(picture) for picture in PIXELS])
    pickled(tmp_path / "test_labels.pkl", {"label_specific": [0, 0, 1, 1, 2, 2], "label_general": [0, 0, 0, 0, 1, 1],
                                           "label_specific_str": ["terrier", "corgi", "fan"],
                                           "label_general_str": ["dog", "device"]})
    images = open_dataset(tmp_path, "test")
    assert images.classes == ("terrier", "corgi", "fan")
    check_pixels(images)


def test_tiered_imagenet_as_npz_is_turned_from_bgr_to_rgb(tmp_path):
    np.savez(tmp_path / "val_images.npz", images=PIXELS[..., ::-1])
    pickled(tmp_path / "val_labels.pkl", {"labels": LABELS})
    with pytest.warns(UserWarning, match="are in the order BGR"):
        check_pixels(open_dataset(tmp_path, "val"))


def test_tiered_imagenet_as_npz_in_rgb_stays_as_it_is(tmp_path):
    np.savez(tmp_path / "val_images.npz", images=PIXELS)
    pickled(tmp_path / "val_labels.pkl", {"labels": LABELS})
    check_pixels(open_dataset(tmp_path, "val"))


def test_the_npz_of_tapnet_holds_an_array_for_each_class(tmp_path):
    np.savez(tmp_path / "test.npz", n01=PIXELS[:2] / 255.0, n02=PIXELS[2:] / 255.0)
    images = open_dataset(tmp_path, "test")
    assert images.counts.tolist() == [2, 4]
    check_pixels(images)


@pytest.mark.parametrize(("content", "words"), [
    ({"data": PIXELS}, "has no 'labels'; it holds data"),
    ({"data": PIXELS, "labels": [1, 2]}, "holds 6 pictures and 2 labels"),
    ({"data": PIXELS[0], "labels": [1]}, "no array of pictures"),
    ({"data": PIXELS / 60.0 - 2, "labels": LABELS}, "normalised by an unknown mean"),
    ([1, 2], "has no 'data'; it holds list"),
    ({"data": PIXELS * float("nan"), "labels": LABELS}, "normalised by an unknown mean"),
    ({"data": PIXELS[:, :0], "labels": LABELS}, "no data set needs|no array of pictures"),
    ({"data": PIXELS.astype("U3"), "labels": LABELS}, "no array of pictures"),
    ({"data": PIXELS, "labels": None}, "labels in .* are no list of whole numbers"),
    ({"data": PIXELS, "labels": 7}, "no list of whole numbers"),
    ({"data": PIXELS, "labels": ["a"] * 6}, "no list of whole numbers"),
    ({"data": PIXELS, "labels": [[1], [1, 2], 1, 1, 1, 1]}, "cannot read"),
    ({"data": PIXELS, "labels": [1.5] * 6}, "no list of whole numbers"),
])
def test_arrays_of_the_wrong_form_are_refused(tmp_path, content, words):
    pickled(tmp_path / "CIFAR_FS_test.pickle", content)
    with pytest.raises(InputError, match=words):
        open_dataset(tmp_path, "test")


@pytest.mark.parametrize(("content", "words"), [
    ({"image_data": PIXELS}, "has no 'class_dict'"),
    ({"image_data": PIXELS, "class_dict": [1]}, "no table of classes"),
    ({"image_data": PIXELS, "class_dict": {}}, "no table of classes"),
    ({"image_data": PIXELS, "class_dict": {"n1": [0, 6]}}, "class 'n1' .* names rows that are not among its 6"),
    ({"image_data": PIXELS, "class_dict": {"n1": [-1]}}, "names rows that are not among"),
    ({"image_data": PIXELS, "class_dict": {"n1": "all"}}, "rows of class 'n1' .* are no list of whole numbers"),
])
def test_rows_of_classes_of_the_wrong_form_are_refused(tmp_path, content, words):
    pickled(tmp_path / "mini-imagenet-cache-test.pkl", content)
    with pytest.raises(InputError, match=words):
        open_dataset(tmp_path, "test")


@pytest.mark.parametrize(("files", "labels", "words"), [
    (7, {"labels": [0]}, "is no list of PNG files"),
    ([4_000_000_000], {"labels": [0]}, "is no list of PNG files"),    # as bytes that would be 4 GB
    ([png(PIXELS[0])], [0], "is no table of labels"),
    ([png(PIXELS[0])], {"label_specific": [0], "label_specific_str": []}, "does not name all of its labels 0 to 0"),
    ([png(PIXELS[0])], {"label_specific": [-1], "label_specific_str": ["a"]}, "does not name all"),
    ([png(PIXELS[0])], {"label_specific": [0], "label_specific_str": 3}, "does not name all"),
])
def test_pickled_files_and_labels_that_do_not_fit_are_refused(tmp_path, files, labels, words):
    pickled(tmp_path / "test_images_png.pkl", files)
    pickled(tmp_path / "test_labels.pkl", labels)
    with pytest.raises(InputError, match=words):
        open_dataset(tmp_path, "test")


def zipped(path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


def header(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return out.getvalue()


def test_an_npz_that_unpacks_into_far_more_than_its_file_is_refused(tmp_path):
    zipped(tmp_path / "test.npz", n01=header((1000, 200, 500, 3)) + bytes(300_000_000))
    assert (tmp_path / "test.npz").stat().st_size < 400_000
    with pytest.raises(InputError, match=r"says it holds 0\.3 GB, in a file of 0\.3 MB; no pictures shrink so far"):
        open_dataset(tmp_path, "test")


@pytest.mark.parametrize("member", [
    header((10**6, 1000, 1000, 3)) + b"few", b"words", header((2, 8, 8, 3))[:40], b"\x93NUMPY\x07\x00" + bytes(100),
    header((2, 8, 8, 3)).replace(b"|u1", b"|O "), b""])
def test_an_array_that_its_header_makes_too_large_is_refused(tmp_path, member):
    zipped(tmp_path / "test.npz", n01=member)
    with pytest.raises(InputError, match=r"test\.npz"):
        open_dataset(tmp_path, "test")


def test_classes_of_unequal_pictures_and_an_empty_npz_are_refused(tmp_path):
    for arrays in ({"n01": PIXELS, "n02": PIXELS[:, :40]}, {}):
        np.savez(tmp_path / "test.npz", **arrays)
        with pytest.raises(InputError, match="differ in the size of their pictures"):
            open_dataset(tmp_path, "test")


def test_a_damaged_npz_is_refused(tmp_path):
    (tmp_path / "test.npz").write_bytes(b"words")
    with pytest.raises(InputError, match=r"cannot read .*is not a zip file"):
        open_dataset(tmp_path, "test")


# --------------------------------------------------------------------------------------------------------------- trees

@pytest.fixture
def cub(tmp_path):
    """The raw tree of CUB with classes 1 to 4, two pictures of 20 x 10 each, the box in the right half."""
    root = tmp_path / "CUB_200_2011"
    lines = {"images": [], "image_class_labels": [], "bounding_boxes": [], "classes": []}
    for number in range(1, 9):
        of = (number + 1) // 2
        name = f"{of:03d}.Bird/Bird_{number:04d}.jpg"
        picture = np.zeros((10, 20, 3), np.uint8)
        picture[:, 10:] = 255
        write(root / "images" / name, picture)
        lines["images"].append(f"{number} {name}")
        lines["image_class_labels"].append(f"{number} {of}")
        lines["bounding_boxes"].append(f"{number} 12.0 2.0 8.0 6.0")
    for name, rows in lines.items():
        (root / f"{name}.txt").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_raw_cub_is_cropped_to_its_boxes_and_split_by_each_rule(cub):
    assert recognise(cub).name == recognise(cub / "CUB_200_2011").name == "CUB-200-2011, raw tree"
    images = open_dataset(cub, "train")
    assert images.classes == ("002.Bird", "004.Bird")
    picture = read_image(images.images[0])
    assert picture.shape == (6, 8, 3)
    assert picture.min() > 240
    assert open_dataset(cub, "val").classes == ("001.Bird",)
    assert open_dataset(cub, "test").classes == ("003.Bird",)
    assert open_dataset(cub, "train", cub_split="closerlook").classes == ("001.Bird", "003.Bird")
    assert len(open_dataset(cub)) == 8
    assert read_image(open_dataset(cub, "val", crop=False).images[0]).shape == (10, 20, 3)


def test_raw_cub_can_be_split_by_the_users_own_table(cub):
    (cub / "own").mkdir()
    (cub / "own" / "test.csv").write_text("filename,label\nBird_0003.jpg,2\nBird_0007.jpg,4\n")
    images = open_dataset(cub, "test", cub_split=str(cub / "own"))
    assert images.classes == ("002.Bird", "004.Bird")
    assert images.counts.tolist() == [1, 1]


def test_an_unknown_rule_and_a_missing_file_of_cub_are_named(cub):
    with pytest.raises(InputError, match="unknown CUB split 'mine'; choose one of frn, closerlook"):
        open_dataset(cub, "train", cub_split="mine")
    (cub / "CUB_200_2011" / "bounding_boxes.txt").unlink()
    with pytest.raises(InputError, match=r"there is no file '.*bounding_boxes\.txt'"):
        open_dataset(cub, "train")


@pytest.fixture(scope="module")
def inat(tmp_path_factory):
    """Boxes as iNaturalist 2017 lists them, for the classes of meta-iNat: 781 of them birds, 354 of them insects.

    Every class has 50 pictures with a box, the first picture two boxes. (No picture is read, so none is written.)
    """
    root = tmp_path_factory.mktemp("inat")
    numbers = sorted(int(name) for names in class_list("meta-inat").values() for name in names)
    categories = [{"id": number, "supercategory": "Aves" if place < 781 else "Insecta"}
                  for place, number in enumerate(numbers)]
    categories.append({"id": 9999, "supercategory": "Aves"})       # one picture only: in neither form
    images, boxes = [{"id": 0, "file_name": "train_val_images/Aves/rare.jpg"}], [{"image_id": 0, "category_id": 9999}]
    for number in numbers:
        for _ in range(50):
            images.append({"id": len(images), "file_name": f"train_val_images/{number}/{len(images)}.jpg"})
            boxes.append({"image_id": images[-1]["id"], "category_id": number})
        boxes.append(boxes[-50])
    boxes = [{"id": place, "bbox": [1, 2, 3, 4], **box} for place, box in enumerate(boxes)]
    (root / "train_2017_bboxes.json").write_text(
        json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    return root


@pytest.mark.parametrize(("tiered", "train", "test"), [(False, 908, 227), (True, 781, 354)])
def test_meta_inat_and_its_tiered_form_have_the_classes_of_the_papers(inat, tiered, train, test):
    assert recognise(inat).name == "iNaturalist 2017 with boxes"
    images = open_dataset(inat, "train", tiered=tiered)
    assert len(images.classes) == train
    assert set(images.counts) == {50}                              # a picture with two boxes counts once
    assert len(open_dataset(inat, "test", tiered=tiered).classes) == test
    assert images.images[0].parent == inat / "train_val_images" / images.classes[0]


@pytest.mark.parametrize("tiered", [False, True])
@pytest.mark.parametrize(("content", "words"), [
    ("[]", "as a list of boxes: Input should be an object"),
    ('{"images": ' + "[" * 100_000, "recursion limit exceeded"),
    ('{"images": [], "annotations": [], "categories": [{"id": 1}]}', "categories.0.supercategory: Field required"),
    ('{"images": [], "annotations": [{"image_id": 1, "category_id": 2}], "categories": []}', "does not name"),
    ('{"images": [{"id": "one", "file_name": "a.jpg"}], "annotations": [], "categories": []}', "id: .* integer"),
])
def test_a_list_of_boxes_of_the_wrong_form_is_refused(tmp_path, content, words, tiered):
    (tmp_path / "train_2017_bboxes.json").write_text(content)
    with pytest.raises(InputError, match=words):
        open_dataset(tmp_path, "train", tiered=tiered)


@pytest.mark.parametrize(("file", "content", "words"), [
    ("images.txt", "1 001.Bird/a.jpg\n2\n", "cannot read"),
    ("images.txt", "1 Bird/a.jpg\n", "cannot read"),
    ("images.txt", "77 001.Bird/a.jpg\n", "KeyError '77'"),
    ("bounding_boxes.txt", "1 12.0 wide 8.0 6.0\n", "could not convert"),
    ("bounding_boxes.txt", "1 12.0\n", "cannot read"),
    ("images.txt", "\xff\xfe", "no UTF-8 text"),
])
def test_a_tree_with_a_malformed_list_is_refused(cub, file, content, words):
    (cub / "CUB_200_2011" / file).write_bytes(content.encode("latin1"))
    with pytest.raises(InputError, match=words):
        open_dataset(cub, "val")


def test_a_list_of_folders_does_not_lead_out_of_the_data(tmp_path):
    write(tmp_path / "data" / "rose" / "1.png")
    (tmp_path / "splits" / "bertinetto").mkdir(parents=True)
    for name in ("/", "..", "../elsewhere"):
        (tmp_path / "splits" / "bertinetto" / "train.txt").write_text(f"rose\n{name}\n")
        with pytest.raises(InputError, match="which is no folder in"):
            open_dataset(tmp_path, "train")


def test_omniglot_has_a_class_for_each_character_of_each_alphabet(tmp_path):
    for part in ("images_background", "images_evaluation"):
        for name in ("Greek/character01", "Greek/character02", "Latin/character01"):
            write(tmp_path / part / name / "0001_01.png")
    assert open_dataset(tmp_path, "train").classes == ("Greek/character01", "Greek/character02", "Latin/character01")
    assert len(open_dataset(tmp_path, "test")) == 3


def test_cifar_fs_as_folders_with_lists(tmp_path):
    for name in ("rose", "bus", "whale"):
        write(tmp_path / "data" / name / "1.png")
    (tmp_path / "splits" / "bertinetto").mkdir(parents=True)
    (tmp_path / "splits" / "bertinetto" / "train.txt").write_text("whale\nbus\n")
    (tmp_path / "splits" / "bertinetto" / "test.txt").write_text("rose\ntulip\n")
    assert open_dataset(tmp_path, "train").classes == ("whale", "bus")
    with pytest.raises(InputError, match=r"no images in '.*tulip', a class that '.*test\.txt' names"):
        open_dataset(tmp_path, "test")
