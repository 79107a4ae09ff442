"""Backbones from elsewhere: ONNX files and models of Hugging Face, by name, in a classifier and in its file."""

import copy
import json
import pickle
import shutil
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from toy_networks import FAMILIES, Tokens, model_folder, onnx_file
from toy_pictures import labelled

from dmn4.backbones import build_backbone
from dmn4.backbones.layout import Layout, averaged
from dmn4.backbones.outside import MAP_SIZE
from dmn4.backbones.timm import imported
from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.errors import InputError

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def pictures(side=32, count=2):
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))


# ------------------------------------------------------------------------------------------------ how output is read

@pytest.mark.parametrize(("shape", "layout"), [
    ((1, 5, 7, 7), Layout("maps", 5)),
    ((1, 7, 7, 5), Layout("channels last", 5)),
    ((1, 16, 5), Layout("tokens", 5, 0)),
    ((1, 17, 5), Layout("tokens", 5, 1)),               # a class token
    ((1, 21, 5), Layout("tokens", 5, 5)),               # and four registers
])
def test_the_layout_is_found_from_one_picture(shape, layout):
    assert Layout.of(torch.zeros(shape), "a network") == layout


def test_tokens_become_places_row_by_row_without_class_and_registers():
    layout = Layout("tokens", 1, extra=2)
    maps = layout.maps(torch.arange(-2.0, 6).view(1, 8, 1), 32, 48)
    assert maps.tolist() == [[[[0, 1, 2], [3, 4, 5]]]]


@pytest.mark.parametrize("shape", [(1, 5), (1, 1, 5)])
def test_a_vector_is_no_map(shape):
    with pytest.raises(InputError, match=r"a network gives \(1, .*a map .* or tokens .* needed"):
        Layout.of(torch.zeros(shape), "a network")


@pytest.mark.parametrize(("size", "side"), [((37, 37), 14), ((6, 9), 3), ((5, 2), 4)])
def test_a_large_map_becomes_means_of_equal_parts_and_its_mean_stays(size, side):
    maps = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0))
    smaller = averaged(maps, side)
    assert smaller.shape[2:] == tuple(min(length, side) for length in size)
    assert_close(smaller.mean((2, 3)), maps.mean((2, 3)))


def test_a_part_takes_what_lies_inside_of_each_place():
    rows = torch.tensor([6.0, 0, 0])                          # three places, two parts: the middle one is shared
    assert averaged(rows.view(1, 1, 3, 1), 2).flatten().tolist() == pytest.approx([4, 0])
    assert averaged(torch.tensor([0.0, 6, 0]).view(1, 1, 3, 1), 2).flatten().tolist() == pytest.approx([2, 2])


def test_a_small_map_stays_as_it_is():
    maps = torch.randn(1, 3, 7, 7)
    assert averaged(maps, 14) is maps


# -------------------------------------------------------------------------------------------------------- ONNX files

def test_an_onnx_file_is_a_backbone(tmp_path):
    network = nn.Conv2d(3, 5, 8, stride=8)
    backbone = build_backbone(f"onnx:{onnx_file(tmp_path / 'a.onnx', network)}")
    assert (backbone.out_channels, backbone.image_size) == (5, 32)
    with torch.no_grad():
        assert_close(backbone(pictures()), network(pictures()))


def test_of_several_outputs_the_first_with_places_counts_or_the_one_that_is_named(tmp_path):
    path = onnx_file(tmp_path / "a.onnx", Tokens(), outputs=("vector", "tokens"))
    with torch.no_grad():
        wanted = Tokens().patches(pictures())
        assert_close(build_backbone(f"onnx:{path}")(pictures()), wanted)
        assert_close(build_backbone(f"onnx:{path}", layer="tokens")(pictures()), wanted)
    with pytest.raises(InputError, match=r"output 'vector' of .* gives \(1, 6\)"):
        build_backbone(f"onnx:{path}", layer="vector")
    with pytest.raises(InputError, match="no output 'other'; choose layer= of vector, tokens"):
        build_backbone(f"onnx:{path}", layer="other")


