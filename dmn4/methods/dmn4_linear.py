"""dmn4-linear: what discriminative mutual neighbours vote, and what a linear head on the pooled map says, in one score.

The vote is local and shows what matched what; the head sees the whole and gains with many shots and many classes. Both
are sums over the places of the map.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import InputError
from .base import Law, Learnt
from .checks import positive
from .descriptors import SupportPool
from .dmn4 import DMN4
from .linear_head import LinearHead, fit_head
from .vectors import pooled


@dataclass(frozen=True, kw_only=True)
class PoolWithHead(SupportPool):
    """A support pool beside the head that was fitted to the same pictures."""

    head: LinearHead


class DMN4Linear(DMN4):
    """The mean vote of a place plus `linear` times the head's score.

    `compared`: how many channels are compared, the first ones (0: all); the head reads all of them, those that are
    compared and the rest as two blocks of equal weight. `prior`: see `fit_head`.
    """

    any_size = False
    only_votes = False
    law = Law(-1.77, -0.12, -0.51)                        # docs/results/photo-temperature.md

    def __init__(self, channels: int | None = None, vote: str = "log-odds", shots: str = "union",
                 temperature: float = 1.0, pyramid: str = "", centre: str = "none", compared: int = 0,
                 linear: float = 1.0, prior: float = 100.0) -> None:
        super().__init__(channels, vote, shots, temperature, pyramid, centre)
        if compared < 0 or linear < 0:
            raise InputError(f"compared is {compared} and linear is {linear}; neither may be below 0")
        self.compared, self.linear, self.prior = compared, linear, positive("prior", prior)
        if vote == "log-odds" and linear == 1:
            self.temperature_law = self.law._replace(start=self.law.start - math.log(temperature))

    def derive(self, support: Tensor, labels: Tensor) -> PoolWithHead:
        pool = super().derive(self.matched(support), labels)
        return PoolWithHead(**vars(pool), head=self.head(pooled(support), labels))

    def learn_kept(self, maps: Tensor, means: Tensor, labels: Tensor, **more: Tensor) -> Learnt:
        learnt = self.learn(maps, labels, **more)
        whole = replace(learnt.derived, head=self.head(means, labels.to(means.device)))
        return Learnt(whole, torch.Size([means.shape[1], *learnt.shape[1:]]))

    def head_in(self, learnt: Learnt) -> LinearHead:
        head: LinearHead = learnt.derived.head
        return head

    def narrowed(self, maps: Tensor, labels: Tensor, middle: Tensor, head: LinearHead, classes: Tensor) -> PoolWithHead:
        return PoolWithHead(**vars(super().narrowed(maps, labels, middle, head, classes)), head=head.some(classes))

    def head(self, means: Tensor, labels: Tensor) -> LinearHead:
        """The linear head for the means of labelled maps: (n, C), (n,) -> LinearHead."""
        rest = means.shape[1] - self.compared
        blocks = [self.compared, rest] if self.compared and rest else [means.shape[1]]
        return fit_head(means, labels, blocks, self.prior)

    def matched(self, maps: Tensor) -> Tensor:
        """The channels whose descriptors are compared: (B, C, H, W) -> (B, compared, H, W)."""
        if self.compared > maps.shape[1]:
            raise InputError(f"compared is {self.compared}, but the maps have {maps.shape[1]} channels")
        return maps[:, : self.compared] if self.compared else maps

    def describe(self, query: Tensor, pool: SupportPool) -> Tensor:
        return super().describe(self.matched(query), pool)

    def score(self, pool: SupportPool, query: Tensor) -> Tensor:
        return self.votes_and_head(pool, self.matched(query), pooled(query))

    def answer_kept(self, learnt: Learnt, maps: Tensor, means: Tensor) -> Tensor:
        return self.votes_and_head(learnt.derived, maps, means)

    def answer_matched(self, learnt: Learnt, class_best: Tensor, kept: Tensor, means: Tensor) -> Tensor:
        return self.with_head(learnt.derived, super().answer_matched(learnt, class_best, kept, means), means)

    def votes_and_head(self, pool: SupportPool, maps: Tensor, means: Tensor) -> Tensor:
        """Both parts in one score: SupportPool, (Q, compared, H, W), (Q, C) -> (Q, N)."""
        return self.with_head(pool, super().score(pool, maps), means)

    def with_head(self, pool: SupportPool, votes: Tensor, means: Tensor) -> Tensor:
        """Votes and what the head adds to them: SupportPool, (Q, N), (Q, C) -> (Q, N)."""
        assert isinstance(pool, PoolWithHead)
        return votes + self.linear * pool.head.scores(means) / self.temperature

    def ballot(self, class_best: Tensor, kept: Tensor) -> Tensor:
        """The mean over all places, those that were not kept among them: (Q, M, N), bool (Q, M) -> (Q, N)."""
        return super().ballot(class_best, kept) / class_best.shape[1]

    def unit(self, places: int) -> float:
        return places * self.temperature

    def shares(self, pool: SupportPool, query: Tensor) -> Tensor:
        assert isinstance(pool, PoolWithHead)
        return self.linear * pool.head.shares(query) / self.temperature
