"""Many classes, of which a few are compared closely."""

import numpy as np
import pytest
import torch
from toy_pictures import Eye, labelled

from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.classify.shortlist import USUAL, Shortlist, estimated, length_of
from dmn4.errors import InputError
from dmn4.evidence import explain
from dmn4.evidence.explain import judge_and_explain
from dmn4.images.looks import read_pixels
from dmn4.methods import METHODS, base, build_method
from dmn4.methods.neighbors import search
from dmn4.methods.vectors import pooled

WAYS = USUAL + 8
COMPARING = [name for name, kind in METHODS.items() if kind.compares_descriptors and not kind.takes_unlabelled]


def tiles(ways: int, shots: int, seed: int = 0) -> tuple[list[np.ndarray], list[str]]:
    """Pictures of nine coloured tiles; a class is told by its nine colours."""
    colours = np.random.default_rng(5).integers(0, 255, (ways, 3, 3, 3))
    noise = np.random.default_rng([6, seed]).normal(0, 12, (ways, shots, 3, 3, 3))
    cells = (colours[:, None] + noise).clip(0, 255).astype(np.uint8)
    pictures = [np.kron(cell, np.ones((4, 4, 1), np.uint8)) for one in cells for cell in one]
    return pictures, [f"c{label:03d}" for label in range(ways) for _ in range(shots)]


def fitted(method: str = "dmn4-linear", shortlist: int | None = None, **options) -> FewShotClassifier:
    return FewShotClassifier(method, Eye(), shortlist=shortlist, method_options=options).fit(*tiles(WAYS, 3))


def maps_of(classifier: FewShotClassifier, count: int) -> torch.Tensor:
    return classifier.embed(read_pixels(tiles(WAYS, 1, seed=1)[0][:count], classifier.parts_.transform))


@pytest.mark.parametrize("options", [{}, {"centre": "shots"}, {"shots": "mean"}])
@pytest.mark.parametrize("name", COMPARING)
def test_a_shortlist_of_all_classes_scores_as_without_one_to_the_bit(name, options):
    classifier = fitted(name, WAYS, **options)
    method = classifier.parts_.method
    everyone = Shortlist(method, classifier.shots_.support(method), classifier.head_, WAYS)
    with torch.inference_mode():
        for maps in maps_of(classifier, 3).split(1):
            scores = everyone.scores(maps, pooled(maps), everyone.head.scores(pooled(maps)))
            assert torch.equal(scores, classifier.judge_maps(maps).scores)


@pytest.mark.parametrize("shortlist", [None, WAYS])
@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in COMPARING), ("dn4", {"k": 3}),
                                               ("dmn4-linear", {"shots": "mean", "vote": "nbnn"})])
def test_evidence_and_judgement_of_one_search_are_those_found_apart(name, options, shortlist, monkeypatch):
    classifier = fitted(name, shortlist, **options)
    [maps] = maps_of(classifier, 1)
    searches = []
    monkeypatch.setattr(explain, "search", lambda *given: searches.append(given) or search(*given))
    monkeypatch.setattr(base, "search", lambda *given: pytest.fail("it was searched again"))
    judged, evidence = judge_and_explain(classifier, maps)
    monkeypatch.undo()
    alone = classifier.judge_maps(maps[None])
    assert len(searches) == 1
    assert torch.equal(judged.scores, alone.scores)
    assert torch.equal(judged.probabilities, alone.probabilities)
    assert torch.equal(judged.known, alone.known)
    listed = [classifier.classes_.tolist().index(label) for label in evidence.classes]
    torch.testing.assert_close(evidence.scores, alone.scores[0, listed], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["dmn4-linear", "dmn4"])
def test_listed_classes_are_scored_as_if_there_were_no_others(name):
    classifier = fitted(name, 6)
    maps = maps_of(classifier, 1)
    with torch.inference_mode():
        near = classifier.learnt_.near(classifier.head_.scores(pooled(maps))[0])
        alone = classifier.parts_.method.answer_kept(near.learnt, maps, pooled(maps))[0]
    scores = classifier.judge_maps(maps).scores[0]
    assert len(near.classes) == 6
    assert torch.equal(scores[near.classes], alone)
    others = torch.ones(WAYS, dtype=torch.bool).index_fill(0, near.classes, False)
    assert float(scores[others].max()) <= float(alone.min())


