"""Unlabelled descriptors join the class of the support descriptor that they match (Sec. 4.5)."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .descriptors import SupportPool
from .neighbors import Matches, search


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
    return replace(
        pool,
        descriptors=torch.cat([pool.descriptors, unlabelled.flatten(0, 1)[adopted]])[order],
        counts=owner.bincount().tolist(),
        rows=torch.cat([pool.rows, pool.rows.max() + 1 + image])[order],
        places=torch.cat([pool.places, place])[order],
    )


def search_set(images: Tensor, pool: SupportPool, answers: bool = True) -> Matches:
    """Match many images with the pool as if they were one: (U, M, C), SupportPool -> Matches with Q = 1, M = U*M.

    A descriptor chooses whoever else is in the set; whether it is answered depends on all of them.
    """
    alone = search(images, pool, answers=False)
    whole = replace(alone, class_best=alone.class_best.flatten(0, 1)[None], partner=alone.partner.flatten(0, 1)[None])
    return replace(whole, answered=answer_set(images, pool, whole.chosen[0])[None]) if answers else whole


@torch.no_grad()
def answer_set(images: Tensor, pool: SupportPool, chosen: Tensor) -> Tensor:
    """Whether each one is the first of those nearest to its choice: (U, M, C), (U*M,) -> bool (U*M,).

    The search the other way round, by those that were chosen: the images are its classes.
    """
    count, size = images.shape[:2]
    itself = torch.arange(count * size, device=images.device)                        # (U*M,)
    everyone = SupportPool(images.flatten(0, 1), [size] * count, itself // size, itself % size)
    partners, place = chosen.unique(return_inverse=True)                             # (A,), (U*M,)
    back = search(pool.descriptors[partners][:, None], everyone, answers=False).chosen[:, 0]  # (A,)
    return back[place] == itself
