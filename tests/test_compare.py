"""Comparisons on the same episodes."""

import numpy as np
import pytest

from dmn4.backbones import build_backbone
from dmn4.evaluation.compare import compare, draw, markdown, parse_contenders, save, spread_all
from dmn4.evaluation.evaluate import Protocol, Results
from dmn4.files import read_json, write_json
from dmn4.methods import METHODS
from dmn4.training.checkpoints import save_backbone

RESULTS = Results({"dn4": np.array([[0.5, 0.75, 0.25, 0.5]]), "dmn4": np.array([[0.625, 0.75, 0.375, 0.625]])},
                  Protocol())


def test_the_others_are_compared_with_the_first():
    first, second = compare(RESULTS)
    assert first.difference is None
    assert second.difference.mean == pytest.approx(0.09375)
    assert second.difference.tighter == pytest.approx(
        np.hypot(first.accuracy.half_width, second.accuracy.half_width) / second.difference.half_width)


def test_the_table_has_a_row_for_each():
    lines = markdown(compare(RESULTS)).splitlines()
    assert lines[2].startswith("| dn4 | 50.00 ±")
    assert lines[3].startswith("| dmn4 | 59.38 ±")
    assert "+9.37" in lines[3] or "+9.38" in lines[3]


def test_the_picture_is_drawn(tmp_path):
    draw(compare(RESULTS), tmp_path / "compare.png")
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_contenders_of_one_run_share_its_backbone_and_others_have_their_own(tmp_path):
    for name in ("a", "b"):
        save_backbone(tmp_path / name / "backbone.safetensors", build_backbone("conv4", width=0.125), {})
    texts = [f"{tmp_path}/a@dn4", f"{tmp_path}/a@dmn4:vote=rank", f"{tmp_path}/b@dn4"]
    first, second, third = parse_contenders(texts).values()
    assert first.backbone is second.backbone
    assert first.backbone is not third.backbone
    assert second.method.vote == "rank"


def test_a_method_whose_layers_were_never_trained_is_marked():
    entered = parse_contenders(["dmn4", "feat"])
    assert [name for name, one in entered.items() if one.facts.get("untrained")] == ["feat"]
    text = markdown(compare(RESULTS, untrained=["dmn4"]))
    assert "| dmn4 † |" in text
    assert "† holds layers that were not trained" in text
    assert "†" not in markdown(compare(RESULTS))


def test_all_stands_for_every_supervised_method_that_is_not_named():
    spread = spread_all(["dmn4", "runs/a@dn4:k=3", "all"])
    assert spread[:2] == ["dmn4", "runs/a@dn4:k=3"]
    assert {name.split(":")[0] for name in spread[2:]} == {
        name for name in METHODS if name not in ("dmn4", "dn4") and not name.endswith(("-semi", "-masked"))}
    assert "deepemd:side=5" in spread


def test_the_card_tells_the_paired_differences(tmp_path):
    result = {"mean": 0.5, "half_width_t": 0.1}
    write_json(tmp_path / "card.json", {"stage": "evaluate", "contenders": {"dn4": {}, "dmn4": {}},
                                        "results": {"dn4": result, "dmn4": result}})
    rows = compare(RESULTS, untrained=["dmn4"])
    save(rows, tmp_path)
    card = read_json(tmp_path / "card.json", dict)
    assert card["compared_with"] == "dn4"
    assert card["differences"]["dmn4"]["mean"] == pytest.approx(0.09375)
    assert "results" in card
    assert (tmp_path / "compare.md").read_text() == markdown(rows)
