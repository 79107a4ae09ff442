"""The service and its page with a network from elsewhere: one of Hugging Face, or an ONNX file."""

from pathlib import Path

import httpx
import pytest
from toy_networks import Tokens, model_folder, onnx_file
from toy_pictures import labelled
from toy_service import picture, running, shots

from dmn4.backbones import build_backbone
from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.classify.modelfile import read_modelfile
from dmn4.errors import InputError
from dmn4.web.backbone import ChosenBackbone
from dmn4.web.server import serve

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.fixture(scope="module", params=["hf", "onnx"])
def model(request, tmp_path_factory):
    """A file of a classifier on such a network."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "hf":
        pytest.importorskip("transformers")
        name = f"hf:{model_folder(folder / 'dino')}:layer=1"
    else:
        name = f"onnx:{onnx_file(folder / 'eye.onnx', Tokens(), outputs=('vector', 'tokens'))}:mean=0.5-0.5-0.5"
    classifier = FewShotClassifier(backbone=name, image_size=56 if request.param == "hf" else None)
    classifier.fit(*labelled(3)).save(folder / "a.dmn4")
    return folder / "a.dmn4"


def test_a_model_file_tells_the_service_which_network_it_needs(model):
    chosen, classifier = ChosenBackbone.of_model(model), load(model)
    again = build_backbone(chosen.source)
    assert (again.sha256, again.mean) == (classifier.parts_.backbone.sha256, classifier.parts_.backbone.mean)
    assert again.image_size == classifier.parts_.transform.size
    assert "/" not in chosen.name                             # which everybody is told who asks the service


def test_the_service_says_what_python_says_and_teaches_with_it(model):
    asked, colours = picture("red", 9), ("red", "green", "blue")
    classifier = load(model)
    expected = dict(zip(classifier.classes_, classifier.predict_proba([asked])[0], strict=True))
    with running(ChosenBackbone.of_model(model).source, model) as address, httpx.Client(base_url=address) as client:
        said = client.post("/api/classifiers/a/predictions", files={"picture": asked}).json()
        assert said["probabilities"] == pytest.approx(expected, rel=1e-3)
        taught = client.post("/api/classifiers", **shots(*colours), timeout=60).json()
        path = f"/api/classifiers/{taught['id']}"
        for colour in colours:
            why = client.post(f"{path}/explanations", files={"picture": picture(colour, 7)}, timeout=60).json()
            assert why["classes"][max(range(3), key=lambda place, why=why: why["scores"][place])] == colour
            assert len(why["descriptors"]) == 16


def test_a_network_that_is_gone_ends_the_command_in_one_line(model, tmp_path):
    moved = tmp_path / "a.dmn4"
    moved.write_bytes(model.read_bytes())
    about = read_modelfile(model)[1].parts.backbone
    place = Path(about.name.partition(":")[2])
    place.rename(place.with_name("moved"))
    try:
        with pytest.raises(InputError, match="there is no f") as caught:
            serve([moved], port=0)
    finally:
        place.with_name("moved").rename(place)
    assert "\n" not in str(caught.value)
