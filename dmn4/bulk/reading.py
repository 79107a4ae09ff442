"""The pictures of a unit, one after another, never all at once; what cannot be read is an error beside its name."""

import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from ..errors import InputError
from ..images import Source, describe_source, read_image, resize_image
from ..images.files import Size
from .addresses import PAUSES, fetch, is_gone, is_remote, open_binary, reason
from .sources import PATHS, picture_column
from .tars import Member, picture_members
from .units import Piece, Unit

LARGEST = 1 << 28                                             # bytes of an encoded picture inside a container
Item = TypeVar("Item")
Result = TypeVar("Result")


class Found(NamedTuple):
    """A picture before it is decoded: its name and where or what it is, or why there is none."""

    name: str
    source: str | bytes | None = None                         # an address, or the content
    error: str = ""


class Seen(NamedTuple):
    """A picture as bytes (h, w, 3), or why it cannot be read."""

    name: str
    pixels: np.ndarray | None = None
    error: str = ""


def pictures(unit: Unit, size: Size, ahead_by: int, threads: int) -> Iterator[Seen]:
    """The pictures of a unit in order, decoded while the network is busy with earlier ones."""
    return ahead(lambda picture: decoded(picture, size), found_in(unit), ahead_by, threads)


def ahead(work: Callable[[Item], Result], items: Iterable[Item], most: int, threads: int) -> Iterator[Result]:
    """What `work` gives for every item, in order, with up to `most` of them under way."""
    with ThreadPoolExecutor(threads) as pool:
        futures = (pool.submit(work, item) for item in items)
        waiting = deque(islice(futures, most))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(islice(futures, 1))
            yield result


def found_in(unit: Unit) -> Iterator[Found]:
    """Everything in a unit; a picture that would end the process is an error."""
    for place, picture in enumerate(everything_in(unit)):
        crash = f"cannot read {picture.name!r} as an image: its decoder crashes"
        yield Found(picture.name, error=crash) if place in unit.deadly else picture


def everything_in(unit: Unit) -> Iterator[Found]:
    """The pictures of all pieces of a unit, one after another."""
    for piece in unit.pieces:
        address = unit.address(piece)
        if piece.is_container:
            yield from patient_stream(piece, address, unit.column)
        else:
            yield Found(piece.name, address)


def decoded(picture: Found, size: Size) -> Seen:
    """A picture as the network's preprocessing takes it."""
    if picture.source is None:
        return Seen(picture.name, error=picture.error)
    try:
        source = picture.source if isinstance(picture.source, bytes) else fetch(picture.source)
    except InputError as error:
        return Seen(picture.name, error=public_text(str(error)))
    return seen_of(picture.name, source, size)


def seen_of(name: str, source: Source, size: Size) -> Seen:
    """The picture of this name as the network's preprocessing takes it."""
    try:
        return Seen(name, resize_image(read_image(source, size), size))
    except InputError as error:
        return Seen(name, error=public_text(str(error).replace(describe_source(source), repr(name))))


def public_text(text: str) -> str:
    """A message as any table can hold it."""
    return text.encode("utf-8", "backslashreplace").decode()


# ---------------------------------------------------------------------------------------------------------- containers

def patient_stream(piece: Piece, address: str, column: str | None) -> Iterator[Found]:
    """The pictures of a container; read again from where it broke off, and where it stays broken an error."""
    given = 0
    for pause in (*PAUSES, None):
        try:
            for picture in islice(stream(piece, address, column), given, None):
                yield picture
                given += 1
            return
        except Exception as error:                            # of the store, of tarfile, of pyarrow
            if pause is None or isinstance(error, InputError) or is_gone(error, address):
                yield Found(piece.name, error=f"cannot read {piece.name!r}: {reason(error)}")
                return
            time.sleep(pause)


def stream(piece: Piece, address: str, column: str | None) -> Iterator[Found]:
    """The pictures of a container."""
    with open_binary(address) as file:
        if piece.name.partition("?")[0].lower().endswith(".parquet"):
            yield from table_pictures(file, piece, column)
            return
        mode = "r:" if piece.stop >= 0 and not is_remote(address) else "r|*"
        with tarfile.open(fileobj=file, mode=mode, tarinfo=Member) as tar:   # type: ignore[call-overload]
            stop = None if piece.stop < 0 else piece.stop
            for member in islice(picture_members(tar), piece.start, stop):
                yield member_picture(tar, member, piece.name)


def member_picture(tar: tarfile.TarFile, member: tarfile.TarInfo, archive: str) -> Found:
    """One picture of a tar."""
    name = public_text(f"{archive}#{member.name.removeprefix('./')}")
    if member.size > LARGEST:
        return Found(name, error=f"cannot read {name!r} as an image: it has {member.size / 1e6:,.0f} MB")
    content = tar.extractfile(member)
    return Found(name, content.read() if content else b"")


def table_pictures(file: object, piece: Piece, column: str | None) -> Iterator[Found]:
    """The pictures in some row groups of a Parquet file."""
    import pyarrow.parquet as pq

    table = pq.ParquetFile(file)
    chosen = picture_column(table.schema_arrow, column)
    names = next((name for name in PATHS if name != chosen and name in table.schema_arrow.names), None)
    stop = table.num_row_groups if piece.stop < 0 else piece.stop
    row = sum(table.metadata.row_group(number).num_rows for number in range(piece.start))
    for batch in table.iter_batches(16, list(range(piece.start, stop)), columns=list(filter(None, [chosen, names]))):
        for values in batch.to_pylist():
            value = values[chosen]
            inside = value if isinstance(value, dict) else {"bytes": value}
            name = public_text(str(values.get(names) or inside.get("path") or f"{piece.name}#{row}"))
            row += 1
            yield Found(name, inside.get("bytes") or None, f"cannot read {name!r} as an image: there are no bytes")
