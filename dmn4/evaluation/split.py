"""One backbone, its maps of a whole split, and the methods that play episodes over them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..data.cache import decoded
from ..data.folders import ImageSet
from ..episodes.maps import IN_MEMORY, pictures
from ..episodes.sampling import Episode
from ..episodes.scoring import embed_views, right_shares, score_stored, side_by_side
from ..episodes.stored import stored_maps
from ..errors import InputError
from ..images import Transform
from ..methods.base import Method, compares_descriptors
from ..methods.centroid import BaseImages
from ..methods.together import score_together
from .contenders import Contender

BASE_IMAGES = 50      # of each base class, for methods that train with them
QUICK = 64            # episodes at a time, where each takes microseconds


class Kept(NamedTuple):
    """What a method keeps of the query descriptors."""

    share: float                         # of all of them
    true: float                          # share of the kept ones whose nearest neighbour is of their own class


class EmbeddedSplit:
    """One backbone, its maps of the split, and the methods that play over them."""

    def __init__(self, images: ImageSet, contenders: Mapping[str, Contender], shots: int, base: ImageSet | None = None,
                 in_memory: float = IN_MEMORY, seen: Callable[[int], None] = lambda count: None,
                 mirror: bool = False) -> None:
        first = next(iter(contenders.values()))
        self.backbone, self.transform = first.backbone, first.transform
        self.images = decoded(images, self.transform.stored_size)
        self.base = None if base is None else base_images(base, self.transform)
        self.methods = {name: contender.method for name, contender in contenders.items()}
        self.sharing = {name: method for name, method in self.methods.items()  # one that adopts has a pool of its own
                      if compares_descriptors(method) and not method.takes_unlabelled}
        self.looks = 1 + mirror                                  # the pictures, and their mirror images
        self.kinds = all_views(contenders, shots)
        self.stores = embed_views(self.backbone, self.images, self.transform, ("flip",) * mirror + self.kinds,
                                  in_memory=in_memory, seen=seen,
                                  stored=stored_maps(self.backbone, self.images, self.transform))
        wanted = any(method.reads_means for method in self.methods.values())
        self.means = [store.pooled() for store in self.stores] if wanted else []
        self.shots = shots

    @property
    def at_once(self) -> int:
        """How many episodes to play at a time: many if all methods are quick on means, one if any reads whole maps."""
        return QUICK if all(method.vectorised and method.reads_means for method in self.methods.values()) else 1

    @torch.no_grad()
    def play(self, episodes: Sequence[Episode]) -> dict[str, Tensor]:
        """The accuracies of every method, (E,) each; those that can share a search do."""
        scores = {name: self.score(method, episodes)                                            # (E, Q, N)
                  for name, method in self.methods.items() if name not in self.sharing}
        if self.sharing:
            scored = [score_together(*self.seen(episode), self.sharing) for episode in episodes]
            scores |= {name: torch.stack([played[name] for played in scored]).unflatten(1, (self.looks, -1)).sum(1)
                       for name in self.sharing}
        return right_shares(scores, episodes)

    def seen(self, episode: Episode) -> tuple[Tensor, Tensor, Tensor]:
        """The maps of an episode in every look, one look after another: support, its labels, query."""
        support, query = (side_by_side([store[rows] for store in self.stores[: self.looks]])
                          for rows in (episode.support, episode.query))
        return support, episode.support_labels.repeat(self.looks), query

    @torch.no_grad()
    def kept_shares(self, episodes: Sequence[Episode]) -> Iterator[tuple[str, Kept]]:
        """What each method keeps, over some episodes."""
        for name, method in self.sharing.items():
            kept, true = 0.0, 0.0
            for episode in episodes:
                matches = method.match(*self.seen(episode))
                mask = method.keep(matches)                                                       # (Q, M)
                truth = episode.query_labels.repeat(self.looks)[:, None]                        # (Q, 1)
                kept += float(mask.float().mean()) / len(episodes)
                true += float((matches.winner == truth)[mask].float().mean()) / len(episodes)
            yield name, Kept(kept, true)

    def score(self, method: Method, episodes: Sequence[Episode]) -> Tensor:
        """Scores of one method that shares no search: (E, Q, N)."""
        if method.adapts and self.base is not None:
            return torch.stack([self.score_adapted(method, episode) for episode in episodes])
        stores = self.means if method.reads_means else self.stores
        view_stores = [stores[self.looks + place] for place in places(self.kinds, method.views_at(self.shots))]
        return score_stored(method, [*stores[: self.looks], *view_stores], episodes, self.looks)

    def score_adapted(self, method: Any, episode: Episode) -> Tensor:
        """Scores of a method that trains the backbone for every episode, the slow way: (Q, N)."""
        if self.looks > 1:
            raise InputError("a method that trains the backbone in every episode sees no mirror images: leave out "
                             "--mirror or --base-split")
        support, query = (self.transform(pictures(self.images, rows)) for rows in (episode.support, episode.query))
        backbone, learnt = method.learn_adapted(self.backbone, support, episode.support_labels, self.base)
        scores: Tensor = method.answer(learnt, backbone(query))
        return scores


def all_views(contenders: Mapping[str, Contender], shots: int) -> tuple[str, ...]:
    """The extra pictures of every image that the contenders want; those that several want are made once."""
    wanted = Counter[str]()
    for contender in contenders.values():
        wanted |= Counter(contender.method.views_at(shots))
    return tuple(wanted.elements())


def places(kinds: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where the extra maps that a method wants are among all of them: one for each kind it names."""
    of_kind = {kind: iter([place for place, other in enumerate(kinds) if other == kind]) for kind in set(kinds)}
    return [next(of_kind[kind]) for kind in wanted]


def base_images(base: ImageSet, transform: Transform) -> BaseImages:
    """Some images of every base class, as the backbone takes them, for methods that train with them at test time."""
    chosen = decoded(base.first_of_each_class(BASE_IMAGES), transform.stored_size)
    return BaseImages(transform(pictures(chosen, slice(None))), torch.from_numpy(chosen.labels))
