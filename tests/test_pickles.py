"""Pickles of arrays are read and nothing in them is run."""

import os
import pickle
import struct

import numpy as np
import pytest

from dmn4.data import pickles
from dmn4.data.pickles import read_pickle
from dmn4.errors import InputError

PIXELS = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)


class Attack:
    """Pickled as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_lists_dicts_strings_and_numbers_come_out(tmp_path, protocol):
    content = {"data": PIXELS, b"labels": [1, np.int64(2), 3.5], "png": [b"\x89PNG", PIXELS[:, 0]], "none": None,
               "columns": np.asfortranarray(PIXELS), "big": np.arange(3, dtype=">i4"), "words": np.array(["ab", "c"]),
               "names": np.array(["x", "yz"], dtype=object)}
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(content, protocol))
    found = read_pickle(tmp_path / "a.pkl")
    assert np.array_equal(found["data"], PIXELS)
    assert found["data"].dtype == np.uint8
    assert found["labels"] == [1, 2, 3.5]                          # a key of bytes becomes text
    assert found["png"][0] == b"\x89PNG"
    assert np.array_equal(found["columns"], PIXELS)
    assert found["big"].tolist() == [0, 1, 2]
    assert found["words"].tolist() == ["ab", "c"]
    assert found["names"] == ["x", "yz"]


def test_a_pickle_of_python_2_is_read(tmp_path):
    written = (b"(dp0\nS'labels'\np1\n(lp2\nI3\naI5\nasS'data'\np3\ncnumpy.core.multiarray\n_reconstruct\np4\n(cnumpy\n"
               b"ndarray\np5\n(I0\ntp6\nS'b'\np7\ntp8\nRp9\n(I1\n(I2\ntp10\ncnumpy\ndtype\np11\n(S'u1'\np12\nI0\nI1\ntp13\n"
               b"Rp14\n(I3\nS'|'\np15\nNNNI-1\nI-1\nI0\ntp16\nbI00\nS'\\x07\\xff'\np17\ntp18\nbs.")
    (tmp_path / "a.pkl").write_bytes(written)
    found = read_pickle(tmp_path / "a.pkl")
    assert found["labels"] == [3, 5]
    assert found["data"].tolist() == [7, 255]


@pytest.mark.parametrize(("function", "arguments"), [
    (eval, ("open('harm', 'w')",)),
    (__import__("os").system, ("touch harm",)),
    (getattr, (PIXELS, "tofile")),
    (np.fromfile, ("/etc/passwd",)),
    (np.load, ("x.npy",)),
])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, monkeypatch, function, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"data": PIXELS, "labels": Attack(function, *arguments)}))
    with pytest.raises(InputError, match="which no data set needs; it was not run"):
        read_pickle(tmp_path / "a.pkl")
    assert not (tmp_path / "harm").exists()


def test_a_name_of_several_lines_or_with_the_codes_of_a_terminal_is_told_on_one(tmp_path):
    name = "nu\r\x1b[2Jmpy" + "y" * 5000
    (tmp_path / "a.pkl").write_bytes(b"\x80\x04" + b"X" + struct.pack("<I", len(name))
                                     + name.encode() + b"X\x01\0\0\0x\x93.")
    with pytest.raises(InputError, match=r"asks for nu .2Jmpyy") as refused:
        read_pickle(tmp_path / "a.pkl")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("content", [
    b"", b"words", pickle.dumps(PIXELS)[:-9],
    b"cnumpy\ndtype\n(S'V8'\ntR.",                                 # a type with hidden fields
    b"cnumpy\ndtype\n(S'O8'\ntR.",                                 # a bare type is no data
    b"cnumpy\nndarray\n}S'x'\nS'y'\nsb.",                          # state for a class, not for an object
    b"c_codecs\nencode\n}S'x'\nS'y'\nsb.",
    b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'O8'\ntRS'12345678'\ntR.",   # a number that is a pointer
    b"]q\x00h\x00a.",                                              # a list that holds itself
], ids=["empty", "words", "cut", "fields", "type", "class", "function", "pointer", "endless"])
def test_a_damaged_or_crafted_pickle_is_an_input_error(tmp_path, content):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.pkl"):
        read_pickle(tmp_path / "a.pkl")


ARRAY = np.zeros(100_000, np.uint8)


def wide(width: int, levels: int) -> list:
    """One list, held `width` times by a list that is held as often, and so on: width ** levels members."""
    value: list = []
    for _ in range(levels):
        value = [value] * width
    return value


@pytest.mark.parametrize(("content", "message"), [
    (b"Nr\xff\xff\xff\x3f.", ""),                                  # the place 2**30 - 1 in the memo: read in no time
    (pickle.dumps(wide(40, 8)), "far more than its file holds"),
    (pickle.dumps([ARRAY] * 10_000), "far more than its file holds"),
    (b"}" + b")" + b"\x85" * 1_000_000 + b"Ns.", "a tuple as a key"),       # hashed deeper than the stack of C
    (b"})" + b"2\x86" * 60 + b"Ns.", "a tuple as a key"),               # hashed 2 ** 60 times
    (b"\x8f(K\x01\x90.", "cannot read"),                             # a set
    (b"X\xff\xff\xff\x7fab.", "ends too early"),                     # 2 GB of text
    (b"\x96\xff\xff\xff\xff\x01\x00\x00\x00ab.", "ends too early"),   # 8 GB of bytes
    (b"cnumpy\nndarray\nN}S'__init__'\nK\x01s\x86b.", "the state of a type"),
], ids=["memo", "lists", "arrays", "depth", "hashes", "set", "text", "bytes", "class"])
def test_a_small_pickle_cannot_ask_for_much(tmp_path, content, message):
    path = tmp_path / "a.pkl"
    path.write_bytes(content)
    if not message:
        assert read_pickle(path) is None
        return
    with pytest.raises(InputError, match=message):
        read_pickle(path)


def test_more_containers_than_any_data_set_needs_are_refused(tmp_path, monkeypatch):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([[] for _ in range(1000)]))
    assert len(read_pickle(tmp_path / "a.pkl")) == 1000
    monkeypatch.setattr(pickles, "CONTAINERS", 900)
    with pytest.raises(InputError, match="more than 900 lists, dicts and tuples"):
        read_pickle(tmp_path / "a.pkl")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.pkl")
    with pytest.raises(InputError, match="no ordinary file"):
        read_pickle(tmp_path / "a.pkl")


def test_an_array_of_pointers_with_bytes_in_their_place_is_refused(tmp_path):
    crafted = (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I1\ntcnumpy\ndtype\n"
               b"(S'O8'\nI0\nI1\ntRI00\nS'12345678'\ntb.")
    (tmp_path / "a.pkl").write_bytes(crafted)
    with pytest.raises(InputError, match="cannot read"):
        read_pickle(tmp_path / "a.pkl")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_pickle(tmp_path / "none.pkl")
