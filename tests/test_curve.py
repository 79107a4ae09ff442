import csv
import json

import numpy as np
import pytest
import torch
from PIL import Image
from test_cli_photos import home, run  # noqa: F401  the fixture
from toy_pictures import Eye, labelled

from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.curve import draws, fitted, learning_curve, wilson
from dmn4.errors import InputError
from dmn4.sorting.curves import COLUMNS, advice, as_dict, draw_curve, lines_of, next_step, rows_of


def colours(shots: int, noise: float = 60, names: tuple[str, ...] = ("red", "green", "blue")) -> FewShotClassifier:
    return FewShotClassifier(backbone=Eye()).fit(*labelled(shots, names, noise=noise))


@pytest.mark.parametrize("shots", [2, 3, 7, 12])
def test_every_picture_is_judged_once_at_every_size_and_never_by_itself(shots):
    by_size: dict[float, list[int]] = {}
    for size, chosen, held_out in draws(colours(shots).shots_):
        assert not set(chosen.tolist()) & set(held_out.tolist())
        by_size.setdefault(size, []).extend(held_out.tolist())
    assert all(sorted(images) == list(range(3 * shots)) for images in by_size.values())


def test_the_work_grows_with_the_pictures_not_with_their_square():
    def rows_seen(shots: int) -> int:
        return sum(len(chosen) for _, chosen, _ in draws(colours(shots).shots_))

    assert rows_seen(16) < 2.6 * rows_seen(8)


def test_more_pictures_are_expected_to_be_better():
    curve = colours(8, noise=90).curve()
    assert [point.shots for point in curve.expected] == [8, 16, 32]
    accuracies = [point.accuracy for point in curve.expected]
    assert accuracies == sorted(accuracies)
    assert all(point.low < point.accuracy < point.high for point in curve.expected)
    assert curve.measured[-1].shots == pytest.approx(6.4, abs=0.3)


def test_classes_that_look_alike_are_confused_and_named_first():
    pictures, names = labelled(6, ("red", "green", "blue"), noise=15)
    names = ["red", "rouge"] * 3 + names[6:]                  # two names for one colour
    curve = FewShotClassifier(backbone=Eye()).fit(pictures, names).curve()
    assert {curve.classes[0].label, curve.classes[1].label} == {"red", "rouge"}
    assert {curve.classes[0].taken_for[0][0], curve.classes[1].taken_for[0][0]} == {"red", "rouge"}
    assert set(curve.weakest) == {"red", "rouge"}
    assert "Label more of r" in next_step(curve)


def test_a_judge_that_is_always_right_has_enough():
    shots = colours(40).shots_

    def knows(support, pictures):
        return torch.eye(3)[pictures.labels], torch.ones(len(pictures.labels))

    curve = learning_curve(knows, shots, ["a", "b", "c"])
    assert curve.enough
    assert "less than one point" in advice(curve)
    assert not next_step(curve)


def test_a_class_of_one_picture_is_learnt_from_and_not_judged():
    pictures, names = labelled(4)
    names[0] = "alone"
    curve = FewShotClassifier(backbone=Eye()).fit(pictures, names).curve()
    assert "alone" not in [one.label for one in curve.classes]
    with pytest.raises(InputError, match="label at least two of each"):
        colours(1).curve()


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        right = (rng.random(60) < 0.8).astype(float)
        line, covariance = fitted(np.zeros(60), right, 1.0, np.array([1.0, 0.7]), np.array([2.0, 0.25]))
        inside += abs(line[0] - np.log(4)) < 1.96 * covariance[0, 0] ** 0.5
    assert 180 < inside <= 200


def test_wilsons_interval_by_hand():
    point = wilson(1, 10, 10)
    assert (point.accuracy, point.high) == (1, 1)
    assert point.low == pytest.approx(0.722, abs=0.001)


def test_text_table_json_and_picture_say_the_same(tmp_path):
    curve = colours(5, noise=90).curve()
    said, rows = as_dict(curve), list(rows_of(curve))
    assert json.loads(json.dumps(said)) == said
    assert {row["what"] for row in rows} >= {"measured", "expected", "class now", "class with twice as many"}
    assert all(list(row) == list(COLUMNS) for row in rows)
    text = "\n".join(lines_of(curve))
    for point in said["expected"]:
        assert point["words"] in text
    assert draw_curve(curve, tmp_path / "curve.png").size == Image.open(tmp_path / "curve.png").size


def test_the_command_writes_a_table_and_a_picture(home, tmp_path, capsys):  # noqa: F811
    table, picture = tmp_path / "curve.csv", tmp_path / "c.png"
    code, out, _ = run(["curve", home / "colours.dmn4", "--csv", table, "-o", picture], capsys)
    assert code == 0
    assert "12 labelled pictures were judged by the others" in out
    assert [row["what"] for row in csv.DictReader(table.open())].count("expected") == 3
    assert Image.open(picture).format == "PNG"
    code, out, _ = run(["curve", home / "colours.dmn4", "--json"], capsys)
    assert json.loads(out)["judged"] == 12
