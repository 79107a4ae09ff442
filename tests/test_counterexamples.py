"""Pictures that are known not to be of a class, or of none."""

import numpy as np
import pytest
import torch
from test_classifier import UNTRAINED, eye
from toy_pictures import Eye, labelled, painted

from dmn4.classify.classifier import load
from dmn4.errors import InputError


def lime(count, seed=0):
    """Pictures of a colour between green and yellow, which the classifier takes for green."""
    rng = np.random.default_rng([seed, 7])
    return [rng.normal((90, 190, 55), 40, (3, 3, 3)).clip(0, 255).repeat(4, 0).repeat(4, 1).astype(np.uint8)
            for _ in range(count)]


@pytest.fixture
def classifier():
    return eye().fit(*labelled(10))


def test_a_stranger_that_was_taught_is_refused_and_known_pictures_are_not(classifier):
    before = classifier.predict(lime(20, seed=1), reject=True)
    classifier.rule_out(lime(3), [None] * 3)
    after = classifier.predict(lime(20, seed=1), reject=True)
    known = classifier.predict(labelled(20, seed=5)[0], reject=True)
    assert sum(label is None for label in after) > sum(label is None for label in before)
    assert sum(label is None for label in after) >= 18
    assert sum(label is None for label in known) <= 12                                       # a tenth is promised


def test_what_is_not_green_loses_green_and_nothing_else(classifier):
    before = classifier.decision_function(lime(20, seed=1))
    after = classifier.rule_out(lime(3), ["green"] * 3).decision_function(lime(20, seed=1))
    green = classifier.classes_.tolist().index("green")
    assert (after[:, green] <= before[:, green]).all()
    assert (after[:, green] < before[:, green]).sum() >= 15
    assert np.array_equal(np.delete(after, green, 1), np.delete(before, green, 1))


def test_a_picture_more_like_its_class_than_any_counterexample_keeps_its_score(classifier):
    reds, red = painted("red", 5, seed=9), classifier.classes_.tolist().index("red")
    before = classifier.decision_function(reds)[:, red]
    assert np.array_equal(classifier.rule_out(lime(3), [None] * 3).decision_function(reds)[:, red], before)


@pytest.mark.parametrize("name", UNTRAINED)
def test_what_is_ruled_out_comes_back_from_a_file_to_the_bit(name, tmp_path):
    classifier = eye(name).fit(*labelled(3)).rule_out(lime(2), [None, "green"])
    classifier.save(tmp_path / "a.dmn4")
    again = load(tmp_path / "a.dmn4", backbone=Eye())
    queries = labelled(3, seed=8)[0] + lime(3, seed=3)
    assert np.array_equal(again.predict_proba(queries), classifier.predict_proba(queries))
    assert again.predict(queries, reject=True).tolist() == classifier.predict(queries, reject=True).tolist()
    assert again.ruled_out_.names(again.classes_.tolist()) == [None, "green"]
    assert again.ruled_out_.pictures == classifier.ruled_out_.pictures


def test_a_damaged_file_is_refused(classifier, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    from dmn4.classify.modelfile import KEY

    classifier.rule_out(lime(2), [None, "green"]).save(tmp_path / "a.dmn4")
    with safe_open(tmp_path / "a.dmn4", "pt") as file:
        about = file.metadata()[KEY]
    for name, harm in {"labels": lambda value: value + 7, "means": lambda value: value[:, 1:].contiguous(),
                       "ends": lambda value: value + 999_999}.items():
        tensors = load_file(tmp_path / "a.dmn4")
        tensors[f"ruled_out.{name}"] = harm(tensors[f"ruled_out.{name}"])
        save_file(tensors, tmp_path / "b.dmn4", {KEY: about})
        with pytest.raises(InputError, match="ruled out do not fit together"):
            load(tmp_path / "b.dmn4", backbone=Eye())


def test_counterexamples_follow_their_class_and_go_with_it(classifier):
    classifier.rule_out(lime(3), ["green", None, "red"])
    classifier.partial_fit(painted("grey", 2), ["grey", "grey"])
    assert classifier.ruled_out_.names(classifier.classes_.tolist()) == ["green", None, "red"]
    classifier.forget("green")
    assert classifier.ruled_out_.names(classifier.classes_.tolist()) == [None, "red"]
    assert len(classifier.ruled_out_.pictures) == 2


def test_what_is_taken_back_was_never_there(classifier):
    before = classifier.predict_proba(lime(5, seed=1))
    classifier.rule_out(lime(2), ["green", None]).take_back(1).take_back(0)
    assert np.array_equal(classifier.predict_proba(lime(5, seed=1)), before)


def test_the_evidence_adds_up_and_says_what_was_ruled_out(classifier):
    classifier.rule_out(lime(3), ["green"] * 3)
    picture = lime(1, seed=1)[0]
    why = classifier.explain(picture)
    torch.testing.assert_close(why.scores, torch.from_numpy(classifier.decision_function([picture]))[0].float())
    assert "a picture that you said is not green" in why.tally


@pytest.mark.parametrize(("labels", "message"), [
    (["lime"], "there is no class 'lime' to rule out; the classes are 'blue', 'green', 'red'"),
    (["green"] * 2, "2 labels were given for 1 pictures"),
])
def test_what_cannot_be_ruled_out_is_told(classifier, labels, message):
    with pytest.raises(InputError, match=message):
        classifier.rule_out(lime(1), labels)
    with pytest.raises(InputError, match="there is no ruled out picture 0; there are 0"):
        classifier.take_back(0)
