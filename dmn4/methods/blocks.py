"""Blocks of cosines small enough to stay in the cache: some images, and the pool a few classes at a time."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from .descriptors import SupportPool

CPU_BLOCK = 4 << 20      # bytes of similarities at a time: what stays in the cache
TALL = 722               # rows of a product: with fewer it is slow
CACHE_LINE = 16          # numbers
WORTHWHILE = 20          # columns that may pay for one more
FEW_ROWS = 200


class Chunk(NamedTuple):
    """Consecutive classes with equally many descriptors: a block of columns of the similarities."""

    classes: int   # how many
    size: int      # descriptors of each
    start: int     # place of the first in the pool

    def starts(self, device: torch.device) -> Tensor:
        """The place of each class's first descriptor -> (n,)."""
        return self.start + self.size * torch.arange(self.classes, device=device)


def align(pool: SupportPool, wanted: int) -> tuple[SupportPool, Tensor]:
    """The pool with whole cache lines for each class, filled up with its last descriptor; whom each stands for.

    On a CPU the rows of a product are written and read faster if they begin where a cache line begins. Of equals the
    first is found, so that a repeated descriptor never is. Small classes would grow too much and stay as they are, and
    for few rows, `asked` of them, the copy costs more than it saves.
    """
    counts = torch.tensor(pool.counts, device=pool.descriptors.device)                       # (N,)
    gaps = -counts % CACHE_LINE                                                              # (N,)
    itself = torch.arange(len(pool.descriptors), device=counts.device)                       # (S,)
    if pool.descriptors.is_cuda or wanted < FEW_ROWS or (gaps * WORTHWHILE > counts).any():
        return pool, itself
    last = itself.new_zeros(len(itself)).index_fill_(0, counts.cumsum(0) - 1, 1)             # (S,)
    stands_for = itself.repeat_interleave(1 + last * gaps.repeat_interleave(counts))         # (S',)
    return replace(pool, descriptors=pool.descriptors[stands_for], counts=(counts + gaps).tolist(),
                   rows=pool.rows[stands_for], places=pool.places[stands_for]), stands_for


def block_shape(query: Tensor, pool: SupportPool) -> tuple[int, int]:
    """How many query images and pool descriptors to compare at a time: (Q, M, C) -> images, columns.

    A block fits the cache, or a share of a GPU's memory: as many images as do with the whole pool, but no fewer rows
    than make a good product, which is then matched a few classes at a time. So the (Q, M, S) tensor never exists.
    """
    budget = torch.cuda.mem_get_info(query.device)[0] // 8 if query.is_cuda else CPU_BLOCK
    pairs, size = budget // query.element_size(), len(pool.descriptors)
    rows = max(pairs // size, min(TALL, pairs))
    images = min(max(1, rows // query.shape[1]), max(1, len(query)))
    return images, min(size, max(*pool.counts, pairs // (images * query.shape[1])))


def similarities(query: Tensor, pool: SupportPool, columns: int, room: Tensor) -> Iterator[tuple[Chunk, Tensor]]:
    """Cosines of a few images with a few classes at a time, all in the same room: (b, M, C) -> (b, M, n, s)."""
    rows = query.flatten(0, 1)                                                               # (b*M, C)
    for chunk in chunks(pool.counts, columns):
        width = chunk.classes * chunk.size
        product = room[: len(rows) * width].view(len(rows), width)
        torch.mm(rows, pool.descriptors[chunk.start : chunk.start + width].T, out=product)
        yield chunk, product.view(*query.shape[:2], chunk.classes, chunk.size)


def chunks(counts: list[int], columns: int) -> Iterator[Chunk]:
    """The classes of a pool in runs of equal size, none wider than `columns` unless a class is."""
    first, start = 0, 0
    while first < len(counts):
        size, last = counts[first], first + 1
        while last < len(counts) and counts[last] == size and (last + 1 - first) * size <= columns:
            last += 1
        yield Chunk(last - first, size, start)
        first, start = last, start + (last - first) * size
