"""The work in numbered units: which pictures each one holds is settled once, and kept beside the rows."""

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .addresses import is_remote

if TYPE_CHECKING:
    import pyarrow as pa

MOST, LEAST = 2048, 32                                        # pictures in a unit
SHARES = 64                                                   # units that a run has at least, if it is large enough
CONTAINERS = (".tar", ".tar.gz", ".tgz", ".parquet")


class Piece(NamedTuple):
    """A picture, or a part of a file that holds many: members of a tar, row groups of a Parquet file."""

    name: str                                                 # as the rows say it, without credentials
    start: int = 0
    stop: int = -1                                            # -1: to the end

    @property
    def is_container(self) -> bool:
        """Whether it holds many pictures."""
        return self.name.partition("?")[0].lower().endswith(CONTAINERS)


@dataclass(frozen=True)
class Unit:
    """What a worker judges at a time; its rows are one part of the output."""

    number: int
    pieces: Sequence[Piece]
    addresses: dict[str, str]                                 # of the names that are not addresses themselves
    home: str                                                 # the folder that relative paths start from
    column: str | None = None                                 # of a Parquet file: where the pictures are
    deadly: frozenset[int] = frozenset()                      # places of pictures whose decoding ends its process

    def address(self, piece: Piece) -> str:
        """Where to read a piece."""
        address = self.addresses.get(piece.name, piece.name)
        return address if is_remote(address) else os.path.join(self.home, address)


def size_of_units(pictures: int) -> int:
    """Pictures in a unit: few enough that there is work for many, many enough that parts are no crumbs."""
    return min(MOST, max(LEAST, -(-pictures // SHARES)))


def grouped(pieces: Iterable[Piece], size: int) -> Iterator[list[Piece]]:
    """The pieces of each unit: up to `size` pictures, or one container."""
    pictures: list[Piece] = []
    for piece in pieces:
        if piece.is_container:
            yield [piece]
            continue
        pictures.append(piece)
        if len(pictures) == size:
            yield pictures
            pictures = []
    if pictures:
        yield pictures


class Plan:
    """Every unit of a run, a few dozen bytes a picture."""

    def __init__(self, table: "pa.Table | None" = None) -> None:
        import pyarrow as pa

        schema = pa.schema([("unit", pa.int32()), ("name", pa.large_string()), ("start", pa.int32()),
                            ("stop", pa.int32())])
        self.table = schema.empty_table() if table is None else table.cast(schema)

    def __len__(self) -> int:
        return self.table["unit"][-1].as_py() + 1 if len(self.table) else 0

    def extended(self, pieces: Iterable[Piece], size: int) -> "Plan":
        """This plan and, in further units, the pieces that it does not hold yet."""
        import pyarrow as pa

        known = set(zip(*(self.table[name].to_pylist() for name in ("name", "start", "stop")), strict=True))
        fresh = (piece for piece in dict.fromkeys(pieces) if piece not in known)
        tables = [self.table]
        for number, unit in enumerate(grouped(fresh, size), len(self)):
            names, starts, stops = zip(*unit, strict=True)
            tables.append(pa.table([[number] * len(unit), names, starts, stops], schema=self.table.schema))
        return Plan(pa.concat_tables(tables))

    def units(self, done: set[int], addresses: dict[str, str], column: str | None = None) -> Iterator[Unit]:
        """The units that are not done yet, in order."""
        numbers = self.table["unit"].to_numpy()
        starts = numbers.searchsorted(range(len(self) + 1))
        for number in range(len(self)):
            if number not in done:
                rows = self.table.slice(starts[number], starts[number + 1] - starts[number]).drop(["unit"])
                pieces = [Piece(*values) for values in zip(*rows.to_pydict().values(), strict=True)]
                of_unit = {piece.name: addresses[piece.name] for piece in pieces if piece.name in addresses}
                yield Unit(number, pieces, of_unit, os.getcwd(), column)

    def pictures(self, done: set[int]) -> int:
        """Pictures in the units that are not done, as far as it is known: a whole container counts as one."""
        rows = self.table.to_pydict()
        return sum(max(stop - start, 1) for number, start, stop in
                   zip(rows["unit"], rows["start"], rows["stop"], strict=True) if number not in done)

    def to_bytes(self) -> bytes:
        """The plan as a Parquet file."""
        import pyarrow.parquet as pq

        out = io.BytesIO()
        pq.write_table(self.table, out, compression="zstd")
        return out.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Plan":
        """The plan that `to_bytes` wrote."""
        import pyarrow.parquet as pq

        return cls(pq.read_table(io.BytesIO(content)))


