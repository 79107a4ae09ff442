"""What every method shares: the call and its checks; and what every descriptor method shares: search, keep, vote."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import choose
from .checks import check_query, checked_labels, positive
from .descriptors import CENTRES, SHOTS, SupportPool, describe, pool_support, pyramid_sides
from .linear_head import LinearHead, fit_head
from .neighbors import Matches, search
from .voting import VOTES, partner_cosines, with_graph

HEAD_PRIOR = 100.0     # of the linear head beside methods that have none
MATCHES_BYTES = 32 << 20     # what the matches of the queries scored at a time may take: thousands of ways are streamed


class Law(NamedTuple):
    """The best temperature, as measured: exp(start + by_ways log N + by_shots log K), whatever the pictures."""

    start: float
    by_ways: float
    by_shots: float

    def power(self, ways: int, shots: float) -> float:
        """The log of the temperature; `shots`: pictures of a class, on average."""
        return self.start + self.by_ways * math.log(ways) + self.by_shots * math.log(shots)


class Learnt(NamedTuple):
    """What a method derived from labelled maps."""

    derived: Any           # of a kind that the method alone knows
    shape: torch.Size      # (C, H, W) of the maps


class Method(nn.Module):
    """Feature maps of a few labelled images and of some queries -> class scores; no state between calls.

    A call is `answer(learn(support, labels), query)`. A method says what it can and needs by plain attributes:
    `views`, the extra pictures of each support image ("flip", "crop"), embedded and appended as further rows;
    `views_shots`, up to how many shots a class has they are wanted (None: always);
    `needs_training`, whether it holds layers that are noise until they have been trained;
    `any_size`, whether support and query maps may differ in height and width;
    `reads_means`, whether it reads nothing of a map but the mean over its locations;
    `compares_descriptors`, whether it is a DescriptorMethod, whose matches can be shown;
    `takes_unlabelled`, whether it also learns from unlabelled maps;
    `adapts`, whether it trains the backbone for an episode: `adapt`, and `learn_adapted` for backbone and head;
    `smooths`, whether its loss takes label smoothing;
    `compared`, how many channels of a labelled picture's map it compares; of the others it reads the mean (0: all);
    `temperature_law`, what temperature makes its scores probabilities, if that does not depend on the pictures;
    `vectorised`, whether `torch.vmap` can score many episodes in one call: no step of it looks at a value.
    """

    views: tuple[str, ...] = ()
    views_shots: int | None = None
    needs_training: bool = False
    any_size: bool = False
    reads_means: bool = False
    compares_descriptors: bool = False
    takes_unlabelled: bool = False
    adapts: bool = False
    smooths: bool = True
    vectorised: bool = False
    compared: int = 0
    temperature_law: "Law | None" = None
    __call__: Callable[..., Tensor]                           # nn.Module says Any

    def __init__(self, channels: int | None = None) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Class scores of each query image: (n, C, H, W), (n,), (Q, C, H, W) -> (Q, N)."""
        return self.answer(self.learn(support, labels), query)

    def learn(self, support: Tensor, labels: Tensor) -> Learnt:
        """What the method derives from the labelled maps, once for any number of queries: (n, C, H, W), (n,)."""
        labels = checked_labels(support, labels)
        return Learnt(self.derive(support, labels), support.shape[1:])

    def answer(self, learnt: Learnt, query: Tensor) -> Tensor:
        """Class scores of each query image: Learnt, (Q, C, H, W) -> (Q, N)."""
        check_query(learnt.shape, query, self.any_size)
        return self.score(learnt.derived, query)

    def learn_kept(self, maps: Tensor, means: Tensor, labels: Tensor, **more: Tensor) -> Learnt:
        """`learn` from what is kept of labelled pictures: the compared channels of their maps, the means of all.

        (n, compared, H, W), (n, C), (n,) -> Learnt.
        """
        return self.learn(maps, labels, **more)

    def answer_kept(self, learnt: Learnt, maps: Tensor, means: Tensor) -> Tensor:
        """`answer` for pictures of which as much is kept: Learnt, (Q, compared, H, W), (Q, C) -> (Q, N)."""
        return self.answer(learnt, maps)

    def head_in(self, learnt: Learnt) -> LinearHead | None:
        """The linear head on means that the method has learnt among other things, or None."""
        return None

    def derive(self, support: Tensor, labels: Tensor) -> Any:
        """The first half of the method, on checked maps: a pool, class means, a fitted head: (n, C, H, W), (n,)."""
        raise NotImplementedError

    def score(self, derived: Any, query: Tensor) -> Tensor:
        """The second half, on what `derive` returned: (Q, C, H, W) -> (Q, N)."""
        raise NotImplementedError

    def score_many(self, support: Tensor, labels: Tensor, query: Tensor, **extra: Tensor) -> Tensor:
        """The scores of episodes with the same labels: (E, n, C, H, W), (n,), (E, Q, C, H, W) -> (E, Q, N).

        `extra` are further arguments of the method's call, one of each an episode.
        """
        if self.vectorised and len(support) > 1:
            checked_labels(support.flatten(0, 1), labels.repeat(len(support)))
            check_query(support.shape[2:], query.flatten(0, 1), self.any_size)
            return torch.vmap(lambda shots, queries: self.score(self.derive(shots, labels), queries))(support, query)
        return torch.stack([self(shots, labels, queries, **dict(zip(extra, more, strict=True)))
                            for shots, queries, *more in zip(support, query, *extra.values(), strict=True)])

    def views_at(self, shots: int) -> tuple[str, ...]:
        """The extra pictures of each support image that the method wants at this number of shots."""
        return self.views if self.views_shots is None or shots <= self.views_shots else ()

    def loss(self, scores: Tensor, query_labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """What training minimises: cross-entropy (Eq. 6, 7) unless the method's paper says otherwise."""
        return F.cross_entropy(scores, query_labels, label_smoothing=smoothing)

    def auxiliary(self, support: Tensor, labels: Tensor, query: Tensor, query_labels: Tensor) -> Tensor | None:
        """A loss that the method's paper adds while training, or None."""
        return None


class DescriptorMethod(Method):
    """Naive-Bayes nearest neighbour over the query descriptors q* that `keep` marks."""

    any_size = True
    compares_descriptors = True
    k: int = 1          # nearest neighbours in each class that are summed
    partners = True     # what the search has to find besides the class maxima: whose they are,
    answers = False     # and whether the nearest of all answers
    only_votes = True   # whether the scores are the votes and nothing else, so that methods can share a search

    def __init__(self, channels: int | None = None, vote: str = "nbnn", shots: str = "union", temperature: float = 1.0,
                 pyramid: str = "", centre: str = "none") -> None:
        super().__init__(channels)
        self.vote, self.shots = choose("vote", vote, VOTES), choose("shots", shots, SHOTS)
        self.temperature, self.pyramid = positive("temperature", temperature), pyramid
        self.centre = choose("centre", centre, CENTRES)
        pyramid_sides(pyramid)

    def derive(self, support: Tensor, labels: Tensor) -> SupportPool:
        """The support pool as this method's options make it: (n, C, H, W), (n,) -> SupportPool."""
        return pool_support(support, labels, self.shots, self.pyramid, self.centre)

    def narrowed(self, maps: Tensor, labels: Tensor, middle: Tensor, head: LinearHead, classes: Tensor) -> SupportPool:
        """What `derive` returns, for some of the classes, measured from the middle of all of them.

        Maps of these classes (n, C, H, W) with labels 0..L-1 (n,), the mean of the class means and the linear head of
        all classes, and which of them these are, ascending (L,).
        """
        known = middle[: maps.shape[1]] if self.centre == "shots" else None
        return pool_support(maps, labels, self.shots, self.pyramid, self.centre, known)

    def head(self, means: Tensor, labels: Tensor) -> LinearHead:
        """The linear head that names the classes worth a close look: (n, C), (n,) -> LinearHead."""
        return fit_head(means, labels, [means.shape[1]], HEAD_PRIOR)

    def describe(self, query: Tensor, pool: SupportPool) -> Tensor:
        """Descriptors to be matched with a pool: (Q, C, H, W), SupportPool -> (Q, M, C)."""
        return describe(query, self.pyramid, pool.centre)

    def score(self, pool: SupportPool, query: Tensor) -> Tensor:
        """The scores of query maps against a support pool: SupportPool, (Q, C, H, W) -> (Q, N)."""
        query = self.describe(query, pool)                                         # (Q, M, C)
        return torch.cat([self.phi(part, pool) for part in query.split(images_at_once(query, pool))])

    def phi(self, query: Tensor, pool: SupportPool) -> Tensor:
        """phi(x, c) of each query image, over the temperature: (Q, M, C), SupportPool -> (Q, N), with gradients."""
        partners = self.partners or with_graph(query, pool.descriptors)
        matches = search(query, pool, partners, self.answers)                      # no graph
        cosines = partner_cosines(query, pool.descriptors, matches.class_best, matches.partner)   # (Q, M, N)
        return self.ballot(cosines, self.keep(matches))

    def ballot(self, class_best: Tensor, kept: Tensor) -> Tensor:
        """The scores by this method's vote and temperature: (Q, M, N), bool (Q, M) -> (Q, N)."""
        return VOTES[self.vote](class_best, kept) / self.temperature

    def answer_matched(self, learnt: Learnt, class_best: Tensor, kept: Tensor, means: Tensor) -> Tensor:
        """`answer_kept` for pictures that were searched already: Learnt, (Q, M, N), bool (Q, M), (Q, C) -> (Q, N)."""
        return self.ballot(class_best, kept)

    def unit(self, places: int) -> float:
        """What the votes of so many places are divided by."""
        return self.temperature

    def shares(self, pool: SupportPool, query: Tensor) -> Tensor | None:
        """What each place adds to the scores besides its vote: (Q, C, H, W) -> (Q, M, N), or None for nothing."""
        return None

    def keep(self, matches: Matches) -> Tensor:
        """Which query descriptors count, q* -> bool (Q, M)."""
        raise NotImplementedError

    @torch.no_grad()
    def kept(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """q* of an episode: (n, C, H, W), (n,), (Q, C, H, W) -> bool (Q, M)."""
        return self.keep(self.match(support, labels, query))

    @torch.no_grad()
    def match(self, support: Tensor, labels: Tensor, query: Tensor) -> Matches:
        """What the search finds in an episode: (n, C, H, W), (n,), (Q, C, H, W) -> Matches."""
        pool = self.derive(support, labels)
        return search(self.describe(query, pool), pool, self.partners, self.answers)


def compares_descriptors(method: Method) -> TypeGuard[DescriptorMethod]:
    """Whether a method searches, keeps and votes, so that its matches can be shared and shown."""
    return method.compares_descriptors


def images_at_once(query: Tensor, pool: SupportPool) -> int:
    """How many query images to match before they vote, so that their matches stay small: (Q, M, C) -> images."""
    pairs = query.shape[1] * len(pool.counts) + len(pool.descriptors)
    return max(1, min(len(query), int(MATCHES_BYTES // (pairs * (query.element_size() + 8)))))