def test_preprocessing_comes_from_options_or_the_file_beside(tmp_path):
    path = onnx_file(tmp_path / "a.onnx", Tokens(), outputs=("vector", "tokens"))
    plain = build_backbone(f"onnx:{path}")
    assert plain.mean == (0.485, 0.456, 0.406)
    (tmp_path / "a.json").write_text(json.dumps({"mean": [0.5, 0.5, 0.5], "std": 0.25, "layer": "tokens"}))
    beside = build_backbone(f"onnx:{path}")
    assert (beside.mean, beside.std) == ((0.5,) * 3, (0.25,) * 3)
    assert build_backbone(f"onnx:{path}:mean=0.1-0.2-0.3").mean == (0.1, 0.2, 0.3)
    with pytest.raises(InputError, match=r"mean is '0.1-0.2'; three numbers"):
        build_backbone(f"onnx:{path}:mean=0.1-0.2")
    with pytest.raises(InputError, match="has no option 'colour'; it takes image_size, mean, std, layer, map_size"):
        build_backbone(f"onnx:{path}:colour=1")
    (tmp_path / "a.json").write_text('{"crop": 3}')
    with pytest.raises(InputError, match=r"a.json' may hold image_size, mean, std, layer"):
        build_backbone(f"onnx:{path}")


def test_a_file_may_say_how_many_channels_are_matched(tmp_path):
    path = onnx_file(tmp_path / "a.onnx", nn.Conv2d(3, 5, 8, stride=8))
    (tmp_path / "a.json").write_text('{"compared": 3}')
    classifier = FewShotClassifier(backbone=f"onnx:{path}").fit(*labelled(3))
    assert classifier.shots_.maps.sides == (4, 4, 3)
    assert classifier.shots_.maps.means.shape[1] == 5
    assert build_backbone(f"onnx:{path}:compared=2").compared == 2
    with pytest.raises(InputError, match="compared is 9, but the maps have 5 channels"):
        build_backbone(f"onnx:{path}:compared=9")


def test_a_map_of_any_size_can_be_kept_whole(tmp_path):
    path = onnx_file(tmp_path / "a.onnx", nn.Conv2d(3, 5, 1))
    with torch.no_grad():
        assert build_backbone(f"onnx:{path}")(pictures()).shape[2:] == (MAP_SIZE, MAP_SIZE)
        assert build_backbone(f"onnx:{path}:map_size=99")(pictures()).shape[2:] == (32, 32)
    with pytest.raises(InputError, match="map_size is 0; a number of places"):
        build_backbone(f"onnx:{path}:map_size=0")


def test_pictures_of_another_size_are_refused_by_a_network_of_one_size(tmp_path):
    backbone = build_backbone(f"onnx:{onnx_file(tmp_path / 'a.onnx', nn.Conv2d(3, 5, 8))}")
    with pytest.raises(InputError, match="takes pictures of 32 x 32 pixels, not 40 x 40"):
        backbone(pictures(40))


@pytest.mark.parametrize(("content", "message"), [
    (None, "there is no file"), (b"no network", "as an ONNX network")])
def test_a_file_that_is_no_network_is_one_line(tmp_path, content, message):
    if content:
        (tmp_path / "a.onnx").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        build_backbone(f"onnx:{tmp_path / 'a.onnx'}")
    assert "\n" not in str(caught.value)


def test_copies_and_other_processes_open_the_file_again(tmp_path):
    backbone = build_backbone(f"onnx:{onnx_file(tmp_path / 'a.onnx', nn.Conv2d(3, 5, 8))}")
    for again in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        assert torch.equal(again(pictures()), backbone(pictures()))


# ----------------------------------------------------------------------------------------------------- Hugging Face

