"""Files that survive a crash, and clear words about those that did not."""

import errno
import os

import pytest
import torch
from torch import nn

from dmn4.backbones import build_backbone
from dmn4.errors import InputError
from dmn4.files import load_tensors, read_json, save_tensors, write_file
from dmn4.methods import build_method
from dmn4.training.checkpoints import average_backbones, load_model, load_state, save_backbone, save_model, save_state
from dmn4.training.model import FewShotModel
from dmn4.training.runs import Notes


def tiny_model(name="dmn4", **options):
    backbone = build_backbone("conv4", width=0.125)
    return FewShotModel(backbone, build_method(name, channels=backbone.out_channels, **options), name, options)


def test_a_saved_model_needs_no_settings_to_come_back(tmp_path):
    model = tiny_model("odm", share=0.5, vote="rank").eval()
    save_model(tmp_path / "model.safetensors", model, {"epoch": 3})
    again = load_model(tmp_path / "model.safetensors")
    assert (again.name, again.options) == ("odm", {"share": 0.5, "vote": "rank"})
    assert again.backbone.options == {"width": 0.125}
    images, labels = torch.rand(4, 3, 32, 32), torch.tensor([0, 1])
    assert torch.equal(again(images[:2], labels, images[2:]), model(images[:2], labels, images[2:]))


def test_a_saved_backbone_is_read_by_build_backbone(tmp_path):
    backbone = build_backbone("conv4", width=0.125).eval()
    save_backbone(tmp_path / "b.safetensors", backbone, {})
    images = torch.rand(1, 3, 32, 32)
    assert torch.equal(build_backbone("conv4", tmp_path / "b.safetensors").eval()(images), backbone(images))


def test_equal_content_is_written_as_equal_bytes(tmp_path):
    about = {f"fact {number}": "text" for number in range(12)} | {"ä": "ö"}
    written = set()
    for number in range(8):
        save_tensors(tmp_path / f"{number}", {"b": torch.ones(3), "a": torch.zeros(2, dtype=torch.half)}, about)
        written.add((tmp_path / f"{number}").read_bytes())
    assert len(written) == 1
    tensors, found = load_tensors(tmp_path / "0")
    assert found.items() >= about.items()
    assert tensors["a"].tolist() == [0, 0]
    assert tensors["b"].tolist() == [1, 1, 1]


def test_the_mean_of_two_trainings_lies_between_them(tmp_path):
    backbones = [build_backbone("conv4", width=0.125) for _ in range(2)]
    for name, backbone in zip("ab", backbones, strict=True):
        (tmp_path / name).mkdir()
        save_backbone(tmp_path / name / "backbone.safetensors", backbone, {"size": 32, "val": 0.5, "epoch": 2})
    average_backbones([tmp_path / "a", tmp_path / "b" / "backbone.safetensors"], tmp_path / "mean.safetensors")
    mean = build_backbone("conv4", tmp_path / "mean.safetensors").state_dict()
    for name, value in mean.items():
        torch.testing.assert_close(value, sum(one.state_dict()[name] for one in backbones) / 2, check_dtype=False)
    about = load_tensors(tmp_path / "mean.safetensors")[1]
    assert about["size"] == "32"
    assert "val" not in about


@pytest.mark.parametrize(("other", "message"), [
    ({"width": 0.25}, "has options '{\"width\": 0.25}'"),
    ({"width": 0.125, "size": 64}, "has size '64', "),
])
def test_weights_of_different_networks_have_no_mean(other, message, tmp_path):
    size = other.pop("size", 32)
    save_backbone(tmp_path / "a.safetensors", build_backbone("conv4", width=0.125), {"size": 32})
    save_backbone(tmp_path / "b.safetensors", build_backbone("conv4", **other), {"size": size})
    with pytest.raises(InputError, match=message):
        average_backbones([tmp_path / "a.safetensors", tmp_path / "b.safetensors"], tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()


def test_the_state_of_a_training_has_no_mean(tmp_path):
    save_tensors(tmp_path / "last.safetensors", {"network.a": torch.ones(1)}, {})
    with pytest.raises(InputError, match="holds the state of a training"):
        average_backbones([tmp_path / "last.safetensors"] * 2, tmp_path / "mean.safetensors")


def test_weights_of_another_backbone_are_refused_by_name(tmp_path):
    save_backbone(tmp_path / "b.safetensors", build_backbone("conv4", width=0.125), {})
    with pytest.raises(InputError, match="were trained with backbone 'conv4', not 'resnet12'"):
        build_backbone("resnet12", tmp_path / "b.safetensors")


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam])
def test_an_optimiser_goes_on_as_if_it_had_never_been_saved(make, tmp_path):
    options = {"momentum": 0.9} if make is torch.optim.SGD else {}

    def step(network, optimizer):
        optimizer.zero_grad()
        network(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()

    torch.manual_seed(0)
    network = nn.Linear(3, 2)
    optimizer = make(network.parameters(), lr=0.1, **options)
    step(network, optimizer)
    save_state(tmp_path / "last.safetensors", network, optimizer, {"step": 1})
    other = nn.Linear(3, 2)
    other_optimizer = make(other.parameters(), lr=0.1, **options)
    assert load_state(tmp_path / "last.safetensors", other, other_optimizer)["step"] == "1"
    step(network, optimizer)
    step(other, other_optimizer)
    assert torch.equal(network.weight, other.weight)


def test_a_damaged_checkpoint_is_named(tmp_path):
    path = tmp_path / "last.safetensors"
    save_tensors(path, {"a": torch.ones(100)}, {})
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"cannot read checkpoint '.*last.safetensors': damaged"):
        load_tensors(path)