def test_estimates_lie_below_the_list_in_the_order_of_the_head():
    likely = torch.tensor([5.0, 1.0, 4.0, 3.0, 2.0])
    scores = estimated(torch.tensor([0.9, 0.5]), torch.tensor([0, 2]), likely)
    assert scores[[0, 2]].tolist() == pytest.approx([0.9, 0.5])
    assert scores[[2, 3, 4, 1]].diff().lt(0).all()
    assert scores.tolist() == pytest.approx([0.9, -0.7, 0.5, 0.1, -0.3])          # 0.4 a step of the head


def test_a_shortlist_loses_no_accuracy_where_the_head_is_right():
    queries, truth = tiles(WAYS, 2, seed=1)
    assert fitted().score(queries, truth) >= fitted(shortlist=WAYS).score(queries, truth) - 0.02


def test_by_itself_many_classes_have_a_shortlist_and_few_have_none():
    method = build_method("dmn4")
    assert [length_of(None, method, ways) for ways in (5, USUAL, USUAL + 1, 10_000)] == [5, USUAL, USUAL, USUAL]
    assert length_of(50, method, 10_000) == 50
    assert length_of(50, method, 5) == 5
    assert length_of(None, build_method("protonet"), 10_000) == 10_000
    assert length_of(None, method, 10_000, adopts=True) == 10_000


@pytest.mark.parametrize(("shortlist", "method", "message"), [
    (1, "dmn4", "shortlist is 1; at least two classes"),
    (10, "protonet", "shortlist=10 was given, but this method has no shorter way"),
])
def test_a_shortlist_that_cannot_be_is_refused(shortlist, method, message):
    with pytest.raises(InputError, match=message):
        fitted(method, shortlist)


def test_a_saved_shortlist_answers_the_same_to_the_bit(tmp_path):
    queries = tiles(WAYS, 1, seed=1)[0]
    for name in ("dmn4-linear", "odm"):
        classifier = fitted(name, 6)
        classifier.save(tmp_path / "a.dmn4")
        again = load(tmp_path / "a.dmn4", Eye())
        assert again.shortlist == 6
        assert np.array_equal(again.predict_proba(queries), classifier.predict_proba(queries))


def test_maps_of_classes_that_are_not_listed_are_not_read(tmp_path, monkeypatch):
    fitted(shortlist=6).save(tmp_path / "a.dmn4")
    read = []
    monkeypatch.setattr("dmn4.classify.maps.Maps.patches",
                        lambda maps: read.append(len(maps)) or maps.pieces[0][maps.place])
    again = load(tmp_path / "a.dmn4", Eye())
    assert not read
    again.predict(tiles(WAYS, 1, seed=1)[0][:2])
    assert read == [6 * 3] * 2


def test_evidence_says_how_many_classes_were_compared_and_names_the_right_pictures():
    classifier = fitted(shortlist=6)
    query = tiles(WAYS, 1, seed=1)[0][WAYS // 2]
    evidence = classifier.explain(query)
    assert f"6 of {WAYS} classes were compared closely" in evidence.rule
    assert len(evidence.classes) == 6
    assert evidence.to_json()["known_classes"] == WAYS
    for pair in evidence.pairs():
        assert evidence.classes[pair.label] == classifier.classes_[pair.image // 3]
        assert int(evidence.support_labels[pair.image]) == pair.label
    assert "compared closely" not in FewShotClassifier(backbone=Eye()).fit(*labelled(2)).explain(query).rule


def test_learning_more_and_forgetting_keep_the_shortlist():
    pictures, names = tiles(WAYS, 3)
    whole = fitted(shortlist=6)
    grown = FewShotClassifier(backbone=Eye(), shortlist=6).fit(pictures[:WAYS * 2], names[:WAYS * 2])
    grown.partial_fit(pictures[WAYS * 2:], names[WAYS * 2:])
    queries = tiles(WAYS, 1, seed=1)[0]
    np.testing.assert_allclose(grown.decision_function(queries), whole.decision_function(queries), atol=1e-4)
    assert "c003" not in whole.forget("c003").predict(queries)
