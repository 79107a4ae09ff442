import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from joblib.externals.loky import get_reusable_executor
from toy_bulk import CRASH, as_folder, as_parquet, as_tar, path_with_crashes, pictures, small_model

import dmn4
from dmn4 import InputError, load, predict_many
from dmn4.bulk import predict
from dmn4.bulk.rows import schema
from dmn4.cli import main
from dmn4.files import HOST, remove_drafts

CONTENTS = pictures(44)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    small_model(home)
    as_folder(home / "inbox", CONTENTS)
    return home


@pytest.fixture(scope="module")
def rows(home) -> list[dict]:
    """What this process alone says of the folder, part by part."""
    predict_many(home / "dmn4.dmn4", home / "inbox", home / "plain", workers=0, rows_per_part=10)
    return read(home / "plain")


def read(folder: Path) -> list[dict]:
    return pq.read_table(folder).to_pylist()


def without_names(rows: list[dict]) -> list[tuple]:
    return [(Path(row["path"].rpartition("#")[2]).name, row["verdict"], row["probability"], row["known"])
            for row in rows]


def test_every_picture_is_a_row_in_the_order_of_the_source(home, rows):
    assert [row["path"] for row in rows] == [str(home / "inbox" / name) for name in CONTENTS]
    assert pq.read_table(home / "plain").schema == schema()
    assert len(list((home / "plain").glob("part-*.parquet"))) == 5


def test_a_row_says_what_the_classifier_says(home, rows):
    classifier = load(home / "dmn4.dmn4")
    sound = [row for row in rows if not row["error"]]
    said = classifier.predict_proba([row["path"] for row in sound])
    assert [row["verdict"] for row in sound] == classifier.classes_[said.argmax(1)].tolist()
    assert [row["probability"] for row in sound] == pytest.approx(said.max(1).tolist(), rel=1e-5)
    assert [row["set"] for row in sound] == classifier.predict_set([row["path"] for row in sound])
    for row in sound:
        assert row["top"][0] == {"label": row["verdict"], "probability": row["probability"]}
        assert row["version"] == dmn4.__version__
        assert len(row["model"]) == 16


def test_a_picture_that_cannot_be_read_is_a_row_with_its_error(rows):
    errors = [row for row in rows if row["error"]]
    assert [Path(row["path"]).name[:3] for row in errors] == ["003", "013", "023", "033", "043"]
    for row in errors:
        assert row["verdict"] is None
        assert row["error"].startswith(f"cannot read {row['path']!r} as an image: ")


def test_processes_give_the_same_rows_to_the_bit(home, rows, tmp_path):
    done = predict_many(home / "dmn4.dmn4", home / "inbox", tmp_path / "out", workers=2, rows_per_part=10)
    assert read(tmp_path / "out") == rows
    assert (done.count, done.errors) == (44, 5)


def test_tars_tables_lists_and_patterns_give_the_same_rows(home, rows, tmp_path):
    (tmp_path / "list.txt").write_text("# pictures\n" + "".join(f"{home}/inbox/{name}\n" for name in CONTENTS))
    (tmp_path / "list.csv").write_text("label,image\n" + "".join(f"x,{home}/inbox/{name}\n" for name in CONTENTS))
    pq.write_table(pa.table({"path": [f"{home}/inbox/{name}" for name in CONTENTS]}), tmp_path / "list.parquet")
    first, second = ({name: CONTENTS[name] for name in list(CONTENTS)[part]} for part in (slice(20), slice(20, 44)))
    as_tar(tmp_path / "shard-00.tar", first)
    as_tar(tmp_path / "shard-01.tar", second)
    as_tar(tmp_path / "all.tgz", CONTENTS, "w:gz")
    as_parquet(tmp_path / "all.parquet", CONTENTS)
    sources = [tmp_path / "list.txt", tmp_path / "list.csv", tmp_path / "list.parquet", f"{home}/inbox/*.png",
               tmp_path / "shard-{00..01}.tar", tmp_path / "all.tgz", tmp_path / "all.parquet",
               [home / "inbox", f"{home}/inbox/00*"]]
    for number, source in enumerate(sources):
        predict_many(home / "dmn4.dmn4", source, tmp_path / str(number), workers=0)
        assert without_names(read(tmp_path / str(number))) == without_names(rows), source


