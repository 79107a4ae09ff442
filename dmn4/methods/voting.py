"""How the kept descriptors vote: Eq. 5, Eq. 10, Eq. 13."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..errors import InputError
from .neighbors import first_argmax


def nbnn(class_best: Tensor, kept: Tensor) -> Tensor:
    """phi(x, c), the summed cosines to each class (Eq. 5): (Q, M, N), bool (Q, M) -> (Q, N)."""
    return torch.einsum("qmn,qm->qn", class_best, kept.to(class_best.dtype))


def log_odds(class_best: Tensor, kept: Tensor) -> Tensor:
    """The summed leads of each class over the best other one (Eq. 10): (Q, M, N), bool (Q, M) -> (Q, N)."""
    if class_best.shape[-1] < 2:
        raise InputError("the log-odds vote compares two classes; the support set holds one")
    first, second = class_best.topk(2, dim=-1).values.split(1, dim=-1)                  # (Q, M, 1) each
    is_winner = F.one_hot(class_best.detach().argmax(-1), class_best.shape[-1]).bool()  # (Q, M, N)
    return nbnn(class_best - torch.where(is_winner, second, first), kept)


def rank(class_best: Tensor, kept: Tensor) -> Tensor:
    """How many kept descriptors are nearest to each class (Eq. 13): (Q, M, N), bool (Q, M) -> (Q, N).

    Equal counts are ordered by the summed cosines: a fraction below one half is added. For evaluation: no gradient.
    """
    class_best = class_best.detach()
    ways = class_best.shape[-1]
    counts = nbnn(F.one_hot(first_argmax(class_best), ways).to(class_best.dtype), kept)   # (Q, N)
    sums = nbnn(class_best, kept)                                                         # (Q, N)
    smaller = torch.searchsorted(sums.sort(-1).values, sums)                              # (Q, N)  classes behind it
    return counts + smaller / (2 * ways)


VOTES = {"nbnn": nbnn, "log-odds": log_odds, "rank": rank}


def partner_cosines(query: Tensor, pool: Tensor, cosines: Tensor, partner: Tensor) -> Tensor:
    """The cosines that a search found, with gradients to both partners: (Q, M, C), (S, C) -> (Q, M, ...), as found.

    A maximum passes its gradient to its argmax alone, so these are the gradients through the dense similarities.
    """
    if not with_graph(query, pool):
        return cosines
    cosines_with_graph: Tensor = _PartnerCosines.apply(query, pool, cosines, partner)  # type: ignore[no-untyped-call]
    return cosines_with_graph


def with_graph(*tensors: Tensor) -> bool:
    """Whether autograd will want gradients to any of the tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class _PartnerCosines(torch.autograd.Function):
    """The cosines as given; backwards, each is the product of two partners. Pairs nobody weighed are not touched."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, pool: Tensor, class_best: Tensor, partner: Tensor) -> Tensor:
        ctx.save_for_backward(query, pool, partner)
        return class_best.view_as(class_best)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        query, pool, partner = ctx.saved_tensors
        grad, partner = grad.flatten(2).flatten(0, 1), partner.flatten(2).flatten(0, 1)    # (Q*M, N*k) each
        rows = grad.any(1).nonzero().squeeze(1)                                        # (P,)  kept descriptors
        weight, place = grad[rows], partner[rows]                                      # (P, N*k) each
        kept = query.flatten(0, 1)[rows]                                               # (P, C)
        to_query = torch.zeros_like(query)
        to_query.view(-1, query.shape[-1])[rows] = F.embedding_bag(place, pool, per_sample_weights=weight, mode="sum")
        pushed = (weight[:, :, None] * kept[:, None]).flatten(0, 1)                    # (P*N, C)
        return to_query, torch.zeros_like(pool).index_add_(0, place.flatten(), pushed), None, None
