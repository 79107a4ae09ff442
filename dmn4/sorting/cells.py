"""Names and labels as cells of a table and as parts of a line; whatever characters they hold, they come back equal."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import InputError
from ..files import check_regular

FORMULA = re.compile(r"'*[=+\-@\t\r]")                        # how a cell begins that a spreadsheet would compute
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?")
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}                             # control characters, bytes that are no text, line ends
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"    # characters that reverse what follows them


def to_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula: with a ' before it where it would be one."""
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def from_cell(cell: str) -> str:
    """The text that `to_cell` was given."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def on_screen(text: str) -> str:
    r"""The text on one line, harmless to a terminal: a line end is shown as \n, a byte that is no text as \xff."""
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":                        # how Python keeps a byte that is no UTF-8
        return f"\\x{ord(letter) - 0xdc00:02x}"
    if unicodedata.category(letter) in HIDDEN or letter in TURNING:
        return letter.encode("unicode_escape").decode()
    return letter


def is_text(name: str) -> bool:
    """Whether a name can be written as UTF-8; names of files may be any bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def table_text(columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    """The rows as the text of a CSV file."""
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(columns)
    for row in rows:
        cells = [to_cell(row[column]) for column in columns]
        writer = quoted if any("\r" in cell for cell in cells) else plain     # which alone would leave \r unquoted
        writer.writerow(cells)
    return out.getvalue()


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows that `table_text` wrote to a file; none if there is no file, an InputError if it is another table."""
    if not path.exists():
        return []
    check_regular(path)
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    try:
        header, *rows = list(csv.reader(io.StringIO(text, newline=""))) or [[]]
    except csv.Error as error:
        raise InputError(f"{str(path)!r} is not a table of predictions: {error}") from None
    if header != list(columns):
        raise InputError(f"{str(path)!r} is not a table of predictions of this dmn4: its columns are "
                         f"{','.join(header)[:200]!r}, not {','.join(columns)!r}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(columns):
            raise InputError(f"row {number} of {str(path)!r} has {len(row)} cells, not {len(columns)}: "
                             "remove it, or start a new table without --resume")
    return [dict(zip(columns, map(from_cell, row), strict=True)) for row in rows]
