"""Result cards of every version are read in the present form."""

import json
from pathlib import Path

import pytest

from dmn4.errors import InputError
from dmn4.training.cards import VERSION, read_card, write_card

CARDS = [path for path in sorted((Path(__file__).parents[1] / "docs" / "results").glob("*.json"))
         if path.stem.startswith(("cub-", "mini-"))]          # many were written by older forms


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


@pytest.mark.parametrize(("content", "message"), [
    ({"version": 99, "stage": "train"}, "written by a newer dmn4 .card version 99, this one reads 2.: up"),
    ({"cases": {}}, "is no result card: give the card.json of a run"),
    ([1], "is no result card"),
])
def test_a_file_that_is_no_card_says_so(content, message, tmp_path):
    (tmp_path / "card.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_card(tmp_path / "card.json")
