"""What a user names, as pieces: pictures, folders, globs, lists, tables, tars; here or at any address of fsspec."""

import csv
import glob
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.reading import reading
from ..errors import InputError
from ..images import SUFFIXES, find_images, is_hidden
from .addresses import filesystem, is_remote, open_binary, patiently, public
from .tars import tar_parts
from .units import CONTAINERS, MOST, Piece

if TYPE_CHECKING:
    import pyarrow as pa

LISTS = (".txt", ".csv", ".tsv")
PATHS = ("path", "image", "file", "filename", "file_name", "filepath", "image_path", "url")    # columns of addresses
CONTENTS = ("bytes", "image", "jpg", "jpeg", "png", "content", "picture")                      # columns of pictures
DEEPEST = 3                                                   # lists that name lists
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")                     # shards-{0000..0146}.tar, as WebDataset writes it


class Listing:
    """The pieces of some sources; `addresses` fills up with those that are read elsewhere than their name says."""

    def __init__(self, sources: Iterable[str | Path], column: str | None = None) -> None:
        self.sources, self.column = [str(source) for source in sources], column
        self.addresses: dict[str, str] = {}

    def __iter__(self) -> Iterator[Piece]:
        for source in self.sources:
            for address in expanded(source):
                yield from self.within(address)

    def within(self, address: str, lists: tuple[str, ...] = ()) -> Iterator[Piece]:
        """The pieces of a file: of the files that it lists, of a container, or the picture itself.

        `lists` are those that led here: one that leads back to itself has no end.
        """
        if len(lists) > DEEPEST:
            raise InputError(f"{public(lists[0])!r} names lists that name lists, more than {DEEPEST} deep: name the "
                             "pictures themselves")
        kind = address.partition("?")[0].lower() if is_remote(address) else address.lower()
        if kind.endswith(LISTS):
            for line in listed(address, self.column):
                yield from self.within(line, (*lists, address))
        elif kind.endswith(".parquet"):
            yield from self.of_table(address, lists)
        elif kind.endswith(CONTAINERS):
            yield from self.parts(address, tar_parts(address))
        else:
            yield from self.parts(address, [(0, -1)])

    def of_table(self, address: str, lists: tuple[str, ...]) -> Iterator[Piece]:
        """The pieces of a Parquet file: its row groups, or the files that it names."""
        import pyarrow.parquet as pq

        def look() -> tuple["pa.Schema", list[int]]:
            with open_binary(address) as file:
                about = pq.ParquetFile(file)
                return about.schema_arrow, [about.metadata.row_group(n).num_rows for n in range(about.num_row_groups)]

        schema, counts = patiently(look, address)
        if picture_column(schema, self.column):
            yield from self.parts(address, ranges(counts))
            return
        for line in paths_of_table(address, text_column(schema, self.column, address)):
            yield from self.within(line, (*lists, address))

    def parts(self, address: str, bounds: Iterable[tuple[int, int]]) -> Iterator[Piece]:
        """These parts of a file."""
        name = public(address)
        if name != address:
            self.addresses[name] = address
        for start, stop in bounds:
            yield Piece(name, start, stop)


def expanded(source: str) -> Iterator[str]:
    """The files behind what a user wrote: a folder, a pattern, a range of shards, or one address."""
    if match := RANGE.search(source):
        first, last = match[1], match[2]
        for number in range(int(first), int(last) + 1):
            yield from expanded(f"{source[:match.start()]}{number:0{len(first)}}{source[match.end():]}")
    elif is_remote(source):
        yield from remote_files(source)
    elif os.path.isdir(source):
        yield from in_folder(source)
    elif os.path.exists(source):
        yield source
    elif glob.has_magic(source):
        matches = sorted(glob.glob(source, recursive=True))
        if not matches:
            raise InputError(f"no file matches {source!r}")
        for path in matches:
            yield from in_folder(path) if os.path.isdir(path) else [path]
    else:
        raise InputError(f"there is no file or folder {source!r}")


def in_folder(folder: str) -> list[str]:
    """The pictures in and below a folder or, if there are none, its tars and Parquet files."""
    pictures = [str(path) for path in find_images(folder)]
    shards = [] if pictures else sorted(str(path) for path in Path(folder).rglob("*")
                                        if path.name.lower().endswith(CONTAINERS) and not is_hidden(path.name))
    if not pictures and not shards:
        raise InputError(f"no images in {folder!r} (looked for {' '.join([*SUFFIXES, *CONTAINERS])})")
    return pictures or shards


