"""Several rules, votes and shares on one search: the ablation tables of the paper cost one search, not nine."""

from collections.abc import Mapping

import torch
from torch import Tensor

from .base import DescriptorMethod, images_at_once
from .checks import check_query, checked_labels
from .descriptors import SupportPool
from .neighbors import search


@torch.no_grad()
def score_together(support: Tensor, labels: Tensor, query: Tensor,
                variants: Mapping[str, DescriptorMethod]) -> dict[str, Tensor]:
    """The scores (Q, N) of each variant, as its own call gives them, from as few searches as possible.

    Variants that combine shots alike and have the same pyramid and centre share a search; one with k > 1, or whose
    scores are more than votes, needs its own.
    """
    labels = checked_labels(support, labels)
    check_query(support.shape[1:], query, any_size=True)
    scores: dict[str, Tensor] = {}
    for group in grouped(variants):
        name, first = next(iter(group.items()))
        pool = first.derive(support, labels)
        if len(group) == 1:
            scores[name] = first.score(pool, query)
            continue
        described = first.describe(query, pool)                                        # (Q, M, C)
        parts = [score_part(part, pool, group) for part in described.split(images_at_once(described, pool))]
        scores |= {name: torch.cat([part[name] for part in parts]) for name in group}
    return {name: scores[name] for name in variants}


def grouped(variants: Mapping[str, DescriptorMethod]) -> list[dict[str, DescriptorMethod]]:
    """The variants by what their search depends on."""
    groups: dict[tuple[object, ...], dict[str, DescriptorMethod]] = {}
    for name, method in variants.items():
        alone = "" if method.only_votes else name
        groups.setdefault((method.shots, method.pyramid, method.centre, method.k, alone), {})[name] = method
    return list(groups.values())


def score_part(query: Tensor, pool: SupportPool, group: Mapping[str, DescriptorMethod]) -> dict[str, Tensor]:
    """The scores of one group on one search: (Q, M, C), SupportPool -> name: (Q, N)."""
    if any(method.k > 1 for method in group.values()):
        return {name: method.phi(query, pool) for name, method in group.items()}
    matches = search(query, pool, partners=any(method.partners for method in group.values()),
                     answers=any(method.answers for method in group.values()))
    return {name: method.ballot(matches.class_best, method.keep(matches)) for name, method in group.items()}