def test_an_address_of_fsspec_is_read_and_written(home, rows):
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    for name, content in CONTENTS.items():
        store.pipe_file(f"/bucket/inbox/{name}", content)
    store.pipe_file("/bucket/model.dmn4", (home / "dmn4.dmn4").read_bytes())
    for again in (False, True):
        done = predict_many("memory://bucket/model.dmn4", "memory://bucket/inbox", "memory://bucket/out", workers=0,
                            rows_per_part=10)
        assert (done.count, done.before) == ((0, 5) if again else (44, 0))
    parts = [pq.read_table(store.open(part)) for part in sorted(store.glob("/bucket/out/*.parquet"))]
    assert without_names(pa.concat_tables(parts).to_pylist()) == without_names(rows)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_an_interrupted_run_goes_on_without_a_row_twice_or_missing(home, rows, tmp_path, monkeypatch, after):
    def dies(task, units, workers):
        for number, result in enumerate(plain(task, units, workers)):
            if number == after:
                raise KeyboardInterrupt
            yield result

    plain = predict.run_local
    monkeypatch.setattr(predict, "run_local", dies)
    arguments = home / "dmn4.dmn4", home / "inbox", tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        predict_many(*arguments, workers=0, rows_per_part=10)
    (tmp_path / "out" / f".0123.{HOST}.99999999.part").write_bytes(b"what a killed run leaves behind")
    remove_drafts.cache_clear()                               # the next call stands for another process
    monkeypatch.undo()
    done = predict_many(*arguments, workers=0, rows_per_part=7)
    assert (done.before, done.count) == (after, 44 - 10 * after)
    assert read(tmp_path / "out") == rows
    assert not list((tmp_path / "out").glob(".*"))


def test_pictures_that_arrived_since_are_added(home, tmp_path):
    inbox, more = as_folder(tmp_path / "inbox", dict(list(CONTENTS.items())[:12])), dict(list(CONTENTS.items())[12:20])
    for expected in (12, 8, 0):
        assert predict_many(home / "dmn4.dmn4", inbox, tmp_path / "out", workers=0).count == expected
        as_folder(inbox, more)
    names = Counter(Path(row["path"]).name for row in read(tmp_path / "out"))
    assert names == Counter(list(CONTENTS)[:20])


def test_pictures_that_vanished_since_are_rows_with_an_error(home, tmp_path):
    inbox = as_folder(tmp_path / "inbox", {name: CONTENTS[name] for name in list(CONTENTS)[:3]})
    (tmp_path / "list.txt").write_text("".join(f"inbox/{name}\n" for name in list(CONTENTS)[:3]))
    next(inbox.iterdir()).unlink()
    done = predict_many(home / "dmn4.dmn4", tmp_path / "list.txt", tmp_path / "out", workers=0)
    assert (done.count, done.errors) == (3, 1)
    assert "no such file" in done.first_error


def test_rows_of_another_model_never_mix_in(home, tmp_path):
    other = small_model(tmp_path, "protonet")
    predict_many(home / "dmn4.dmn4", home / "inbox", tmp_path / "out", workers=0)
    before = read(tmp_path / "out")
    for model, asked in ((other, {}), (home / "dmn4.dmn4", {"reject": True}), (home / "dmn4.dmn4", {"format": "csv"})):
        with pytest.raises(InputError, match=r"holds rows of another run: its (model|reject|format) is"):
            predict_many(model, home / "inbox", tmp_path / "out", workers=0, **asked)
    assert read(tmp_path / "out") == before


def test_a_damaged_container_is_a_row_and_the_rest_goes_on(home, tmp_path):
    whole = as_tar(tmp_path / "a.tar", CONTENTS)
    (tmp_path / "b.tar").write_bytes(whole.read_bytes()[:9000])
    (tmp_path / "c.parquet").write_bytes(as_parquet(tmp_path / "d.parquet", CONTENTS).read_bytes())
    done = predict_many(home / "dmn4.dmn4", [whole, tmp_path / "b.tar", tmp_path / "c.parquet"], tmp_path / "out",
                        workers=0)
    damaged = [row for row in read(tmp_path / "out") if "b.tar" in row["path"]]
    assert 44 * 2 < done.count < 44 * 3
    assert f"cannot read '{tmp_path}/b.tar'" in damaged[-1]["error"]
    assert all("#" in row["path"] for row in damaged[:-1])


def test_a_full_disk_stops_with_one_line_and_can_be_gone_on_from(home, rows, tmp_path, monkeypatch):
    from dmn4.bulk import output

    def full(path, content):
        if path.name == "part-000002.parquet":
            raise InputError("cannot write: No space left on device")
        plain(path, content)

    plain = output.write_file
    monkeypatch.setattr(output, "write_file", full)
    arguments = home / "dmn4.dmn4", home / "inbox", tmp_path / "out"
    with pytest.raises(InputError, match="No space left on device; the same command goes on where it stopped"):
        predict_many(*arguments, workers=0, rows_per_part=10)
    monkeypatch.undo()
    assert predict_many(*arguments, workers=0).before == 2
    assert read(tmp_path / "out") == rows


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_parts_can_be_csv_or_json_lines(home, rows, tmp_path, kind):
    predict_many(home / "dmn4.dmn4", home / "inbox", tmp_path / "out", workers=0, format=kind, rows_per_part=10)
    lines = [line for part in sorted((tmp_path / "out").glob("part-*")) for line in part.read_text().splitlines()]
    if kind == "jsonl":
        assert [json.loads(line) for line in lines] == rows
    else:
        assert lines.count(",".join(schema().names)) == 5
        assert len(lines) == 44 + 5


def test_a_classifier_in_memory_and_its_file_are_the_same_model(home, rows, tmp_path):
    predict_many(load(home / "dmn4.dmn4"), home / "inbox", tmp_path / "out", workers=0, rows_per_part=10)
    assert read(tmp_path / "out") == rows


