"""One vector per image: how a feature map is pooled, how shots are averaged, how near two vectors are."""

from collections.abc import Callable

import torch
from torch import Tensor

from .descriptors import unit


def pooled(maps: Tensor) -> Tensor:
    """The mean over locations of each map: (n, C, H, W) -> (n, C)."""
    return maps.mean((-2, -1))


def peaks(maps: Tensor) -> Tensor:
    """The largest entry of each channel of each map: (n, C, H, W) -> (n, C)."""
    return maps.amax((-2, -1))


def flat(maps: Tensor) -> Tensor:
    """All entries of each map in a row: (n, C, H, W) -> (n, C H W)."""
    return maps.flatten(1)


VECTORS: dict[str, Callable[[Tensor], Tensor]] = {"gap": pooled, "flat": flat}


def class_means(rows: Tensor, labels: Tensor) -> Tensor:
    """The mean row of each class, whatever its number of shots: (n, d), (n,) -> (N, d)."""
    counts = torch.bincount(labels)                                     # (N,)
    sums = rows.new_zeros(len(counts), rows.shape[1]).index_add(0, labels, rows)
    return sums / counts[:, None]


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """How far every row of `a` is from every row of `b`, squared, never below 0: (Q, d), (N, d) -> (Q, N)."""
    squares = a.square().sum(1)[:, None] + b.square().sum(1)            # (Q, N)
    return (squares - 2 * a @ b.T).clamp(min=0)


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of every row of `a` with every row of `b`: (..., d), (N, d) -> (..., N)."""
    return unit(a) @ unit(b).T
