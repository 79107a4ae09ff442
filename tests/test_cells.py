"""Whatever a file or a class is called, tables hold its name and lines show it."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmn4.errors import InputError
from dmn4.sorting.cells import from_cell, is_text, on_screen, read_table, table_text, to_cell

BYTES = st.binary(max_size=12).map(lambda name: name.decode("utf-8", "surrogateescape"))
NAMES = st.text("ab='+-@\t\r\n\0,\"\\é\u202e", max_size=8) | st.text(st.characters(codec="utf-8"), max_size=8) | BYTES


@given(NAMES)
def test_a_cell_gives_its_text_back_and_never_begins_as_a_formula(name):
    assert from_cell(to_cell(name)) == name
    assert to_cell(name)[:1] not in set("=+-@\t\r") or to_cell(name).lstrip("+-")[0].isdigit()


@pytest.mark.parametrize(("text", "cell"), [
    ("=1+1.jpg", "'=1+1.jpg"), ("@SUM(A1)", "'@SUM(A1)"), ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
    ("-7", "-7"), ("+1.5e3", "+1.5e3"), ("'quoted'", "'quoted'"), ("a=b", "a=b"), ("'=1", "''=1")])
def test_formulas_get_a_quote_and_numbers_and_words_stay(text, cell):
    assert to_cell(text) == cell


@given(st.lists(st.tuples(NAMES, NAMES), max_size=4))
def test_a_table_is_read_as_it_was_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "a.csv"
    rows = [{"image": image, "label": label} for image, label in rows]
    path.write_bytes(table_text(("image", "label"), rows).encode("utf-8", "surrogateescape"))
    assert read_table(path, ("image", "label")) == rows


def test_other_readers_find_the_same_rows():
    text = table_text(("image", "label"), [{"image": "a\r.jpg", "label": "b\n"}, {"image": "c,d", "label": "e"}])
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == [["a\r.jpg", "b\n"], ["c,d", "e"]]


@given(NAMES)
def test_a_name_on_the_screen_is_one_line_without_control_characters(name):
    shown = on_screen(name)
    assert is_text(shown)
    assert len(shown.splitlines()) <= 1
    assert not set(shown) & set(map(chr, [*range(32), *range(127, 160), 0x202e]))


def test_ordinary_names_are_shown_as_they_are():
    assert on_screen("Zürich 東京 🦊 \\n.jpg") == "Zürich 東京 🦊 \\n.jpg"
    assert on_screen("two\nlines\t\x1b[2J\udcff") == "two\\nlines\\t\\x1b[2J\\xff"


@pytest.mark.parametrize(("content", "message"), [
    (b"a,b\n1,2\n", "its columns are 'a,b', not 'image,label'"), (b"", "its columns are ''"),
    (b"image,label\nx\n", "row 2 of .* has 1 cells, not 2"), (b'image,label\n"' + b"x" * 200_000, "field larger than"),
])
def test_another_table_is_refused(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "a.csv", ("image", "label"))


def test_a_table_that_is_not_there_has_no_rows(tmp_path):
    assert read_table(tmp_path / "a.csv", ("image", "label")) == []
