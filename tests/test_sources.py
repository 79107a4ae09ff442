"""Lists, tables and tars that strangers made lead to pictures or to one line."""

import os
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmn4.bulk.reading import decoded, found_in
from dmn4.bulk.sources import DEEPEST, Listing
from dmn4.bulk.units import Plan
from dmn4.errors import InputError


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """What is wrong with a file itself is said at once."""
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it is tried again"))


def errors(path) -> list[str]:
    listing = Listing([path])
    units = Plan().extended(listing, 100).units(set(), listing.addresses)
    return [found.error for unit in units for found in found_in(unit)]


@pytest.mark.parametrize(("name", "content", "words"), [
    ("a.csv", "path\n" + "x" * 200_000, "field larger than field limit"),
    ("a.txt", "a.txt\n", f"names lists that name lists, more than {DEEPEST} deep"),
    ("a.csv", '"o\nne",two\n1,2\n', "which column of .* names the pictures.* one of o ne, two"),
    ("a.parquet", "PAR1 and no more", "Parquet magic bytes not found"),
])
def test_a_list_that_leads_nowhere_is_one_line(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        list(Listing([tmp_path / name]))
    assert "\n" not in str(caught.value)


def test_lists_may_name_lists(tmp_path):
    for number in range(DEEPEST):
        (tmp_path / f"{number}.txt").write_text(f"{number + 1}.txt")
    (tmp_path / f"{DEEPEST}.txt").write_text("a.png")
    with pytest.raises(InputError, match="deep"):
        list(Listing([tmp_path / "0.txt"]))
    assert [piece.name for piece in Listing([tmp_path / "1.txt"])] == [str(tmp_path / "a.png")]


@pytest.mark.parametrize("values", [[1, 2], [[b"x"], [b"y", b"z"]], [{"a": 1}]])
def test_a_column_that_is_no_text_names_no_pictures(tmp_path, values):
    pq.write_table(pa.table({"image": values}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"the column 'image' of .* is .*; the paths of pictures are text"):
        list(Listing([tmp_path / "a.parquet"]))


def test_names_in_a_dictionary_are_names(tmp_path):
    pq.write_table(pa.table({"path": pa.array(["a.png", None, "b.png"]).dictionary_encode()}), tmp_path / "a.parquet")
    assert [piece.name for piece in Listing([tmp_path / "a.parquet"])] == [str(tmp_path / "a.png"),
                                                                           str(tmp_path / "b.png")]


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes with a name")
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.parquet", "a.csv", "a.txt"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    if name == "a.tar.gz":
        assert "it is no ordinary file" in errors(tmp_path / name)[0]
        return
    with pytest.raises(InputError, match="it is no ordinary file") as caught:
        list(Listing([tmp_path / name]))
    assert str(caught.value).count("cannot read") == 1


def test_a_damaged_tar_is_an_error_at_once(tmp_path):
    header = bytearray(512)
    header[:5], header[124:136], header[156:157] = b"a.png", b"\x80" + b"\xff" * 11, b"0"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    for content in (bytes(header) * 2, b"x" * 700, b""):
        (tmp_path / "a.tar").write_bytes(content)
        assert all("cannot read" in error for error in errors(tmp_path / "a.tar"))


def test_a_name_longer_than_names_can_be_is_an_error_of_its_row(tmp_path):
    (tmp_path / "a.txt").write_text("x" * 300 + ".png\n")
    listing = Listing([tmp_path / "a.txt"])
    unit = next(Plan().extended(listing, 100).units(set(), {}))
    assert "File name too long" in decoded(next(found_in(unit)), 10).error