def test_a_foreign_checkpoint_is_told_from_one_of_ours(tmp_path):
    from safetensors.torch import save_file
    save_file({"a": torch.ones(1)}, tmp_path / "foreign.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match="but not a checkpoint of dmn4"):
        load_tensors(tmp_path / "foreign.safetensors")


def test_a_state_of_another_network_is_refused_at_the_first_tensor_that_differs(tmp_path):
    network = nn.Linear(3, 2)
    save_state(tmp_path / "s", network, torch.optim.SGD(network.parameters(), lr=1), {})
    other = nn.Linear(4, 2)
    with pytest.raises(InputError, match=r"'weight' is \(2, 3\), not \(2, 4\)"):
        load_state(tmp_path / "s", other, torch.optim.SGD(other.parameters(), lr=1))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no checkpoint '.*none.safetensors'"):
        load_tensors(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=r"there is no file '.*none.json'"):
        read_json(tmp_path / "none.json", dict)


def test_a_path_below_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"cannot write '.*card.json': (Not a directory|File exists)"):
        write_file(tmp_path / "file" / "card.json", "{}")


def test_a_full_disk_leaves_the_old_file_and_no_half_written_one(tmp_path, monkeypatch):
    path = tmp_path / "last.safetensors"
    write_file(path, "old")

    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"cannot write '.*last.safetensors': No space left on device"):
        write_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_weights_with_a_number_that_no_training_gives_are_refused(tmp_path, number):
    model = tiny_model()
    with torch.no_grad():
        next(model.backbone.parameters()).view(-1)[3] = number
    save_backbone(tmp_path / "b.safetensors", model.backbone, {})
    save_model(tmp_path / "m.safetensors", model, {})
    with pytest.raises(InputError, match=r"b\.safetensors' cannot be used: its tensor 'blocks.* holds"):
        build_backbone("conv4", tmp_path / "b.safetensors")
    with pytest.raises(InputError, match=r"m\.safetensors' cannot be used: its tensor 'backbone"):
        load_model(tmp_path / "m.safetensors")


@pytest.mark.parametrize(("options", "words"), [
    ('{"width": 20000}', "would hold [0-9,]+ billion numbers; at most 2 are built"), ('{"width": NaN}', "cannot read"),
    ('{"width": 1e999}', "cannot read"), ("[" * 100_000, "cannot read"), ("[]", "valid dictionary|object"),
    ('{"width": -1}', "width|channels|conv4"), ('{"depth": 3}', "has no option"), ('{"width": []}', "cannot read"),
])
def test_options_of_a_file_that_ask_for_too_much_are_refused(tmp_path, options, words):
    model = tiny_model()
    about = {"backbone": "conv4", "options": options, "method": "dmn4", "method_options": "{}"}
    save_tensors(tmp_path / "m.safetensors", model.state_dict(), about)
    with pytest.raises(InputError, match=words):
        load_model(tmp_path / "m.safetensors")


@pytest.mark.parametrize(("about", "words"), [
    ({"step": "many", "seconds": "1"}, "cannot read"), ({"step": "-1", "seconds": "1"}, "greater than or equal to 0"),
    ({"step": "1", "seconds": "[]"}, "valid number"), ({"step": "1", "meter": '{"a": "low"}'}, "valid number"),
])
def test_notes_of_another_kind_are_refused(about, words):
    with pytest.raises(InputError, match=words):
        Notes.read(about, "a checkpoint")
