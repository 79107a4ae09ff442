import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_cli_photos import home, run  # noqa: F401  the fixture

from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.classify.verdict import Verdict
from dmn4.data.samples import draw_clutter
from dmn4.errors import InputError
from dmn4.sorting import report
from dmn4.sorting.comparison import Cell, Row, confusion, folder_labels, mistakes_of
from dmn4.sorting.predictions import predict_each
from dmn4.sorting.report import write_report

DRAWN = draw_clutter(4, 6, 0.2, 48, seed=3)


@pytest.fixture(scope="module")
def classifier():
    """Three drawn classes, one of them with a name that a page must not run."""
    from dmn4.backbones import build_backbone

    rows = np.flatnonzero((DRAWN.labels < 3) & (np.arange(len(DRAWN)) % 6 < 3))
    names = np.array(["ant", "bee", "</script><b>"])[DRAWN.labels[rows]]
    backbone = build_backbone("conv4", width=0.125)
    return FewShotClassifier(backbone=backbone, image_size=48).fit([DRAWN.pixels[row] for row in rows], names)


@pytest.fixture(scope="module")
def asked():
    """Pictures of all four classes and one that cannot be read."""
    rows = np.flatnonzero(np.arange(len(DRAWN)) % 6 >= 4)
    labels = np.array(["ant", "bee", "</script><b>", "stranger"])[DRAWN.labels[rows]]
    return [*(DRAWN.pixels[row] for row in rows), b"no picture"], [*labels, "ant"]


def content_of(path: Path) -> dict:
    page = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def row(nearest: str, truth: str | None = None, probability: float = 0.9, none: bool = False) -> Row:
    return Row("", "", Verdict(None if none else nearest, nearest, probability, 0.5), (), truth, "")


def test_the_page_holds_everything_and_asks_for_nothing(classifier, asked, tmp_path):
    images, labels = asked
    rows = list(predict_each(classifier, images, reject=True))
    write_report(tmp_path / "report.html", classifier, rows, labels, card={"data": "<i>drawn"})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="?https?:|@import|fetch\(|url\((?!#)', page)
    assert "<td>data</td><td>&lt;i&gt;drawn</td>" in page
    content = content_of(tmp_path / "report.html")
    assert content["classes"] == [str(name) for name in classifier.classes_]
    assert len(content["shots"]) == 9
    assert content["rows"][-1]["error"].startswith("cannot read")
    for shown in content["rows"][:-1]:
        assert shown["small"].startswith("data:image/jpeg;base64,")
        assert shown["why"]["tally"].endswith(".")


def test_the_least_sure_come_first_and_say_what_every_surface_says(classifier, asked, tmp_path):
    rows = list(predict_each(classifier, asked[0], reject=True))
    write_report(tmp_path / "report.html", classifier, rows)
    shown = content_of(tmp_path / "report.html")["rows"]
    expected = sorted((said.verdict for said in rows if said.verdict), key=lambda verdict: verdict.probability)
    names = [*map(str, classifier.classes_), "none of these"]
    assert [(names[one["said"]], one["chance"]) for one in shown[:-1]] == [(one.words, one.chance) for one in expected]
    assert not any("truth" in one for one in shown)


def test_evidence_sums_are_the_classifiers_scores(classifier, asked, tmp_path):
    images = asked[0][:-1]
    write_report(tmp_path / "report.html", classifier, list(predict_each(classifier, images)))
    shown = content_of(tmp_path / "report.html")["rows"]
    sums = [[score for _, _, score, _, _ in sorted(one["why"]["sums"])] for one in shown]
    order = np.argsort(classifier.predict_proba(images).max(1), kind="stable")
    assert np.array(sums) == pytest.approx(classifier.decision_function(images)[order], abs=0.006)
    for one in shown:
        assert all(place in one["why"]["voted"] for place, *_ in one["why"]["pairs"])