@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_maps_at_its_own_size_and_at_others(family, tmp_path):
    pytest.importorskip("transformers")
    backbone = build_backbone(f"hf:{model_folder(tmp_path, family)}:map_size=99")
    channels, height, width = FAMILIES[family][1]
    assert backbone.out_channels == channels
    with torch.no_grad():
        assert backbone(pictures(64)).shape == (2, channels, height, width)
        wide = backbone(torch.randn(1, 3, 64, 128))
    assert wide.shape[2:] in {(height, 2 * width), (4, 9)}    # patches of 14 pixels: nine fit into 128
    assert (backbone.image_size, backbone.mean, backbone.std) == (64, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def dino(tmp_path_factory):
    pytest.importorskip("transformers")
    return model_folder(tmp_path_factory.mktemp("dino"))


def test_a_place_of_the_map_follows_the_picture(dino):
    backbone = build_backbone(f"hf:{dino}", layer=0)          # the embeddings: no place has seen another
    images = torch.zeros(2, 3, 56, 56)
    images[1, :, 14:28, 42:] = 1
    with torch.no_grad():
        changed = (backbone(images)[0] != backbone(images)[1]).any(0)
    assert changed.nonzero().tolist() == [[1, 3]]


def test_a_layer_is_the_number_of_a_hidden_state(dino):
    with torch.no_grad():
        states = [build_backbone(f"hf:{dino}:layer={layer}")(pictures(56)) for layer in (1, -1, 2)]
    assert torch.equal(states[1], states[2])
    assert not torch.equal(states[0], states[1])
    with pytest.raises(InputError, match="3 hidden states: layer is a number from 0 to 2, not 7"):
        build_backbone(f"hf:{dino}", layer=7)
    with pytest.raises(InputError, match="layer is 'last'; the number"):
        build_backbone(f"hf:{dino}", layer="last")


def test_a_folder_without_safe_weights_is_not_opened(dino, tmp_path):
    shutil.copy(dino / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(InputError, match=r"no model\*.safetensors in .*; other kinds of weights are not opened"):
        build_backbone(f"hf:{tmp_path}")


def test_a_name_that_cannot_be_found_or_fetched_is_one_line_that_names_the_command(monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")

    def refuse(name, local_files_only, **rest):
        raise OSError("no network\nat all")

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(InputError, match=r"\(no network\); where there is a network: hf download some/model") as caught:
        build_backbone("hf:some/model")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"there is no folder './here'"):
        build_backbone("hf:./here")


def test_a_name_is_found_in_the_cache_and_its_commit_is_kept(dino, monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    commit = tmp_path / "snapshots" / "0123abcd"
    shutil.copytree(dino, commit)
    asked = []
    monkeypatch.setattr(hub, "snapshot_download",
                        lambda name, revision, local_files_only, **rest: asked.append((revision, local_files_only))
                        or str(commit))
    backbone = build_backbone("hf:some/model")
    assert (backbone.name, backbone.options) == ("hf:some/model", {"map_size": MAP_SIZE, "revision": "0123abcd"})
    build_backbone(backbone.name, **backbone.options)
    assert asked == [(None, True), ("0123abcd", True)]        # both times the cache was enough


def test_a_network_that_fails_at_a_size_says_so_in_one_line(dino, monkeypatch):
    backbone = build_backbone(f"hf:{dino}")
    with pytest.raises(InputError, match=r"dino0' cannot look at pictures of 8 x 8 pixels: ") as caught:
        backbone(pictures(8))
    assert "\n" not in str(caught.value)


def test_a_model_of_another_kind_is_refused(tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.BertModel(transformers.BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1,
                           num_attention_heads=1, intermediate_size=8)).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a bert model, which does not look at pictures"):
        build_backbone(f"hf:{tmp_path}")


# -------------------------------------------------------------------------------------------------------------- timm

@pytest.fixture
def timm():
    """The package, where it can be imported."""
    try:
        return imported()
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("model", "shape"), [("resnet10t", (512, 2, 2)), ("vit_tiny_patch16_224", (192, 4, 4))])
def test_a_model_of_timm_gives_maps(model, shape, timm):
    backbone = build_backbone(f"timm:{model}", pretrained=False)
    with torch.no_grad():
        assert backbone(pictures(64)).shape[1:] == shape
    assert build_backbone(f"timm:{model}:layer=-2", pretrained=False).layout.kind == "maps"


def test_a_model_of_timm_of_one_size_says_so_in_one_line(timm):
    with pytest.raises(InputError, match=r"'hiera_tiny_224' cannot look at pictures of 64 x 64 pixels"):
        build_backbone("timm:hiera_tiny_224", pretrained=False)(pictures(64))


def test_weights_of_timm_that_cannot_be_fetched_are_one_line(timm, monkeypatch):
    def refuse(*rest, **options):
        raise OSError("no network\nat all")

    monkeypatch.setattr(timm, "create_model", refuse)
    with pytest.raises(InputError, match=r"timm cannot make 'resnet18': no network$"):
        build_backbone("timm:resnet18")


def test_without_timm_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"timm cannot be imported .*: pip install 'dmn4\[timm\]'"):
        build_backbone("timm:resnet18")


# ------------------------------------------------------------------------------------- in a classifier and its file

def test_a_model_file_names_a_backbone_from_elsewhere_and_does_not_hold_it(dino, tmp_path):
    classifier = FewShotClassifier(backbone=f"hf:{dino}", image_size=56, layer=1).fit(*labelled(3))
    assert classifier.shots_.maps.sides == (4, 4, 32)
    classifier.save(tmp_path / "a.dmn4")
    assert (tmp_path / "a.dmn4").stat().st_size < 1e5 < (dino / "model.safetensors").stat().st_size * 2
    again, queries = load(tmp_path / "a.dmn4"), labelled(2, seed=3)[0]
    assert np.array_equal(again.predict_proba(queries), classifier.predict_proba(queries))
    assert again.parts_.backbone.layer == 1


def test_an_onnx_file_may_move_with_the_model_file(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    path = onnx_file(old / "eye.onnx", nn.Conv2d(3, 5, 8, stride=8))
    classifier = FewShotClassifier(backbone=f"onnx:{path}").fit(*labelled(3))
    classifier.save(old / "a.dmn4")
    old.rename(new)
    queries = labelled(2, seed=3)[0]
    assert np.array_equal(load(new / "a.dmn4").predict(queries), classifier.predict(queries))
    (new / "eye.onnx").rename(new / "elsewhere.onnx")
    with pytest.raises(InputError, match=r"a.dmn4' needs the backbone 'onnx:.*eye.onnx', which is missing"):
        load(new / "a.dmn4")
    onnx_file(new / "eye.onnx", nn.Conv2d(3, 5, 8, stride=8))
    with pytest.raises(InputError, match=r"other weights .* than are here \(their sha256 began"):
        load(new / "a.dmn4")
    moved = build_backbone(f"onnx:{new / 'elsewhere.onnx'}")
    assert np.array_equal(load(new / "a.dmn4", backbone=moved).predict(queries), classifier.predict(queries))


def test_weights_of_its_own_cannot_be_replaced(dino):
    with pytest.raises(InputError, match="brings its own weights: leave weights='imagenet' out"):
        build_backbone(f"hf:{dino}", "imagenet")
    with pytest.raises(InputError, match=r"unknown backbone 'dino'; choose one of conv4, .*hf:NAME_OR_FOLDER"):
        FewShotClassifier(backbone="dino").fit(*labelled(2))


def test_descriptors_of_a_backbone_from_elsewhere_are_centred(dino):
    assert FewShotClassifier(backbone=f"hf:{dino}", image_size=56).fit(*labelled(2)).parts_.method.centre == "shots"
