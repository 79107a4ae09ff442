"""Many episodes over the same pictures, on one search: an episode reads the columns of its support pictures."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .base import DescriptorMethod, Method, compares_descriptors
from .descriptors import SupportPool, describe
from .neighbors import Matches, search, take
from .voting import partner_cosines


@dataclass(frozen=True)
class Pairs:
    """What every query picture finds in every support picture, a row for each pair, query-major."""

    cosines: Tensor     # (Q*n, M)  cos(q, NN_s(q)), with gradients
    partner: Tensor     # (Q*n, M)  the place of NN_s(q) in its picture
    answered: Tensor    # (Q*n, M)  whether NN_q(NN_s(q)) = q; empty for methods that do not ask
    support: int        # n
    places: int         # descriptors of a support picture


def can_share(method: Method, shots: int) -> bool:
    """Whether episodes of a method may share a search: every support picture is matched by itself, once."""
    return (compares_descriptors(method) and not method.takes_unlabelled and method.k == 1 and method.centre == "none"
            and (method.shots == "union" or shots == 1))


def match_pairs(method: DescriptorMethod, support: Tensor, query: Tensor) -> Pairs:
    """Search every support picture for the partners of every query picture: (n, C, H, W), (Q, C, H, W) -> Pairs."""
    there, here = describe(support, method.pyramid), describe(query, method.pyramid)   # (n, M', C), (Q, M, C)
    pool = apart(there)
    matches = search(here, pool, answers=False)
    cosines = partner_cosines(here, pool.descriptors, matches.class_best, matches.partner)       # (Q, M, n)
    partner = matches.partner % there.shape[1]                                         # (Q, M, n)
    answered = answers(here, there, partner) if method.answers else None
    return Pairs(by_pair(cosines), by_pair(partner), cosines.new_empty(0) if answered is None else by_pair(answered),
                 len(support), there.shape[1])


def apart(descriptors: Tensor) -> SupportPool:
    """A pool in which each picture is a class of its own: (n, M, C) -> SupportPool."""
    count, size = descriptors.shape[:2]
    places = torch.arange(count * size, device=descriptors.device)
    return SupportPool(descriptors.flatten(0, 1), [size] * count, places // size, places % size)


@torch.no_grad()
def answers(here: Tensor, there: Tensor, partner: Tensor) -> Tensor:
    """Whether NN_s(q)'s own nearest in the query picture is q: (Q, M, C), (n, M', C), (Q, M, n) -> bool (Q, M, n)."""
    back = search(there, apart(here), answers=False).partner % here.shape[1]           # (n, M', Q)
    chosen = back.permute(2, 1, 0).gather(1, partner)                                  # (Q, M, n)
    return chosen == torch.arange(here.shape[1], device=here.device)[:, None]


def by_pair(values: Tensor) -> Tensor:
    """A row for each pair of pictures: (Q, M, n) -> (Q*n, M)."""
    return values.mT.flatten(0, 1)


def score_shared(method: DescriptorMethod, pairs: Pairs, support: Tensor, labels: Tensor,
                 query: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of episodes over the pictures of `pairs`, as the method's own call gives them, and who voted.

    Places of support pictures (E, n') and their labels (n',), class-major, the same number of each class; places of
    query pictures (E, q) -> (E, q, N), bool (E, q, M).
    """
    ways = int(labels.max()) + 1
    rows = (query[:, :, None] * pairs.support + support[:, None]).flatten()            # (E*q*n',)

    def columns(values: Tensor) -> Tensor:
        return values.index_select(0, rows).view(query.numel(), ways, -1, values.shape[1])       # (E*q, N, K, M)

    best, shot = columns(pairs.cosines).max(2)                                         # (E*q, N, M) each
    partner = pick(columns(pairs.partner), shot) + pairs.places * shot                 # within the class
    shots = len(labels) // ways
    partner = partner + pairs.places * shots * torch.arange(ways, device=rows.device)[:, None]
    class_best = best.mT                                                               # (E*q, M, N)
    answered = pairs.answered
    if method.answers:
        answered = take(pick(columns(pairs.answered), shot).mT, class_best.detach().argmax(-1))  # (E*q, M)
    kept = method.keep(Matches(class_best.detach(), partner.mT, answered, len(labels) * pairs.places))
    scores = method.ballot(class_best, kept)                                           # (E*q, N)
    return scores.unflatten(0, query.shape), kept.unflatten(0, query.shape)


def pick(values: Tensor, shot: Tensor) -> Tensor:
    """The value of the chosen shot of each class: (R, N, K, M), (R, N, M) -> (R, N, M)."""
    return values.gather(2, shot[:, :, None]).squeeze(2)
