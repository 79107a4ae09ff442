import csv
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from toy_pictures import painted

from dmn4.backbones import build_backbone
from dmn4.classify.classifier import load
from dmn4.cli import main
from dmn4.sorting.files import arrivals
from dmn4.training.checkpoints import save_backbone


def photos(folder: Path, colour: str, count: int, seed: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(painted(colour, count, seed, noise=15)):
        Image.fromarray(picture).save(folder / f"{colour} {number}.png")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Labelled photographs, an inbox with a broken file, a small network, and a model of it."""
    home = tmp_path_factory.mktemp("home")
    torch.manual_seed(0)
    save_backbone(home / "small.safetensors", build_backbone("conv4-classic", width=0.25), {})
    for colour in ("red", "green", "blue"):
        photos(home / "photos" / colour, colour, 4)
        photos(home / "inbox", colour, 2, seed=1)
    (home / "inbox" / "broken.jpg").write_bytes(b"not a picture")
    main(["fit", str(home / "photos"), "-o", str(home / "colours.dmn4"), "--backbone", "conv4-classic",
          "--weights", str(home / "small.safetensors"), "--image-size", "32"])
    return home


def run(arguments: list[object], capsys) -> tuple[int, str, str]:
    """Exit code, output and messages of a command."""
    capsys.readouterr()
    code = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as leave:
        code = int(leave.code or 0)
    return code, *capsys.readouterr()


def test_fit_says_what_it_learnt_and_what_comes_next(home, capsys):
    code, out, _ = run(["fit", home / "photos", "-o", home / "again.dmn4", "--backbone", "conv4-classic",
                        "--weights", home / "small.safetensors", "--method", "protonet"], capsys)
    assert code == 0
    assert re.search(r'3 classes, 12 pictures, [\d.]+ MB, [\d.]+ s; "none of these" refuses about 10% of known', out)
    assert "next: dmn4 predict" in out


def test_options_of_the_method_are_written_behind_its_name(home, tmp_path, capsys):
    arguments = ["fit", home / "photos", "-o", tmp_path / "a.dmn4", "--backbone", "conv4-classic", "--weights",
                 home / "small.safetensors", "--method", "mn4:rule=mnn-relaxed,centre=shots"]
    assert run(arguments, capsys)[0] == 0
    method = load(tmp_path / "a.dmn4").parts_.method
    assert (method.rule, method.centre) == ("mnn-relaxed", "shots")


def test_a_broken_picture_among_labelled_ones_is_a_warning(home, tmp_path, capsys):
    photos(tmp_path / "p" / "red", "red", 2)
    photos(tmp_path / "p" / "blue", "blue", 2)
    (tmp_path / "p" / "red" / "broken.png").write_bytes(b"x")
    (tmp_path / "p" / "notes.txt").write_text("not a class")
    fit = ["fit", tmp_path / "p", "-o", tmp_path / "a.dmn4", "--backbone", "conv4-classic",
           "--weights", home / "small.safetensors"]
    code, out, messages = run(fit, capsys)
    assert code == 0
    assert "2 classes, 4 pictures" in out
    assert re.search(r"dmn4: warning: left out: cannot read '.*broken.png' as an image", messages)
    for path in (tmp_path / "p" / "red").glob("red*"):
        path.unlink()
    code, _, messages = run(fit, capsys)
    assert code == 2
    assert "dmn4: error: none of the pictures of class 'red' can be read" in messages


def test_predict_prints_a_line_a_picture_and_a_broken_one_is_a_line_too(home, capsys):
    code, out, messages = run(["predict", home / "colours.dmn4", home / "inbox"], capsys)
    lines = dict(line.split("\t")[:2] for line in out.splitlines())
    assert code == 0
    assert len(lines) == 7
    named = {Path(path).name.split()[0]: label for path, label in lines.items() if not label.startswith("error")}
    assert named == {colour: colour for colour in ("red", "green", "blue")}
    assert lines[str(home / "inbox" / "broken.jpg")].startswith("error: cannot read")
    assert re.search(r"7 pictures in [\d.]+ s, [\d.]+ a second; 1 could not be read", messages)


def test_json_is_json_with_all_probabilities(home, capsys):
    code, out, _ = run(["predict", home / "colours.dmn4", home / "inbox", "--json"], capsys)
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 7
    assert sum(bool(row["error"]) for row in rows) == 1
    good = next(row for row in rows if not row["error"])
    assert sum(good["probabilities"].values()) == pytest.approx(1)
    assert set(good) == {"image", "label", "nearest", "probability", "known", "perhaps", "probabilities", "error"}


def test_the_table_is_a_file_and_a_second_run_can_go_on_with_it(home, tmp_path, capsys):
    table, inbox = tmp_path / "t.csv", sorted((home / "inbox").glob("red*"))
    run(["predict", home / "colours.dmn4", inbox[0], "--csv", table], capsys)
    _, out, _ = run(["predict", home / "colours.dmn4", home / "inbox", "--csv", table, "--resume"], capsys)
    rows = list(csv.DictReader(table.open()))
    assert len(out.splitlines()) == 6                                    # one of the seven was there already
    assert len({row["image"] for row in rows}) == len(rows) == 7
    assert {row["label"] for row in rows if not row["error"]} == {"red", "green", "blue"}


def test_a_table_goes_on_only_with_the_model_that_it_names(home, tmp_path, capsys):
    table, red = tmp_path / "t.csv", home / "inbox" / "red 0.png"
    run(["predict", home / "colours.dmn4", red, "--csv", table], capsys)
    before = table.read_bytes()
    assert re.search(rb",colours.dmn4 [0-9a-f]{12} \(dmn4 [0-9.]+\)\n", before)
    run(["fit", home / "photos", "-o", tmp_path / "colours.dmn4", "--backbone", "conv4-classic", "--weights",
         home / "small.safetensors", "--method", "protonet"], capsys)
    for other in ([tmp_path / "colours.dmn4"], [home / "colours.dmn4", "--reject"]):
        code, _, messages = run(["predict", *other, home / "inbox", "--csv", table, "--resume"], capsys)
        assert code == 2
        assert re.search(r"holds rows of 'colours.dmn4 \w+ \(dmn4 [\d.]+\)', not of 'colours.dmn4", messages)
        assert table.read_bytes() == before


def test_errors_are_tried_again_when_asked(home, tmp_path, capsys):
    inbox, table = tmp_path / "inbox", tmp_path / "t.csv"
    photos(inbox, "red", 2)
    whole = (inbox / "red 0.png").read_bytes()
    (inbox / "red 0.png").write_bytes(b"a drive that is away")
    predict = ["predict", home / "colours.dmn4", inbox, "--csv", table]
    run(predict, capsys)
    (inbox / "red 0.png").write_bytes(whole)
    _, out, _ = run([*predict, "--resume"], capsys)
    assert out == ""
    _, out, _ = run([*predict, "--resume", "--retry-errors"], capsys)
    assert out.startswith(f"{inbox / 'red 0.png'}\tred\t")
    rows = list(csv.DictReader(table.open()))
    assert [(Path(row["image"]).name, row["error"]) for row in rows] == [("red 1.png", ""), ("red 0.png", "")]


def test_odd_names_lose_no_row_and_break_no_line(home, tmp_path, capsys, monkeypatch):
    inbox, table = tmp_path / "inbox", tmp_path / "t.csv"
    photos(inbox, "red", 1)
    names = ["two\nlines.png", "a\ttab.png", "=1+1.png", os.fsdecode(b"caf\xe9.png"), "\x1b[2Jclear.png"]
    for name in names:
        shutil.copy(inbox / "red 0.png", inbox / name)
    predict = ["predict", home / "colours.dmn4", inbox, "--csv", table, "--sort-into", tmp_path / "s"]
    code, out, messages = run(predict, capsys)
    assert code == 0
    assert len(out.splitlines()) == 6
    assert all(line.split("\t")[1] == "red" for line in out.splitlines())
    assert "\x1b" not in out
    assert "1 names of pictures are no UTF-8 text" in messages
    assert {path.name for path in (tmp_path / "s" / "red").iterdir()} == {*names, "red 0.png"}
    _, out, _ = run([*predict, "--resume"], capsys)
    assert out == ""                                                     # each is found in the table again
    assert len(table.read_bytes().splitlines()) == 8                     # one name takes two lines
    relative = ["predict", home / "colours.dmn4", "=1+1.png", "--csv", tmp_path / "r.csv"]
    monkeypatch.chdir(inbox)
    run(relative, capsys)
    assert (tmp_path / "r.csv").read_text().splitlines()[1].startswith("'=1+1.png,red,")


@pytest.mark.parametrize("link", [False, True])
def test_pictures_are_sorted_into_folders_and_none_is_overwritten(home, tmp_path, capsys, link):
    other = tmp_path / "other"
    photos(other, "red", 1, seed=5)                                      # another picture of the same name
    sorting = ["predict", home / "colours.dmn4", home / "inbox", other, "--sort-into", tmp_path / "s"]
    for _ in range(2):                                                   # the second time changes nothing
        assert run(sorting + ["--link"] * link, capsys)[0] == 0
    found = sorted(path.relative_to(tmp_path / "s").as_posix() for path in (tmp_path / "s").rglob("*.png"))
    assert found == [f"{colour}/{colour} {number}.png" for colour in ("blue", "green") for number in (0, 1)] + [
        "red/red 0-2.png", "red/red 0.png", "red/red 1.png"]
    assert (tmp_path / "s" / "red" / "red 0.png").is_symlink() == link
    assert (home / "inbox" / "red 0.png").exists()


def test_unknown_pictures_get_a_folder_of_their_own(home, tmp_path, capsys):
    photos(tmp_path / "grey", "grey", 4, seed=1)
    _, out, _ = run(["predict", home / "colours.dmn4", tmp_path / "grey", "--reject", "--sort-into", tmp_path / "s"],
                    capsys)
    unknown = [line for line in out.splitlines() if line.split("\t")[1] == "none of these"]
    assert unknown
    assert len(list((tmp_path / "s" / "none of these").iterdir())) == len(unknown)


def test_what_arrives_in_a_watched_folder_is_named_until_ctrl_c(home, tmp_path, capsys, monkeypatch):
    inbox, polls = tmp_path / "inbox", []
    photos(inbox, "red", 1, seed=1)

    def wait(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) == 2:
            photos(inbox, "blue", 1, seed=1)
        if len(polls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr("dmn4.sorting.files.time.sleep", wait)
    code, out, _ = run(["predict", home / "colours.dmn4", "--watch", inbox, "--csv", tmp_path / "w.csv"], capsys)
    assert code == 0
    assert [line.split("\t")[1] for line in out.splitlines()] == ["red", "blue"]
    assert len((tmp_path / "w.csv").read_text().splitlines()) == 3


def test_a_file_that_still_grows_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"half")
    sizes = iter([b"half and more", b"whole, at last", b"whole, at last", b"never looked at"])
    monkeypatch.setattr("dmn4.sorting.files.time.sleep", lambda seconds: path.write_bytes(next(sizes)))
    assert next(arrivals(tmp_path)) == path
    assert list(sizes) == [b"never looked at"]                           # given once the size stood still


@pytest.mark.parametrize(("arguments", "message"), [
    (["predict", "gone.dmn4", "inbox"], "there is no model file 'gone.dmn4'"),
    (["predict", "colours.dmn4", "gone.jpg"], "there is no file or folder 'gone.jpg'"),
    (["predict", "colours.dmn4", "empty"], "no images in 'empty'"),
    (["predict", "colours.dmn4"], "no pictures were named"),
    (["predict", "colours.dmn4", "--watch", "gone"], "there is no folder 'gone'"),
    (["predict", "colours.dmn4", "inbox", "--resume"], "--resume goes on with the table of --csv FILE"),
    (["predict", "colours.dmn4", "inbox", "--csv", "t.csv", "--retry-errors"], "--retry-errors tries again what"),
    (["predict", "gone.dmn4", "inbox", "--csv", "t.csv"], "there is no file 'gone.dmn4'"),
    (["predict", "colours.dmn4", "inbox/broken.jpg"], "none of the 1 pictures can be read; the first: cannot read"),
    (["predict", "small.safetensors", "inbox"], "no classifier of dmn4"),
    (["fit", "gone", "-o", "a.dmn4"], "there is no folder 'gone'"),
    (["fit", "empty", "-o", "a.dmn4"], "holds neither images nor folders"),
    (["fit", "inbox", "-o", "a.dmn4"], "images but no class folders"),
    (["fit", "photos", "-o", "empty"], "'empty' is a folder; give the name of a file"),
    (["fit", "photos", "-o", "a.dmn4", "--method", "dmn5"], "unknown method 'dmn5'; choose one of"),
    (["fit", "photos", "-o", "a.dmn4", "--method", "dmn4:centre"], "cannot read the option 'centre'"),
    (["fit", "photos", "-o", "a.dmn4", "--unlabelled", "gone"], "there is no file or folder 'gone'"),
])
def test_a_mistake_is_one_line_and_exit_code_2(home, capsys, monkeypatch, arguments, message):
    (home / "empty").mkdir(exist_ok=True)
    monkeypatch.chdir(home)
    code, _, messages = run(arguments, capsys)
    errors = [line for line in messages.splitlines() if line.startswith("dmn4: error:")]
    assert code == 2
    assert len(errors) == 1
    assert message in errors[0]
    assert "Traceback" not in messages
    assert not (home / "a.dmn4").exists()


def test_unlabelled_pictures_are_used(home, tmp_path, capsys):
    code, _, _ = run(["fit", home / "photos", "-o", tmp_path / "a.dmn4", "--backbone", "conv4-classic",
                      "--weights", home / "small.safetensors", "--unlabelled", home / "photos"], capsys)
    assert code == 0
    assert load(tmp_path / "a.dmn4").parts_.method_name == "dmn4-linear-semi"


def test_an_unlabelled_picture_that_cannot_be_read_is_left_out(home, tmp_path, capsys):
    shutil.copytree(home / "photos", tmp_path / "more")
    count = sum(path.is_file() for path in (tmp_path / "more").rglob("*"))
    (tmp_path / "more" / "broken.png").write_bytes(b"no picture")
    arguments = ["fit", home / "photos", "-o", tmp_path / "a.dmn4", "--backbone", "conv4-classic", "--weights",
                 home / "small.safetensors", "--unlabelled"]
    code, _, messages = run([*arguments, tmp_path / "more"], capsys)
    assert code == 0
    assert "dmn4: warning: left out: cannot read" in messages
    assert len(load(tmp_path / "a.dmn4").unlabelled_) == count
    code, _, messages = run([*arguments, tmp_path / "more" / "broken.png"], capsys)
    assert code == 2
    assert "none of the 1 pictures can be read" in messages


def test_explain_draws_a_picture(home, tmp_path, capsys):
    pytest.importorskip("dmn4.evidence.draw")
    code, out, _ = run(["explain", home / "colours.dmn4", home / "inbox" / "red 0.png", "-o", tmp_path / "w.png"],
                       capsys)
    assert code == 0
    assert out.strip().endswith(": red (> 99 %)")
    assert Image.open(tmp_path / "w.png").width > 100
