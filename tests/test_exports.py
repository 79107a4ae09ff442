"""Files in the forms that Label Studio, FiftyOne and CVAT document."""

import json
import shutil

import pytest
from test_cli_photos import home, run  # noqa: F401  the fixture

from dmn4.data.exports import find_picture, read_labels
from dmn4.errors import InputError
from dmn4.sorting.corrections import with_labels

TASK = {"id": 1, "data": {"image": "/data/upload/83/3f2a9c10-red%201.png"}, "annotations": [
    {"id": 1001, "was_cancelled": False, "result": [
        {"from_name": "choice", "id": "Dx_aB91ISN", "to_name": "image", "type": "choices",
         "value": {"choices": ["red"]}}]}], "predictions": []}
LABEL_STUDIO = [
    TASK,
    {"id": 2, "data": {"image": "/data/local-files/?d=blue%201.png"}, "annotations": [
        {"was_cancelled": True, "result": [{"type": "choices", "value": {"choices": ["red"]}}]},
        {"was_cancelled": False, "result": [{"type": "choices", "value": {"choices": ["blue"]}}]}]},
    {"id": 3, "data": {"image": "https://example.com/green%200.png"}, "annotations": []}]
LABEL_STUDIO_MIN = [{"id": 1, "image": "/data/upload/83/3f2a9c10-red%201.png", "choice": "red", "annotator": 1},
                    {"id": 2, "image": "/data/upload/83/77aa0011-blue%201.png", "choice": {"choices": ["blue", "red"]}}]
FIFTYONE = {"classes": ["blue", "red"], "labels": {"red 1": 1, "blue 1": 0, "green 0": None}}
FIFTYONE_NAMES = {"classes": None, "labels": {"red 1.png": "red", "blue 1.png": "blue", "green 0.png": None}}
CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version><meta><task><id>5</id><name>colours</name></task></meta>
  <image id="0" name="red 1.png" width="20" height="20"><tag label="red" source="manual"></tag></image>
  <image id="1" name="blue 1.png" width="20" height="20"><tag label="blue" source="manual"></tag></image>
  <image id="2" name="green 0.png" width="20" height="20"></image>
</annotations>"""
FORMS = {"label-studio.json": json.dumps(LABEL_STUDIO), "label-studio-min.json": json.dumps(LABEL_STUDIO_MIN),
         "labels.json": json.dumps(FIFTYONE), "names.json": json.dumps(FIFTYONE_NAMES), "annotations.xml": CVAT}


@pytest.fixture(params=FORMS)
def export(request, home, tmp_path):  # noqa: F811
    """An export beside the pictures that it names."""
    (tmp_path / "images").mkdir()
    for colour in ("red", "blue"):
        shutil.copy(home / "photos" / colour / f"{colour} 1.png", tmp_path / "images")
    path = tmp_path / request.param
    path.write_text(FORMS[request.param])
    return path


def test_every_form_gives_the_labelled_pictures(export):
    images = with_labels(None, export)
    named = {path.name: images.classes[label] for path, label in zip(images.images, images.labels, strict=True)}
    assert named == {"red 1.png": "red", "blue 1.png": "blue"}


def test_a_model_is_fitted_to_an_export(home, export, tmp_path, capsys):  # noqa: F811
    code, out, _ = run(["fit", "--labels", export, "-o", tmp_path / "a.dmn4", "--backbone", "conv4-classic",
                        "--weights", home / "small.safetensors", "--image-size", "32"], capsys)
    assert code == 0
    assert "2 classes, 2 pictures" in out


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.json", "[1, 2]", "neither an export of Label Studio"),
    ("a.json", '{"info": {}}', "neither an export of Label Studio"),
    ("a.json", '{"classes": ["a"], "labels": {"x": 7}}', "neither an export of Label Studio"),
    ("a.json", "[{", "as JSON"),
    ("a.xml", "<annotations/>", "names no images"),
    ("a.xml", "<annotations>", "as XML"),
    ("a.xml", '<!DOCTYPE a [<!ENTITY b "c">]><annotations/>', "declares entities"),
])
def test_what_is_no_export_is_one_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / name)


def test_predictions_become_tasks_that_come_back_as_labels(home, tmp_path, capsys, monkeypatch):  # noqa: F811
    monkeypatch.chdir(home)
    tasks = tmp_path / "tasks.json"
    code, _, messages = run(["predict", "colours.dmn4", "inbox", "--format", "label-studio", "-o", tasks], capsys)
    assert code == 0
    found = json.loads(tasks.read_text())
    assert f"{len(found)} tasks; import it into Label Studio" in messages
    one = next(task for task in found if "red%200.png" in task["data"]["image"])
    assert one["data"]["image"] == "/data/local-files/?d=inbox/red%200.png"
    assert one["predictions"][0]["result"] == [{"from_name": "choice", "to_name": "image", "type": "choices",
                                                "value": {"choices": ["red"]}}]
    assert 0 < one["predictions"][0]["score"] <= 1
    one["annotations"] = one.pop("predictions")                          # a person who accepts a prediction
    tasks.write_text(json.dumps([one]))
    assert read_labels(tasks) == [(one["data"]["image"], "red")]
    assert find_picture(one["data"]["image"], tasks).name == "red 0.png"
    code, _, messages = run(["predict", "colours.dmn4", "inbox", "--format", "label-studio"], capsys)
    assert code == 2
    assert "name it with -o tasks.json" in messages
