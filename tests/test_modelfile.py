import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from test_classifier import UNTRAINED, eye
from torch import nn
from toy_models import taken_apart
from toy_pictures import Eye, labelled, painted

from dmn4.classify.classifier import load
from dmn4.classify.description import OLDEST, VERSION
from dmn4.classify.modelfile import KEY, content, read_modelfile, write_modelfile
from dmn4.errors import InputError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "colours.dmn4"
    eye().fit(*labelled(3)).save(path)
    return path


@pytest.mark.parametrize("name", UNTRAINED)
def test_a_loaded_classifier_predicts_the_same_to_the_bit(name, tmp_path):
    classifier = eye(name, batch_size=4).fit(*labelled(2))
    classifier.save(tmp_path / "a.dmn4")
    again = load(tmp_path / "a.dmn4", backbone=Eye())
    queries = labelled(3, seed=8)[0] + painted("grey", 2)
    assert np.array_equal(again.predict_proba(queries), classifier.predict_proba(queries))
    assert again.predict(queries, reject=True).tolist() == classifier.predict(queries, reject=True).tolist()
    assert again.pictures_ == classifier.pictures_
    assert again.get_params()["batch_size"] == 4


def test_unlabelled_pictures_and_number_labels_are_kept(tmp_path):
    pictures, names = labelled(2)
    numbers = [len(name) for name in names]
    eye().fit(pictures, numbers, unlabelled=painted("red", 2)).save(tmp_path / "a.dmn4")
    again = load(tmp_path / "a.dmn4", backbone=Eye())
    assert again.classes_.tolist() == [3, 4, 5]
    assert again.parts_.method_name == "dmn4-semi"
    assert len(again.unlabelled_) == 2


def test_a_loaded_classifier_can_learn_more(path):
    again = load(path, backbone=Eye()).partial_fit(painted("grey", 2), ["grey", "grey"])
    assert again.classes_.tolist() == ["blue", "green", "grey", "red"]


def test_the_weights_of_a_backbone_made_elsewhere_are_in_the_file(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=3), nn.ReLU())
    classifier = eye().set_params(backbone=network).fit(*labelled(2))
    classifier.save(tmp_path / "a.dmn4")
    other = nn.Sequential(nn.Conv2d(3, 6, 3, stride=3), nn.ReLU())
    queries = labelled(2, seed=5)[0]
    assert np.array_equal(load(tmp_path / "a.dmn4", other).predict_proba(queries), classifier.predict_proba(queries))
    with pytest.raises(InputError, match=r"belongs to another network: '0.weight'"):
        load(tmp_path / "a.dmn4", nn.Sequential(nn.Conv2d(3, 6, 5)))


def test_a_backbone_made_elsewhere_is_asked_for(path):
    with pytest.raises(InputError, match=r"was made with a backbone of its own .Eye.: give it as backbone="):
        load(path)


def test_every_truncation_is_one_clear_line(path, tmp_path):
    whole = path.read_bytes()
    for length in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        cut = tmp_path / "cut.dmn4"
        cut.write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged, truncated, or not a dmn4 file") as caught:
            load(cut)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\x80\x04\x95pickle", b"PK\x03\x04zip", b"hello", b"\xff" * 64])
def test_a_foreign_file_is_refused_and_not_run(content, tmp_path):
    (tmp_path / "foreign.dmn4").write_bytes(content)
    with pytest.raises(InputError, match="cannot read model file"):
        load(tmp_path / "foreign.dmn4")


def test_other_safetensors_newer_files_folders_and_nothing_are_told_apart(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "weights.dmn4")
    with pytest.raises(InputError, match="a safetensors file, but no classifier of dmn4"):
        load(tmp_path / "weights.dmn4")
    save_file({"a": torch.zeros(1)}, tmp_path / "new.dmn4", {KEY: json.dumps({"version": 99})})
    with pytest.raises(InputError, match=r"written by a newer dmn4 .file version 99, this one reads 5.: upgrade"):
        load(tmp_path / "new.dmn4")
    with pytest.raises(InputError, match="is a folder, not a model file"):
        load(tmp_path)
    with pytest.raises(InputError, match="there is no model file"):
        load(tmp_path / "gone.dmn4")


