"""Result cards of every version are read in the present form."""

import json
import math
from pathlib import Path

import pytest

from dmn4.errors import InputError
from dmn4.reproduce.sheets import Measured
from dmn4.training.cards import VERSION, read_card, write_card

CARDS = [path for path in sorted((Path(__file__).parents[1] / "docs" / "results").glob("*.json"))
         if path.stem.startswith(("cub-", "mini-"))]          # many were written by older forms


def test_there_is_a_card_of_every_older_version():
    assert {json.loads(path.read_text()).get("version", 1) for path in CARDS} >= set(range(1, VERSION))


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_a_committed_card_of_any_age_has_the_present_form(path):
    card = read_card(path)
    assert card["version"] == VERSION
    assert isinstance(card["mirror"], bool)
    assert all({"backbone", "options", "untrained"} <= facts.keys() for facts in card["contenders"].values())
    assert card["results"].keys() == card["contenders"].keys()


def test_what_is_written_is_read_again(tmp_path):
    write_card(tmp_path / "card.json", stage="train", val=0.5)
    card = read_card(tmp_path / "card.json")
    assert (card["version"], card["stage"], card["val"]) == (VERSION, "train", 0.5)
    assert {"dmn4", "torch", "python", "machine", "threads", "date", "command"} <= card.keys()


def test_a_number_that_is_not_finite_is_null_in_a_card_and_none_when_it_is_read(tmp_path):
    result = {"dn4": {"mean": 0.5, "half_width_t": math.nan}}
    path = tmp_path / "card.json"
    write_card(path, stage="evaluate", contenders={}, results=result, differences={"mn4": {"tighter": math.inf}})
    assert '"half_width_t": null' in path.read_text()
    path.write_text(path.read_text().replace("null", "NaN"))     # as older versions wrote it
    card = read_card(path)
    assert card["results"]["dn4"]["half_width_t"] is None
    assert card["differences"]["mn4"]["tighter"] is None
    assert math.isnan(Measured.on(path, ["dn4"])["dn4"].accuracy.half_width)
    with pytest.raises(InputError, match="holds no number of 'mn4': remove its folder to measure it again"):
        Measured.on(path, ["dn4", "mn4"])


@pytest.mark.parametrize(("content", "message"), [
    ({"version": 99, "stage": "train"}, "written by a newer dmn4 .card version 99, this one reads 2.: up"),
    ({"cases": {}}, "is no result card: give the card.json of a run"),
    ([1], "Input should be an object"),
    ({"stage": "party"}, "is no result card"),
    ({"stage": "evaluate", "contenders": {}, "results": {"dn4": {"mean": 7, "half_width_t": 0.1}}},
     "cannot read the result card .*: results.dn4.mean: Input should be less than or equal to 1"),
    ({"stage": "evaluate", "contenders": {}}, "results: Field required"),
    ({"stage": "train", "command": "x" * 100_001}, "cannot read"),
])
def test_a_file_that_is_no_card_says_so(content, message, tmp_path):
    (tmp_path / "card.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_card(tmp_path / "card.json")
