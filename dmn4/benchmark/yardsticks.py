"""What the methods are measured against: the bare matrix products of their search, and the plain dense formulation."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..methods.blocks import align, block_shape, similarities
from ..methods.descriptors import describe, pool_support
from ..methods.threads import share_out


def bare_products(support: Tensor, labels: Tensor, query: Tensor) -> Callable[[], Any]:
    """The floor: the matrix products of the search, in the same blocks, and nothing else."""
    images = describe(query)
    pool, _ = align(pool_support(support, labels), images.shape[0] * images.shape[1])
    number, columns = block_shape(images, pool)

    def multiply(block: Tensor, room: Tensor) -> None:
        for _ in similarities(block, pool, columns, room):
            pass

    return lambda: share_out(multiply, images.split(number), number * images.shape[1] * columns)


def dense_scores(support: Tensor, labels: Tensor, query: Tensor, rule: str) -> Tensor:
    """phi(x, c) as one reads the paper: the whole similarity tensor, maxima with indices, one-hot columns -> (Q, N)."""
    ways = int(labels.max()) + 1
    pool = describe(support).flatten(0, 1)                                                    # (S, C)
    similarity = describe(query) @ pool.T                                                     # (Q, M, S)
    class_best = similarity.unflatten(2, (ways, -1)).max(-1).values                           # (Q, M, N)
    scores: Tensor
    if rule == "dn4":
        scores = class_best.sum(1)
        return scores
    nearest = similarity.max(2).indices                                                       # (Q, M)
    if rule == "mn4":
        column = similarity
    else:
        first, second = class_best.topk(2, dim=-1).values.unbind(-1)                          # (Q, M) each
        chose = F.one_hot(nearest, len(pool)).bool()                                          # (Q, M, S)
        column = torch.where(chose, (first - second)[..., None], -torch.inf)                  # (Q, M, S)
    back = column.max(1).indices                                                              # (Q, S)
    kept = back.gather(1, nearest) == torch.arange(nearest.shape[1], device=nearest.device)   # (Q, M)
    scores = (class_best * kept[..., None]).sum(1)
    return scores
