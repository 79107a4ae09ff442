"""Unlabelled descriptors join the class of the support descriptor that they match (Sec. 4.5)."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from .descriptors import SupportPool
from .neighbors import Chunk, Matches, block_shape, search, search_block, similarities


def adopt(pool: SupportPool, unlabelled: Tensor, keep: Callable[[Matches], Tensor],
          answers: bool = True) -> SupportPool:
    """The pool with every unlabelled descriptor that `keep` marks, in its partner's class: (U, M, C) -> SupportPool.

    The unlabelled images are matched as one, so that a support descriptor adopts at most one descriptor. Adopted ones
    carry gradients, the choice does not. Their `rows` count on from those of the support images.
    """
    if not unlabelled.numel():
        return pool
    matches = search_set(unlabelled, pool, answers)
    adopted = keep(matches)[0].nonzero().squeeze(1)                                  # (A,)
    image, place = adopted // unlabelled.shape[1], adopted % unlabelled.shape[1]     # (A,) each
    owner = torch.cat([pool.owner, pool.owner[matches.chosen[0, adopted]]])          # (S + A,)
    order = owner.argsort(stable=True)                                               # class-major, support first
    return SupportPool(
        descriptors=torch.cat([pool.descriptors, unlabelled.flatten(0, 1)[adopted]])[order],
        counts=owner.bincount().tolist(),
        rows=torch.cat([pool.rows, pool.rows.max() + 1 + image])[order],
        places=torch.cat([pool.places, place])[order],
    )


def search_set(images: Tensor, pool: SupportPool, answers: bool = True) -> Matches:
    """Match many images with the pool as if they were one: (U, M, C), SupportPool -> Matches with Q = 1, M = U*M.

    A few images at a time: the (U*M, S) similarities, gigabytes for hundreds of images, never exist.
    """
    if answers:
        return search_jointly(images, pool)
    alone = search(images, pool, partners=False, answers=False)     # a descriptor chooses whoever else is in the set
    return replace(alone, class_best=alone.class_best.flatten(0, 1)[None], partner=alone.partner.flatten(0, 1)[None])


@torch.no_grad()
def search_jointly(images: Tensor, pool: SupportPool) -> Matches:
    """As `search_set`, with answers from the whole set.

    A support descriptor answers the first of those nearest to it. That one is the first of the nearest in its block,
    nearer than all before the block, and no less near than the nearest of all.
    """
    step, columns = block_shape(images, pool)
    room = images.new_empty(step * images.shape[1] * columns)
    peaks = images.new_full((len(pool.descriptors),), -torch.inf)   # (S,)  the largest cosines so far
    parts = []
    for block in images.split(step):
        before = peaks.clone()
        blocks = similarities(block.flatten(0, 1)[None], pool, columns, room)
        best, chosen, answered = search_block(raise_peaks(peaks, blocks), partners=False, choices=True, answers=True)
        part = Matches(best, chosen, answered, len(peaks))
        parts.append((best, chosen, answered & (part.nearest > before[part.chosen])))
    best, chosen, answered = (torch.cat(column, dim=1) for column in zip(*parts, strict=True))
    whole = Matches(best, chosen, answered, len(peaks))
    return replace(whole, answered=answered & (whole.nearest == peaks[whole.chosen]))


def raise_peaks(peaks: Tensor, blocks: Iterator[tuple[Chunk, Tensor]]) -> Iterator[tuple[Chunk, Tensor]]:
    """The blocks (1, R, n, s) as they come; on the way `peaks` (S,) rises to the largest cosine of each column."""
    for chunk, cosines in blocks:
        own = peaks[chunk.start : chunk.start + chunk.classes * chunk.size]
        torch.maximum(own, cosines[0].flatten(1).amax(0), out=own)
        yield chunk, cosines
