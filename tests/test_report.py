import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from dmn4.classify.classifier import FewShotClassifier
from dmn4.classify.predictions import predict_each
from dmn4.classify.report import as_script, confusion, write_report
from dmn4.data.samples import draw_clutter
from dmn4.errors import InputError

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


def content_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def test_the_page_holds_everything_and_asks_for_nothing(classifier, asked, tmp_path):
    images, labels = asked
    rows = list(predict_each(classifier, images, reject=True))
    write_report(tmp_path / "report.html", classifier, images, labels, rows, card={"data": "drawn"})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="?https?:|@import|fetch\(|url\((?!#)', page)
    content = content_of(page)
    assert content["classes"] == [str(name) for name in classifier.classes_]
    assert len(content["shots"]) == 9
    assert content["card"]["data"] == "drawn"
    assert content["rows"][-1]["error"].startswith("cannot read")
    assert sum(map(sum, content["confusion"])) == len(images) - 1
    for row, said in zip(content["rows"][:-1], rows, strict=False):
        assert row["picture"].startswith("data:image/jpeg;base64,")
        assert row["label"] == ("none of these" if said.label is None else str(said.label))


def test_evidence_sums_are_the_classifiers_scores(classifier, asked, tmp_path):
    images, labels = (part[:-1] for part in asked)
    write_report(tmp_path / "report.html", classifier, images, labels, list(predict_each(classifier, images)))
    content = content_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    scores = np.array([row["why"]["scores"] for row in content["rows"]])
    assert scores == pytest.approx(classifier.decision_function(images), abs=1e-3)
    for row in content["rows"]:
        assert sum(row["why"]["counts"]) == len(row["why"]["kept"])
        assert all(place in row["why"]["kept"] for place, *_ in row["why"]["pairs"])


def test_a_classifier_without_descriptors_has_a_page_without_evidence(asked, tmp_path):
    from dmn4.backbones import build_backbone

    images, labels = (part[:-1] for part in asked)
    plain = FewShotClassifier("meta-baseline", build_backbone("conv4", width=0.125), image_size=48).fit(images, labels)
    write_report(tmp_path / "report.html", plain, images, labels, list(predict_each(plain, images)))
    content = content_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not any("why" in row for row in content["rows"])


def test_names_cannot_leave_the_script_that_holds_them():
    text = as_script({"name": "</script><img src=x onerror=alert(1)>"})
    assert "<" not in text
    assert json.loads(text)["name"].startswith("</script>")


def test_strangers_and_none_are_the_last_row_and_column():
    rows = [{"truth": "ant", "label": "ant"}, {"truth": "ant", "label": "none of these"},
            {"truth": "wasp", "label": "bee"}, {"truth": "ant", "error": "cannot read"}]
    assert confusion(rows, ["ant", "bee"]) == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_lists_of_different_lengths_are_refused(tmp_path):
    with pytest.raises(InputError, match="2 pictures, 1 labels and 0 predictions were given"):
        write_report(tmp_path / "report.html", SimpleNamespace(), ["a", "b"], ["ant"], [])
    assert not list(tmp_path.iterdir())
