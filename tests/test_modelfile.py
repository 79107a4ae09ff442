import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from test_classifier import UNTRAINED, eye
from torch import nn
from toy_pictures import Eye, labelled, painted

from dmn4.classify.classifier import load
from dmn4.classify.modelfile import KEY, pack_bytes, read_modelfile, unpack_bytes, write_modelfile
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
    with pytest.raises(InputError, match=r"written by a newer dmn4 .file version 99, this one reads 2.: upgrade"):
        load(tmp_path / "new.dmn4")
    with pytest.raises(InputError, match="is a folder, not a model file"):
        load(tmp_path)
    with pytest.raises(InputError, match="there is no model file"):
        load(tmp_path / "gone.dmn4")


@pytest.mark.parametrize("missing", ["parameters", "parts", "classes", "calibration"])
def test_a_damaged_description_is_one_clear_line(path, missing):
    tensors, about = read_modelfile(path)
    del about[missing]
    write_modelfile(path, tensors, about)
    with pytest.raises(InputError, match="its description is damaged"):
        load(path, Eye())


def test_a_file_cannot_ask_for_more_room_than_its_labels_need(path):
    tensors, about = read_modelfile(path)
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


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_byte_strings_come_back(contents):
    packed = pack_bytes(contents)
    assert unpack_bytes(packed["bytes"], packed["ends"]) == contents
