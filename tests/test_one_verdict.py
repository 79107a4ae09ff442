"""One object states the verdict on a picture, and every surface prints it in the same words."""

import csv
import json
import re

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from toy_bulk import encoded
from toy_pictures import labelled, painted

from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.classify.verdict import COVERAGE, NONE, percent
from dmn4.cli import main
from dmn4.sorting.predictions import number
from dmn4.web.app import create_app

ASKED = {"red": 7, "green": 8, "blue": 9, "grey": 3}                          # nobody taught grey


@pytest.fixture(scope="module", params=[1, 2, 6], ids=lambda shots: f"{shots} shots")
def home(request, tmp_path_factory):
    """A model of three colours with so many pictures of each, and an inbox with a stranger among them."""
    home = tmp_path_factory.mktemp("home")
    FewShotClassifier(method="dmn4-linear").fit(*labelled(request.param, noise=15)).save(home / "m.dmn4")
    (home / "inbox").mkdir()
    for colour, seed in ASKED.items():
        (home / "inbox" / f"{colour}.png").write_bytes(encoded(painted(colour, 1, seed, noise=15)[0]))
    return home


@pytest.fixture(scope="module")
def verdicts(home):
    """What the classifier says of each picture of the inbox, by path."""
    classifier = load(home / "m.dmn4")
    paths = [str(path) for path in sorted((home / "inbox").iterdir())]
    [judged] = classifier._judged(paths)
    return dict(zip(paths, classifier.verdicts(judged, reject=0.1, coverage=COVERAGE), strict=True))


def out_of(capsys, *arguments) -> str:
    capsys.readouterr()
    main([str(argument) for argument in arguments])
    return capsys.readouterr().out


def test_python(home, verdicts):
    classifier, paths = load(home / "m.dmn4"), list(verdicts)
    if classifier.calibration_.rejects(0.1):
        answers = classifier.predict(paths, reject=True)
    else:
        with pytest.warns(UserWarning, match="uncalibrated"):
            answers = classifier.predict(paths, reject=True)
    assert answers.tolist() == [said.label for said in verdicts.values()]
    assert classifier.predict_set(paths) == [list(said.perhaps) for said in verdicts.values()]
    assert classifier.predict(paths).tolist() == [said.nearest for said in verdicts.values()]
    assert classifier.predict_proba(paths).max(1).tolist() == [said.probability for said in verdicts.values()]


def test_lines(home, verdicts, capsys):
    out = out_of(capsys, "predict", home / "m.dmn4", home / "inbox", "--reject", "--sets", COVERAGE)
    assert out.splitlines() == ["\t".join(filter(None, (path, said.words, said.chance, said.others)))
                                for path, said in verdicts.items()]


def test_csv(home, verdicts, tmp_path, capsys):
    out_of(capsys, "predict", home / "m.dmn4", home / "inbox", "--reject", "--sets", COVERAGE, "--csv", tmp_path / "t")
    for row in csv.DictReader((tmp_path / "t").open()):
        said = verdicts[row["image"]]
        assert (row["label"], row["nearest"]) == (said.words, said.nearest)
        assert (row["probability"], row["known"]) == (number(said.probability), number(said.known))
        assert row["perhaps"] == "; ".join(said.perhaps)


def test_json(home, verdicts, capsys):
    out = out_of(capsys, "predict", home / "m.dmn4", home / "inbox", "--reject", "--sets", COVERAGE, "--json")
    for row in json.loads(out):
        said = verdicts[row["image"]]
        assert (row["label"], row["nearest"], row["probability"]) == (said.label, said.nearest, said.probability)
        assert row["known"] == (said.known if said.known == said.known else None)
        assert row["perhaps"] == list(said.perhaps)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_many_pictures(home, verdicts, kind, tmp_path, capsys):
    out_of(capsys, "predict", home / "m.dmn4", home / "inbox", "--reject", "-o", tmp_path / "out", "--format", kind,
           "--workers", 0)
    files = sorted((tmp_path / "out").glob(f"part-*.{kind}"))
    rows = (pq.read_table(files[0]).to_pylist() if kind == "parquet" else
            [json.loads(line) for line in files[0].open()] if kind == "jsonl" else
            [row | {name: json.loads(row[name] or "null") for name in ("set", "probability", "known")}
             for row in csv.DictReader(files[0].open())])
    assert len(rows) == len(verdicts)
    for row in rows:
        said = verdicts[row["path"]]
        assert (row["verdict"], row["nearest"], row["set"]) == (said.words, said.nearest, list(said.perhaps))
        assert row["probability"] == said.probability
        assert row["known"] == (said.known if said.known == said.known else None)


def test_pictures(home, verdicts, tmp_path, capsys):
    for path, said in verdicts.items():
        out = out_of(capsys, "explain", home / "m.dmn4", path, "--reject", "-o", tmp_path / "why.png")
        assert out.rstrip("\n").endswith(f": {said.line}")


def test_reports(home, verdicts, tmp_path, capsys):
    out_of(capsys, "predict", home / "m.dmn4", home / "inbox", "--reject", "--sets", COVERAGE, "--report",
           tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    content = json.loads(re.search(r'<script[^>]*application/json[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    said_there = {row["name"]: row for row in content["rows"]}
    for path, said in verdicts.items():
        row = said_there[path.rpartition("/")[2]]
        assert [*content["classes"], NONE][row["said"]] == said.words
        assert (row["chance"], row["others"]) == (said.chance, said.others)


def test_http_and_the_page(home, verdicts):
    with TestClient(create_app("efficientnet_lite0"), "http://localhost") as client:
        client.app.state.service.host(home / "m.dmn4")
        for path, said in verdicts.items():
            with open(path, "rb") as file:
                found = client.post("/api/classifiers/m/predictions", files={"picture": file}).json()
            with open(path, "rb") as file:
                why = client.post("/api/classifiers/m/explanations", files={"picture": file}).json()
            assert why["prediction"] == found
            assert why["headline"] == found["line"] == said.line
            assert (found["words"], found["chance"], found["others"]) == (said.words, said.chance, said.others)
            assert (found["label"], found["none_of_these"]) == (said.nearest, said.label is None)
            assert found["perhaps"] == list(said.perhaps)
            assert found["probability"] == pytest.approx(said.probability, rel=1e-5)      # embedded alone
            assert found["percents"][said.nearest] == percent(said.probability)


def test_none_of_these_and_what_one_shot_cannot_say(home, verdicts):
    classifier = load(home / "m.dmn4")
    grey = verdicts[str(home / "inbox" / "grey.png")]
    if classifier.calibration_.rejects(0.1):
        assert (grey.label, grey.words) == (None, NONE)
        assert grey.chance == f"nearest: {grey.nearest}, {percent(grey.probability)}"
    else:
        assert grey.label == grey.nearest
        assert set(grey.perhaps) == {"red", "green", "blue"}
        assert grey.others == ""
