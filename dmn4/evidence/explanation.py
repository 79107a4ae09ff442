"""Why a picture was given its class, as data: what was kept, what it matched, how it voted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import choose
from ..methods.neighbors import first_argmax
from ..methods.voting import VOTES

NOT_COMPARED = -1              # the label of a picture whose class is not on the shortlist
NOTICED = 0.1                  # of the spread of the sums: a loss below it is not told
CLEAREST = "where several matched the same patch, only the clearest one votes"
WORDS = {
    "dn4": "every patch votes",
    "mn4": "a patch votes if no other is nearer to the patch it matched",
    "dmn4": CLEAREST,
    "odm": "the patches that tell the classes apart best vote",
    "dmn4-linear": CLEAREST,
}


class Pair(NamedTuple):
    """A query descriptor and the support descriptor it chose."""

    place: int          # of the query, row by row
    label: int          # class of the partner
    image: int          # support picture of the partner
    partner: int        # place in that picture
    cosine: float
    tau: float          # the lead of that class over the next


@dataclass(frozen=True, eq=False)
class Explanation:
    """The evidence for one picture. M descriptors of the query, N classes, n support pictures.

    Of a classifier with many classes, `classes` are those on its shortlist; the pictures of others have the label -1.
    A picture number from n on is an unlabelled picture whose descriptor was adopted. After a mean of shots the first
    picture of a class stands for the class. Boxes are left, top, right, bottom as shares of the picture.
    """

    method: str
    classes: tuple[str, ...]
    masks: dict[str, Tensor]      # bool (M,) each: what this method keeps, and what dn4, mn4 and dmn4 would
    class_best: Tensor            # (M, N)  cos(q, NN_{s_c}(q)); the sum of the k largest for dn4 with k > 1
    partner_image: Tensor         # (M, N)
    partner_place: Tensor         # (M, N)
    tau: Tensor                   # (M,)
    support_labels: Tensor        # (n,)
    boxes: Tensor                 # (M, 4)
    support_boxes: Tensor         # (M', 4)
    grid: tuple[int, int]         # H, W of the query map; places beyond H*W are those of a pyramid
    vote: str = "nbnn"
    temperature: float = 1.0      # what the votes are divided by
    shares: Tensor | None = None  # (M, N)  what the linear head adds at each place; None: the method has no head
    unlike: tuple[str, ...] = ()  # classes that lost score because the picture is like one that is not of them
    known_classes: int = 0        # of the classifier, of which `classes` were compared closely; 0: those are all
    said: str = ""                # the verdict of the classifier, as every surface states it

    @property
    def kept(self) -> Tensor:
        """q*, which descriptors counted -> bool (M,)."""
        return self.masks[self.method]

    @property
    def counts(self) -> Tensor:
        """How many support pictures each class has -> (N,)."""
        return self.support_labels[self.support_labels != NOT_COMPARED].bincount(minlength=len(self.classes))

    @property
    def rule(self) -> str:
        """What decided which descriptors count, in words; and how many classes were compared, if not all."""
        words = WORDS.get(self.method.removesuffix("-semi"), f"the patches that {self.method} keeps vote")
        if self.known_classes <= len(self.classes):
            return words
        return f"{words}; {len(self.classes)} of {self.known_classes:,} classes were compared closely"

    @property
    def tally(self) -> str:
        """How many patches voted, and what all of them together would say, in words."""
        other = "the same" if self.dn4_verdict == self.verdict else self.dn4_verdict
        unlike = f" It is like a picture that you said is not {' or '.join(self.unlike)}." if self.unlike else ""
        return f"{int(self.kept.sum())} of {len(self.kept)} patches voted; all together would say {other}.{unlike}"

    @property
    def winner(self) -> Tensor:
        """The class that each descriptor is nearest to -> (M,)."""
        return first_argmax(self.class_best)

    @property
    def scores(self) -> Tensor:
        """The class sums after selection, as the method scores -> (N,)."""
        return self.sums(self.method)

    @property
    def scores_before(self) -> Tensor:
        """The class sums of all descriptors, as if none had been dropped -> (N,)."""
        return self.sums("dn4")

    @property
    def verdict(self) -> str:
        """The class with the largest sum."""
        return self.classes[int(self.scores.argmax())]

    @property
    def headline(self) -> str:
        """The verdict as every other surface states it; without a classifier the class alone."""
        return self.said or self.verdict

    @property
    def head(self) -> Tensor:
        """What the linear head adds to the score of each class, 0 without one -> (N,)."""
        return torch.zeros(len(self.classes)) if self.shares is None else self.shares.sum(0)

    @property
    def dn4_verdict(self) -> str:
        """What DN4 would have said."""
        return self.classes[int(self.scores_before.argmax())]

    @property
    def votes(self) -> Tensor:
        """What each descriptor votes for each class, if it counts -> (M, N)."""
        alone = VOTES[self.vote](self.class_best[:, None], torch.ones_like(self.class_best[:, :1], dtype=torch.bool))
        whole = alone.floor() if self.vote == "rank" else alone       # without the fraction that orders equal counts
        return whole / self.temperature

    def sums(self, rule: str) -> Tensor:
        """The class sums of what a rule (a key of `masks`) keeps, and of the linear head -> (N,)."""
        mask = self.masks[choose("rule", rule, self.masks)]
        return VOTES[self.vote](self.class_best[None], mask[None])[0] / self.temperature + self.head

    def less(self, losses: Tensor) -> "Explanation":
        """The same where classes lose score (N,) to counterexamples: each place bears an even share of it."""
        count = len(self.class_best)
        shares = torch.zeros(count, len(self.classes)) if self.shares is None else self.shares
        named = tuple(self.classes[place] for place in self.scores.argsort(descending=True)[:2].tolist()
                      if losses[place] > NOTICED * self.scores.std())
        return replace(self, shares=shares - losses / count, unlike=named)

    def under(self, rule: str) -> "Explanation":
        """The same picture as a rule (a key of `masks`) sees it."""
        return replace(self, method=choose("rule", rule, self.masks))

    def pairs(self, label: int | None = None) -> list[Pair]:
        """Kept descriptors and their partners, the largest lead first; of one class if `label` is given."""
        wanted = self.kept if label is None else self.kept & (self.winner == label)
        order = self.tau.argsort(descending=True, stable=True)
        return [self.pair(place) for place in order.tolist() if wanted[place]]

    def pair(self, place: int) -> Pair:
        """A descriptor and its partner, kept or not."""
        label = int(self.winner[place])
        return Pair(place, label, int(self.partner_image[place, label]), int(self.partner_place[place, label]),
                    float(self.class_best[place, label]), float(self.tau[place]))

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dicts."""
        return {
            "method": self.method, "rule": self.rule, "vote": self.vote, "classes": list(self.classes),
            "known_classes": max(self.known_classes, len(self.classes)),
            "verdict": self.verdict, "headline": self.headline, "dn4_verdict": self.dn4_verdict,
            "scores": self.scores.tolist(), "scores_before": self.scores_before.tolist(),
            "rules": {rule: {"kept": mask.nonzero()[:, 0].tolist(), "scores": self.sums(rule).tolist(),
                             "verdict": self.under(rule).verdict} for rule, mask in self.masks.items()},
            "grid": list(self.grid), "support_labels": self.support_labels.tolist(),
            "support_boxes": rounded(self.support_boxes), "descriptors": list(self._rows()),
        }

    def _rows(self) -> Iterator[dict[str, Any]]:
        votes, boxes = rounded(self.votes), rounded(self.boxes)
        shares = rounded(torch.zeros_like(self.votes) if self.shares is None else self.shares)
        for place, kept in enumerate(self.kept.tolist()):
            pair = self.pair(place)
            yield {"box": boxes[place], "kept": kept, "tau": round(pair.tau, 4), "votes": votes[place],
                   "shares": shares[place],
                   "partner": {"class": pair.label, "image": pair.image, "place": pair.partner,
                               "cosine": round(pair.cosine, 4)}}


def rounded(values: Tensor) -> list[Any]:
    """Numbers as lists, with four decimals."""
    return values.double().mul(1e4).round().div(1e4).tolist()
