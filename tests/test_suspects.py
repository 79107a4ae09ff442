import csv
import shutil

import pytest
import torch
from test_cli_photos import home, run  # noqa: F401  the fixture
from toy_pictures import Eye, labelled

from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.held_out import judge_held_out, place_in_class
from dmn4.cli import main
from dmn4.errors import InputError


def flipped(wrong: dict[int, str], shots: int = 5) -> FewShotClassifier:
    """A classifier of colours in which some pictures have a wrong label."""
    pictures, names = labelled(shots, noise=15)
    return FewShotClassifier(backbone=Eye()).fit(pictures, [wrong.get(row, name) for row, name in enumerate(names)])


def test_a_wrong_label_is_found_with_its_evidence():
    [suspect] = flipped({1: "blue"}).suspects()
    assert (suspect.picture, suspect.label, suspect.looks_like) == (1, "blue", "red")
    assert suspect.probability > suspect.probability_of_label
    assert suspect.nearest_there in (0, 2, 3, 4)                          # red ones, not itself
    assert suspect.nearest_here in range(10, 15)                          # blue ones


def test_right_labels_are_no_suspects():
    assert flipped({}).suspects() == []


def test_the_worst_comes_first():
    suspects = flipped({1: "blue", 7: "red"}, shots=6).suspects()
    odds = [suspect.probability / suspect.probability_of_label for suspect in suspects]
    assert {suspect.picture for suspect in suspects} == {1, 7}
    assert odds == sorted(odds, reverse=True)


def test_who_trusts_labels_less_sees_more_suspects():
    pictures, names = labelled(20, noise=200)
    classifier = FewShotClassifier(backbone=Eye()).fit(pictures, names)
    few, some, all_of_them = (classifier.suspects(wrong) for wrong in (0.01, 0.1, 0.5))
    assert few == some[: len(few)]
    assert some == all_of_them[: len(some)]
    assert len(few) < len(some) < len(all_of_them)
    assert all(suspect.probability > 9 * suspect.probability_of_label for suspect in some)
    assert all(suspect.probability > suspect.probability_of_label for suspect in all_of_them)
    with pytest.raises(InputError, match=r"wrong is 0\.9; it is the share of labels that may be wrong"):
        classifier.suspects(wrong=0.9)


def test_a_class_of_one_picture_is_not_judged():
    pictures, names = labelled(3, noise=15)
    names[0] = "alone"
    suspects = FewShotClassifier(backbone=Eye()).fit(pictures, names).suspects()
    assert 0 not in [suspect.picture for suspect in suspects]
    assert FewShotClassifier(backbone=Eye()).fit(*labelled(1)).suspects() == []


@pytest.mark.parametrize("shots", [2, 3, 11, 25])
def test_every_picture_is_judged_by_others_of_its_class(shots):
    classifier, seen = FewShotClassifier("protonet", Eye()).fit(*labelled(shots)), []

    def remember(support, pictures):
        assert not set(support.image.tolist()) & set(pictures.image.tolist())
        assert (support.counts > 0).all()
        seen.extend(pictures.image.tolist())
        return torch.eye(3)[pictures.labels], torch.ones(len(pictures.labels))

    judged = judge_held_out(remember, classifier.shots_, budget=3 * shots)
    assert sorted(seen) == list(range(3 * shots))
    assert judged.scores.argmax(1).tolist() == judged.labels.tolist()


def test_places_in_a_class_by_hand():
    assert place_in_class(torch.tensor([2, 0, 2, 2, 1, 0])).tolist() == [0, 0, 1, 2, 0, 1]


def test_the_command_names_the_file_of_a_suspect(home, tmp_path, capsys):  # noqa: F811
    photos, model, table = tmp_path / "photos", tmp_path / "a.dmn4", tmp_path / "suspects.csv"
    shutil.copytree(home / "photos", photos)
    wrong = photos / "green" / "red 9.png"
    shutil.copy(photos / "red" / "red 1.png", wrong)
    main(["fit", str(photos), "-o", str(model), "--backbone", "conv4-classic", "--weights",
          str(home / "small.safetensors"), "--image-size", "32"])
    code, out, messages = run(["suspects", model, photos, "--csv", table], capsys)
    assert code == 0
    assert out.split("\t")[:3] == [str(wrong), "green", "red"]
    assert "of 13 labelled pictures would be named differently" in messages
    assert next(csv.DictReader(table.open()))["image"] == str(wrong)
    assert run(["suspects", model], capsys)[1].startswith("green #5\tgreen\tred\t")
    code, _, messages = run(["suspects", model, home / "photos"], capsys)
    assert code == 2
    assert "are not those of the model" in messages


def test_a_wrong_label_is_put_right():
    classifier = flipped({1: "blue"})
    right = flipped({})
    classifier.relabel(1, "red")
    assert classifier.suspects() == []
    assert classifier.shots_.labels.tolist() == right.shots_.labels.tolist()
    pictures, _ = labelled(2, noise=40)
    assert classifier.predict_proba(pictures).tolist() == right.predict_proba(pictures).tolist()


def test_a_picture_is_removed_as_if_it_had_never_been_there():
    pictures, names = labelled(4, noise=15)
    without = FewShotClassifier(backbone=Eye()).fit(pictures[:2] + pictures[3:], names[:2] + names[3:])
    removed = FewShotClassifier(backbone=Eye()).fit(pictures, names).relabel(2, None)
    assert removed.pictures_ == without.pictures_
    assert removed.decision_function(pictures).tolist() == without.decision_function(pictures).tolist()


def test_a_label_can_found_a_class_and_the_last_picture_of_one_takes_it_along():
    pictures, names = labelled(1)
    classifier = FewShotClassifier(backbone=Eye()).fit(pictures, names)
    assert classifier.relabel(0, "violet").classes_.tolist() == ["blue", "green", "violet"]
    assert classifier.predict([pictures[0]]).tolist() == ["violet"]
    assert classifier.relabel(0, None).classes_.tolist() == ["blue", "green"]
    with pytest.raises(InputError, match="only 'blue' is left; a classifier needs at least two"):
        classifier.relabel(0, None)
    with pytest.raises(InputError, match="there is no picture 2; the last one is 1"):
        classifier.relabel(2, "blue")