def test_only_the_doubtful_have_evidence_and_no_more_pictures_are_inside_than_fit(classifier, asked, tmp_path,
                                                                                  monkeypatch):
    monkeypatch.setattr(report, "DOUBTFUL", 2)
    monkeypatch.setattr(report, "SHOWN", 4)
    write_report(tmp_path / "report.html", classifier, list(predict_each(classifier, asked[0])))
    shown = content_of(tmp_path / "report.html")["rows"]
    assert ["why" in one for one in shown] == [True] * 2 + [False] * 7
    assert ["small" in one for one in shown] == [True] * 4 + [False] * 5


def test_a_classifier_without_descriptors_has_a_page_without_evidence(asked, tmp_path):
    from dmn4.backbones import build_backbone

    images, labels = (part[:-1] for part in asked)
    plain = FewShotClassifier("meta-baseline", build_backbone("conv4", width=0.125), image_size=48).fit(images, labels)
    write_report(tmp_path / "report.html", plain, list(predict_each(plain, images)), labels)
    assert not any("why" in one for one in content_of(tmp_path / "report.html")["rows"])


def test_strangers_and_none_are_the_last_line_and_column():
    rows = [row("ant", "ant"), row("ant", "ant", none=True), row("bee", "wasp"), row("bee"),
            Row("", "", None, (), "ant", "cannot read")]
    matrix = confusion(rows, {"ant": 0, "bee": 1})
    assert [[cell.count for cell in line] for line in matrix] == [[1, 0, 1], [0, 1, 0]]
    assert matrix[0][2] == Cell(0, -1, 1, 0.5)
    assert [(cell.truth, cell.said) for cell in mistakes_of(matrix)] == [(0, -1), (-1, 1)]
    assert confusion([row("ant")], {"ant": 0, "bee": 1}) == []


def test_a_folder_named_as_a_class_tells_the_label_and_its_neighbours_strangers():
    names = ("a/ant/1.jpg", "a/bee/1.jpg", "a/wasp/1.jpg", "a/2.jpg", "b/ant/1.jpg", "b/new/1.jpg")
    paths = [Path(name) for name in names]
    assert folder_labels(paths, ["ant", "bee", "fly"]) == {
        "a/ant/1.jpg": "ant", "a/bee/1.jpg": "bee", "a/wasp/1.jpg": "wasp", "b/ant/1.jpg": "ant"}


def test_lists_of_different_lengths_are_refused(classifier, tmp_path):
    with pytest.raises(InputError, match="1 labels were given for 0 predictions"):
        write_report(tmp_path / "report.html", classifier, [], ["ant"])
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_page_beside_its_lines(home, tmp_path, capsys):  # noqa: F811
    code, out, messages = run(["predict", home / "colours.dmn4", home / "inbox", home / "photos", "--report",
                               tmp_path / "report.html"], capsys)
    content = content_of(tmp_path / "report.html")
    assert code == 0
    assert "report.html" in messages
    assert content["base"] == str(home)
    assert len(out.splitlines()) == len(content["rows"]) == 19
    assert {one["name"]: one.get("is") for one in content["rows"]}["photos/red/red 1.png"] == "red"
    assert sum("is" in one for one in content["rows"]) == 12
    for one in content["rows"]:
        assert (tmp_path / one["file"].replace("%20", " ")).is_file()
    labels = [line.split("\t")[1:] for line in out.splitlines() if "error" not in line]
    classes = load(home / "colours.dmn4").classes_
    assert sorted([classes[one["said"]], one["chance"]] for one in content["rows"] if "said" in one) == sorted(labels)


def test_a_report_of_half_a_run_is_refused(home, tmp_path, capsys):  # noqa: F811
    code, _, messages = run(["predict", home / "colours.dmn4", home / "inbox", "--csv", tmp_path / "t.csv", "--resume",
                             "--report", tmp_path / "report.html"], capsys)
    assert code == 2
    assert "leave out --resume" in messages