@pytest.mark.parametrize("missing", ["parameters", "parts", "classes", "calibration"])
def test_a_damaged_description_is_one_clear_line(path, missing):
    tensors, about = taken_apart(path)
    del about[missing]
    write_modelfile(path, tensors, about)
    with pytest.raises(InputError, match="its description is damaged"):
        load(path, Eye())


def test_a_file_cannot_ask_for_more_room_than_its_labels_need(path):
    tensors, about = taken_apart(path)
    about["classes"]["type"] = "<U90000000"
    write_modelfile(path, tensors, about)
    assert load(path, Eye()).classes_.nbytes < 1000
    about["classes"]["type"] = "V90000000"
    write_modelfile(path, tensors, about)
    with pytest.raises(InputError, match="its description is damaged"):
        load(path, Eye())


def test_a_file_that_cannot_be_written_leaves_what_was_there(path):
    (path.parent / "full").mkdir()
    (path.parent / "full" / "photo.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match=r"cannot write .*full.*; what was there before is intact"):
        load(path, Eye()).save(path.parent / "full")
    assert sorted(found.name for found in path.parent.rglob("*")) == ["colours.dmn4", "full", "photo.jpg"]


FILES = Path(__file__).parent / "files"                            # Eye, two pictures each of red, green and blue


def test_there_is_a_file_of_every_version_that_is_read():
    versions = [taken_apart(path)[1]["version"] for path in sorted(FILES.glob("*.dmn4"))]
    assert versions == list(range(OLDEST, VERSION))


@pytest.mark.parametrize("version", range(OLDEST, VERSION))
def test_a_file_of_an_older_version_answers_as_it_did(version, tmp_path):
    old = load(FILES / f"version-{version}.dmn4", Eye())
    queries, truth = labelled(1, seed=3)
    expected = [[4.6123, 4.7744, 7.8308], [4.2573, 6.7446, 4.042], [5.9415, 3.8882, 3.614]]
    np.testing.assert_allclose(old.decision_function(queries), expected, atol=1e-4)
    assert old.predict(queries, reject=True).tolist() == truth
    old.save(tmp_path / "new.dmn4")
    again = load(tmp_path / "new.dmn4", Eye())
    assert np.array_equal(again.predict_proba(queries), old.predict_proba(queries))
    assert again.pictures_ == old.pictures_


def test_equal_classifiers_are_equal_files(path, tmp_path):
    eye().fit(*labelled(3)).save(tmp_path / "again.dmn4")
    assert (tmp_path / "again.dmn4").read_bytes() == path.read_bytes()
    load(path, Eye()).save(tmp_path / "again.dmn4")
    assert (tmp_path / "again.dmn4").read_bytes() == path.read_bytes()


def test_a_file_is_replaced_under_a_classifier_that_reads_from_it(path):
    classifier, queries = load(path, Eye()), labelled(2, seed=4)[0]
    before, pictures = classifier.decision_function(queries), list(classifier.pictures_)
    eye().fit(*labelled(2, seed=9)).save(path)
    assert np.array_equal(classifier.decision_function(queries), before)
    assert list(classifier.pictures_) == pictures


def test_a_classifier_from_a_file_can_be_pickled(path):
    again = pickle.loads(pickle.dumps(load(path, Eye())))
    queries = labelled(2, seed=4)[0]
    assert np.array_equal(again.predict_proba(queries), load(path, Eye()).predict_proba(queries))


DAMAGES = {
    "no description at all": (lambda about: about.clear(), "version: Field required"),
    "deep lists": (lambda about: about.update(classes="deep"), "recursion limit exceeded"),
    "an absurd width": (lambda about: about["parts"]["backbone"].update(name="conv4", options={"width": 1e5}),
                        r"would hold [\d,]+ billion numbers"),
    "pictures of 20,000 pixels": (lambda about: about["parts"]["transform"].update(size=20_000),
                                  "parts.transform.size: Input should be less than or equal to 4096"),
    "a million letters": (lambda about: about["classes"].update(values=["a", "b" * 1_000_000, "c"]),
                          "at most 1000 characters"),
    "an infinite temperature": (lambda about: about["calibration"].update(temperature=math.inf), "Infinity|finite"),
    "a temperature that is no number": (lambda about: about["calibration"].update(temperature=math.nan), "NaN|finite"),
    "a temperature of zero": (lambda about: about["calibration"].update(temperature=0.0), "should be greater than 0"),
    "an unknown argument": (lambda about: about["parameters"].update(surprise=1), "parameters.surprise: Extra inputs"),
    "text for a number": (lambda about: about["parameters"].update(batch_size="32"), "parameters.batch_size"),
    "one class": (lambda about: about["classes"].update(values=["a"]), "classes.values: .*at least 2"),
    "equal classes": (lambda about: about["classes"].update(values=["a", "b", "a"]), "have the same name"),
    "a checksum that is none": (lambda about: about["parts"]["backbone"].update(sha256="0"), "sha256"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_description_names_the_field(path, damage):
    (change, message), (tensors, about) = DAMAGES[damage], taken_apart(path)
    change(about)
    damaged = json.dumps(about).replace('"deep"', "[" * 300 + "]" * 300)
    save_file(tensors, path, {KEY: damaged})
    with pytest.raises(InputError, match=message) as caught:
        load(path, None if "width" in damage else Eye())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(("name", "change", "message"), [
    ("shots.means", lambda tensor: tensor * torch.nan, "'shots.means' holds NaN or infinite"),
    ("shots.patches", lambda tensor: tensor * torch.nan, r"support map 0 holds NaN or infinite values"),
    ("shots.patches", lambda tensor: tensor.float(), "'shots.patches' is torch.float32, not torch.float16"),
    ("shots.patches", lambda tensor: tensor[1:], "do not fit together"),
    ("shots.labels", lambda tensor: tensor * 0, "do not fit together"),
    ("shots.labels", lambda tensor: tensor + 1, "do not fit together"),
    ("shots.look", lambda tensor: tensor + 9, "do not fit together"),
    ("shots.image", lambda tensor: tensor * 0, "do not fit together"),
    ("pictures.ends", lambda tensor: tensor.flip(0), "do not fit together"),
    ("pictures.ends", lambda tensor: tensor + 1_000_000, "do not fit together"),
    ("pictures.ends", lambda tensor: tensor[:0], "do not fit together"),
    ("pictures.ends", lambda tensor: tensor[-1], "'pictures.ends' has 0 sides, not 1"),
    ("shots.means", lambda tensor: tensor[:, 0], "'shots.means' has 1 sides, not 2"),
    ("shots.image", None, "'shots.image' is not there"),
])
def test_tensors_that_do_not_fit_are_named(path, name, change, message):
    tensors, about = taken_apart(path)
    tensors.pop(name) if change is None else tensors.update({name: change(tensors[name])})
    write_modelfile(path, tensors, about)
    with pytest.raises(InputError, match=message):
        load(path, Eye())


def test_weights_that_are_no_numbers_are_named(tmp_path):
    network = nn.Conv2d(3, 6, 3, stride=3)
    eye().set_params(backbone=network).fit(*labelled(2)).save(tmp_path / "a.dmn4")
    tensors, about = taken_apart(tmp_path / "a.dmn4")
    tensors["backbone.bias"][1] = torch.inf
    write_modelfile(tmp_path / "a.dmn4", tensors, about)
    with pytest.raises(InputError, match=r"a.dmn4' cannot be used: its tensor 'bias' holds inf"):
        load(tmp_path / "a.dmn4", network)


def test_maps_are_not_read_when_a_file_is_opened(path):
    tensors, _ = read_modelfile(path)
    before = path.read_bytes()
    held = tensors["shots.patches"]
    with open(path, "r+b") as file:                                   # a mapping that nobody has read sees the change
        file.write(before.replace(content(held).tobytes(), bytes(held.nbytes)))
    assert not held.any()
