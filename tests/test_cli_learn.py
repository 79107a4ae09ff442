"""The commands of training and evaluation."""

import json
from dataclasses import fields

import pytest
from typer.testing import CliRunner

from dmn4.cli.main import app, main
from dmn4.recipes import Pretraining, Training

TINY = ["--backbone-options", "width=0.125", "--size", "24", "--epochs", "1", "--validate-episodes", "2"]


@pytest.mark.parametrize(("command", "kind"), [("pretrain", Pretraining), ("train", Training)])
def test_every_setting_is_a_flag(command, kind):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    for one in fields(kind):
        assert f"--{one.name.replace('_', '-')}" in shown


def test_two_stages_an_evaluation_and_a_comparison(tmp_path, capsys):
    main(["pretrain", "drawn", "-o", f"{tmp_path}/first", *TINY, "--batch", "200"])
    main(["train", "drawn", "-o", f"{tmp_path}/second", *TINY, "--weights", f"{tmp_path}/first/backbone.safetensors",
          "--recipe", "tiny", "--episodes", "2", "--method", "mn4"])
    main(["evaluate", "drawn", "--weights", f"{tmp_path}/second", "-o", f"{tmp_path}/number", "--episodes", "3"])
    main(["average", f"{tmp_path}/first", f"{tmp_path}/second", "-o", f"{tmp_path}/mean.safetensors"])
    main(["evaluate", "drawn", "--weights", f"{tmp_path}/mean.safetensors", "--method", "dn4", "-o", f"{tmp_path}/soup",
          "--episodes", "3"])
    main(["compare", "drawn", f"{tmp_path}/first@mn4", f"{tmp_path}/second@", "-o", f"{tmp_path}/pair",
          "--episodes", "3"])
    card = json.loads((tmp_path / "number" / "card.json").read_text())
    assert capsys.readouterr().out.count(f"fingerprint {card['data']}") == 3
    assert card["contenders"]["as trained"]["method"] == "mn4"
    assert {"compare.md", "compare.png", "card.json"} <= {path.name for path in (tmp_path / "pair").iterdir()}


@pytest.mark.parametrize(("arguments", "message"), [
    (["train", "drawn", "--method", "dmn5"], "unknown method 'dmn5'; choose one of dn4, mn4, dmn4"),
    (["train", "drawn", "--epochs", "0"], "epochs is 0; it must be above 0"),
    (["pretrain", "drawn", "--recipe", "none"], "unknown recipe 'none'"),
    (["pretrain", "drawn", "--transform", "none"], "unknown transform 'none'"),
    (["compare", "drawn", "dn4"], "'dn4' alone cannot be compared"),
    (["average", "runs/a"], "'runs/a' alone has no mean"),
    (["average", "runs/a", "runs/b"], "there is no checkpoint 'runs/a'"),
    (["reproduce", "table-9"], "unknown table or figure 'table-9'"),
    (["reproduce", "odm", "--picture"], "--picture goes with semi, not with 'odm'"),
    (["reproduce", "odm", "--data", "cub"], "cannot read --data 'cub'; write NAME=VALUE"),
    (["reproduce", "odm", "--weights", "cub=runs/cub"], "--weights goes with tsne"),
])
def test_a_mistake_is_one_line_before_any_work(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("dmn4: error: ")
    assert message in said
    assert not list(tmp_path.iterdir())


def test_the_list_names_every_table(capsys):
    main(["reproduce", "--list"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("sota-mini", "sota-tiered", "fine-grained", "descriptor-size", "odm", "rank"))