def remote_files(address: str) -> list[str]:
    """The same at an address: a pattern, a folder, or the one file; hidden names are passed over."""
    suffixes = (*SUFFIXES, *CONTAINERS)
    if address.partition("?")[0].lower().endswith((*suffixes, *LISTS)) and "*" not in address:
        return [address]
    store, path = filesystem(address)
    files = patiently(lambda: store.glob(path) if glob.has_magic(path) else store.find(path), address)
    kept = [name for name in sorted(files) if name.lower().endswith(suffixes) and not is_hidden(name.split("/")[-1])]
    if files == [path]:                                       # a file whose name does not say what it is
        return [address]
    pictures = [name for name in kept if not name.lower().endswith(CONTAINERS)]
    if not kept:
        raise InputError(f"no images at {public(address)!r} (looked for {' '.join(suffixes)})")
    return [store.unstrip_protocol(name) for name in pictures or kept]


# --------------------------------------------------------------------------------------------------- lists and tables

def listed(address: str, column: str | None) -> Iterator[str]:
    """The addresses in a text file, one a line, or in a column of a CSV file; relative ones start from its folder."""
    text = patiently(lambda: _text(address), address)
    with reading(public(address)):
        if address.partition("?")[0].lower().endswith(".txt"):
            lines = [line.strip() for line in text.splitlines()]
        else:
            rows = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if ".tsv" in address.lower() else ",")
            chosen = path_column(list(rows.fieldnames or ()), column, address)
            lines = [row[chosen] or "" for row in rows]
    return (beside(address, line) for line in lines if line and not line.startswith("#"))


def _text(address: str) -> str:
    with open_binary(address) as file:
        return file.read().decode("utf-8-sig", "surrogateescape")


def paths_of_table(address: str, column: str) -> Iterator[str]:
    """The addresses in a column of a Parquet file."""
    import pyarrow.parquet as pq

    with reading(public(address)), open_binary(address) as file:
        for batch in pq.ParquetFile(file).iter_batches(columns=[column]):
            yield from (beside(address, str(line)) for line in batch[0].to_pylist() if line)


def beside(table: str, line: str) -> str:
    """The address that a line of a table means."""
    if is_remote(line) or os.path.isabs(line):
        return line
    folder = table.rpartition("/")[0]
    return f"{folder}/{line}" if folder else line


def path_column(names: Sequence[str], wanted: str | None, address: str) -> str:
    """Which column of a table holds addresses."""
    known = " ".join(", ".join(names).split())[:500]
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{public(address)!r} has no column {wanted!r}; it has {known}")
        return wanted
    chosen = [name for name in PATHS if name in names] or (list(names) if len(names) == 1 else [])
    if not chosen:
        raise InputError(f"which column of {public(address)!r} names the pictures? Say --column NAME, one of "
                         f"{known}")
    return chosen[0]


def text_column(schema: "pa.Schema", wanted: str | None, address: str) -> str:
    """Which column of a Parquet file holds addresses; one of anything but text is refused."""
    import pyarrow.types as types

    chosen = path_column(schema.names, wanted, address)
    kind = schema.field(chosen).type
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
        raise InputError(f"the column {chosen!r} of {public(address)!r} is {kind}; the paths of pictures are text, and "
                         "pictures are bytes")
    return chosen


def picture_column(schema: "pa.Schema", wanted: str | None) -> str | None:
    """Which column of a Parquet file holds encoded pictures, alone or as {bytes, path}; None if none does."""
    holding = [field.name for field in schema if holds_bytes(field.type)]
    if wanted is not None:
        return wanted if wanted in holding else None
    usual = [name for name in CONTENTS if name in holding] or (holding if len(holding) == 1 else [])
    return usual[0] if usual else None


def holds_bytes(kind: Any) -> bool:
    """Whether values of this Arrow type are bytes, or hold some under the name `bytes`."""
    import pyarrow.types as types

    if types.is_struct(kind):
        return any(field.name == "bytes" and holds_bytes(field.type) for field in kind)
    binary: bool = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return binary


# ------------------------------------------------------------------------------------------------ parts of large files

def ranges(counts: Sequence[int], most: int = MOST) -> Iterator[tuple[int, int]]:
    """Row groups that follow each other, taken together up to `most` rows: first one, and the one behind the last."""
    start = rows = 0
    for number, count in enumerate(counts):
        if rows and rows + count > most:
            yield start, number
            start, rows = number, 0
        rows += count
    if rows:
        yield start, len(counts)