def test_the_command_writes_one_file_or_a_folder(home, rows, tmp_path, capsys):
    model, inbox = str(home / "dmn4.dmn4"), str(home / "inbox")
    main(["predict", model, inbox, "--parquet", str(tmp_path / "all.parquet"), "--workers", "0"])
    assert read(tmp_path / "all.parquet") == rows
    assert not (tmp_path / "all.parquet.parts").exists()
    for said in ("44 pictures in", "nothing left to do"):
        main(["predict", model, inbox, "-o", str(tmp_path / "out"), "--workers", "0"])
        assert said in capsys.readouterr().err
    assert read(tmp_path / "out") == rows


@pytest.mark.parametrize(("arguments", "message"), [
    (["inbox", "-o", "out", "--csv", "a.csv"], "-o and --parquet go with none of"),
    (["inbox", "--engine", "ray"], "need -o OUT or --parquet FILE"),
    (["inbox", "-o", "out", "--engine", "spark"], "unknown engine 'spark'; choose one of local, ray"),
    (["inbox", "-o", "out", "--address", "auto"], "address and gpus_per_worker are for engine='ray'"),
    (["inbox", "-o", "inbox/000 red.png"], "is a file; name a folder for the parts"),
    (["inbox", "-o", "out", "--format", "xml"], "unknown format 'xml'"),
    (["nothing/*.jpg", "-o", "out"], "no file matches 'nothing/\\*.jpg'"),
    (["nothing", "-o", "out"], "there is no file or folder 'nothing'"),
    (["table.csv", "-o", "out"], "which column of 'table.csv' names the pictures"),
    (["table.csv", "-o", "out", "--column", "c"], "has no column 'c'; it has a, b"),
    (["x3://bucket/inbox", "-o", "out"], "cannot open 'x3://bucket/inbox'"),
])
def test_a_mistake_is_one_line_before_any_work(home, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(home / "inbox", "inbox")
    Path("table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit) as stopped:
        main(["predict", str(home / "dmn4.dmn4"), *arguments])
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.startswith("dmn4: error: ")
    assert error.count("\n") == 1
    assert message.replace("\\", "") in error


def test_the_classifier_is_a_step_of_a_pipeline_of_ray_data(home, rows):
    step = dmn4.RayPredictor(home / "dmn4.dmn4")
    contents, names = (np.array(values, dtype=object) for values in (list(CONTENTS.values()), list(CONTENTS)))
    for batch in ({"bytes": contents, "path": names}, {"path": np.array([row["path"] for row in rows], dtype=object)}):
        said = step(batch | {"number": np.arange(44)})
        assert set(said) == {*schema().names, "number"}
        for name in ("verdict", "probability", "known", "set", "top", "model"):
            assert said[name].tolist() == [row[name] for row in rows]
    with pytest.raises(InputError, match="no column image, bytes or path in this data set; it has number"):
        step({"number": np.arange(3)})


def test_when_nothing_can_be_read_the_command_fails(home, tmp_path, capsys):
    (tmp_path / "a.jpg").write_bytes(b"x")
    with pytest.raises(SystemExit) as stopped:
        main(["predict", str(home / "dmn4.dmn4"), str(tmp_path / "a.jpg"), "-o", str(tmp_path / "out"),
              "--workers", "0"])
    assert stopped.value.code == 2
    assert "none of the 1 pictures can be read" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize(("kind", "deadly"), [
    ("folder", (5,)), pytest.param("tar", (5, 6, 17), marks=pytest.mark.slow)])
def test_a_picture_that_kills_the_process_that_decodes_it_is_a_row_and_the_run_goes_on(home, kind, deadly, tmp_path,
                                                                                      monkeypatch):
    """Every Python that starts here has a decoder that dies of a segmentation fault at some pictures."""
    monkeypatch.setenv("PYTHONPATH", path_with_crashes(tmp_path))
    get_reusable_executor().shutdown()                        # processes of before know nothing of this
    names = [list(pictures(20))[place] for place in deadly]
    contents = pictures(20) | dict.fromkeys(names, CRASH)
    source = as_folder(tmp_path / "in", contents) if kind == "folder" else as_tar(tmp_path / "in.tar", contents)
    done = predict_many(home / "dmn4.dmn4", source, tmp_path / "out", workers=1, rows_per_part=20)
    monkeypatch.undo()
    get_reusable_executor().shutdown()
    whole = as_folder(tmp_path / "whole", contents) if kind == "folder" else as_tar(tmp_path / "whole.tar", contents)
    predict_many(home / "dmn4.dmn4", whole, tmp_path / "expected", workers=0, rows_per_part=20)
    rows, expected = (pq.read_table(tmp_path / name).to_pylist() for name in ("out", "expected"))
    assert (done.count, done.errors) == (20, 2 + len(deadly))
    for row, plain in zip(rows, expected, strict=True):
        name = row.pop("path")
        assert name.replace("/in", "/whole") == plain.pop("path")
        if name.endswith(tuple(names)):
            assert row["error"] == f"cannot read {name!r} as an image: its decoder crashes"
        elif not row["error"]:
            assert row == plain
