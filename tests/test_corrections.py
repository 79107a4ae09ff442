import os
import shutil

import pytest
from test_cli_photos import home, run  # noqa: F401  the fixture

from dmn4.classify.classifier import load
from dmn4.data.folders import read_folder
from dmn4.errors import InputError
from dmn4.sorting.cells import table_text
from dmn4.sorting.corrections import split, with_labels


def test_the_table_decides_where_both_name_a_picture(home, tmp_path):  # noqa: F811
    table = tmp_path / "t.csv"
    rows = [(home / "photos" / "red" / "red 1.png", "blue"), (home / "inbox" / "green 0.png", "green"),
            (home / "inbox" / "red 0.png", "=1+1"), (home / "inbox" / "red 1.png", "")]
    table.write_text(table_text(("image", "label"), [{"image": str(path), "label": label} for path, label in rows]))
    images = with_labels(read_folder(home / "photos"), table)
    labels = {os.path.basename(path): images.classes[label]
              for path, label in zip(images.images, images.labels, strict=True)}
    assert images.classes == ("=1+1", "blue", "green", "red")
    assert len(images) == 12 + 2
    assert labels["red 1.png"] == "blue"


def test_what_is_wrong_with_a_table_is_said(home, tmp_path):  # noqa: F811
    table = tmp_path / "t.csv"
    table.write_text("image,label\nnowhere.png,red\n")
    with pytest.raises(InputError, match=r"1 of the 1 labelled pictures in .* are not there: 'nowhere.png'"):
        with_labels(None, table)
    table.write_text("image,label\nnowhere.png,\n")
    with pytest.raises(InputError, match=r"no row of .* has a label"):
        with_labels(None, table)


def test_suggestions_filled_in_become_a_model(home, tmp_path, capsys):  # noqa: F811
    table, model = tmp_path / "t.csv", tmp_path / "a.dmn4"
    run(["suggest", home / "colours.dmn4", home / "inbox", "-n", 6, "--csv", table], capsys)
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *(line + os.path.basename(line).split()[0] for line in lines[1:])]))
    code, out, _ = run(["fit", "--labels", table, "-o", model, "--backbone", "conv4-classic", "--weights",
                        home / "small.safetensors", "--image-size", "32"], capsys)
    assert code == 0
    assert "3 classes, 6 pictures" in out
    assert load(model).classes_.tolist() == ["blue", "green", "red"]
    code, _, messages = run(["fit", "-o", model], capsys)
    assert code == 2
    assert "no pictures were named" in messages


def test_labels_that_rule_out_are_no_classes(home, tmp_path):  # noqa: F811
    table = tmp_path / "t.csv"
    names = {"green 0.png": "not green", "red 0.png": "none of these", "red 1.png": "not a flower"}
    table.write_text(table_text(("image", "label"), [{"image": str(home / "inbox" / name), "label": label}
                                                     for name, label in names.items()]))
    images, ruled_out = split(with_labels(read_folder(home / "photos"), table))
    assert images.classes == ("blue", "green", "not a flower", "red")
    assert [(os.path.basename(path), label) for path, label in ruled_out] == [("red 0.png", None),
                                                                              ("green 0.png", "green")]


def test_a_folder_of_strangers_is_learnt_as_none_of_these(home, tmp_path, capsys):  # noqa: F811
    photos, strangers = tmp_path / "photos", tmp_path / "photos" / "none of these"
    shutil.copytree(home / "photos", photos)
    shutil.copytree(home / "inbox", strangers)
    code, out, _ = run(["fit", photos, "-o", tmp_path / "a.dmn4", "--backbone", "conv4-classic", "--weights",
                        home / "small.safetensors", "--image-size", "32"], capsys)
    assert code == 0
    count = len(list(strangers.glob("* ?.png")))
    assert f"3 classes, 12 pictures, {count} ruled out, " in out
    model = load(tmp_path / "a.dmn4")
    assert model.ruled_out_.names(model.classes_.tolist()) == [None] * count
    code, out, _ = run(["suspects", tmp_path / "a.dmn4", photos], capsys)
    assert code == 0
