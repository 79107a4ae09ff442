"""The labelled pictures of a classifier as JPEG bytes, to be shown: each is read when it is looked at."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import torch
from torch import Tensor


class Pictures(Sequence[bytes]):
    """JPEG bytes in a row, in memory or mapped from a file."""

    def __init__(self, contents: Iterable[bytes | memoryview] = ()) -> None:
        self.contents = list(contents)

    @classmethod
    def unpacked(cls, joined: Tensor, ends: Tensor) -> "Pictures":
        """The pictures that lie in a row, not copied: bytes (total,), ends (n,)."""
        content = joined.numpy().data
        return cls(content[start:end] for start, end in pairwise([0, *ends.tolist()]))

    @property
    def ends(self) -> Tensor:
        """Where each picture ends if they lie in a row -> (n,)."""
        return torch.tensor([len(content) for content in self.contents], dtype=torch.long).cumsum(0)

    def chosen(self, rows: Iterable[int]) -> "Pictures":
        """Some of the pictures, in this order."""
        return Pictures(self.contents[row] for row in rows)

    def __len__(self) -> int:
        return len(self.contents)

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> list[bytes]: ...

    def __getitem__(self, row: int | slice) -> bytes | list[bytes]:
        if isinstance(row, slice):
            return [bytes(content) for content in self.contents[row]]
        return bytes(self.contents[row])

    def __iter__(self) -> Iterator[bytes]:
        return map(bytes, self.contents)

    def __add__(self, others: Iterable[bytes]) -> "Pictures":
        more = others.contents if isinstance(others, Pictures) else others
        return Pictures([*self.contents, *more])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None                                           # type: ignore[assignment]

    def __reduce__(self) -> tuple[type["Pictures"], tuple[list[bytes]]]:
        return Pictures, (list(self),)                        # a view of a file cannot be pickled
