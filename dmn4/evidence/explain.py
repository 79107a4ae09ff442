"""Why a picture was given its class, as data: what was kept, what it matched, how it voted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, choose
from ..images import Source, Transform
from ..images.looks import batches, read_pixels
from ..methods.base import DescriptorMethod, Learnt, Method, check_query, compares_descriptors
from ..methods.descriptors import SupportPool, pyramid_sides
from ..methods.neighbors import (
    Matches,
    discriminative_mutual,
    first_argmax,
    mutual,
    relative_closeness,
    search,
    search_several,
)
from ..methods.voting import VOTES

NOT_COMPARED = -1              # the label of a picture whose class is not on the shortlist
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
        return f"{int(self.kept.sum())} of {len(self.kept)} patches voted; all together would say {other}."

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


# ------------------------------------------------------------------------------------------------------- how it is made

@torch.no_grad()
def explain_maps(method: Method, support: Tensor, labels: Tensor, query: Tensor, *, name: str = "",
                 classes: Sequence[Any] = (), unlabelled: Tensor | None = None, crop: float = 1.0) -> Explanation:
    """The evidence for one query: maps (n, C, H, W), labels (n,), map (C, H, W) -> Explanation.

    `name` is the method's, `classes` are the names of the labels; `crop` is the share of a picture's side that the
    network saw.
    """
    if unlabelled is not None and not method.takes_unlabelled:
        raise InputError(f"unlabelled maps were given, but method {name!r} makes no use of them; leave them out")
    learnt = method.learn(support, labels, **({} if unlabelled is None else {"unlabelled": unlabelled}))
    return explain_learnt(method, learnt, labels, query, name=name, classes=classes, crop=crop)


@torch.no_grad()
def explain_learnt(method: Method, learnt: Learnt, labels: Tensor, query: Tensor, *, name: str = "",
                   classes: Sequence[Any] = (), crop: float = 1.0) -> Explanation:
    """The evidence for one query beside what a method has learnt from maps with `labels` (n,): (C, H, W)."""
    name = name or type(method).__name__.lower()
    if not compares_descriptors(method):
        raise InputError(f"method {name!r} compares no descriptors, so there is nothing to explain; "
                         "choose dn4, mn4, dmn4 or odm")
    check_query(learnt.shape, query[None], any_size=True)
    pool: SupportPool = learnt.derived
    described = method.describe(query[None], pool)                                           # (1, M, C)
    matches = search(described, pool)
    shares = method.shares(pool, query[None])                                                # (1, M, N)
    image, place = pool.rows[matches.partner[0]], pool.places[matches.partner[0]]            # (M, N) each
    return Explanation(
        method=name,
        classes=tuple(str(one) for one in classes) or tuple(str(label) for label in range(len(pool.counts))),
        masks=masks_of(method, matches, name),
        class_best=cosines_of(method, described, pool, matches)[0],
        partner_image=pictures_of(method, image, labels), partner_place=place,
        tau=relative_closeness(matches.class_best)[0], support_labels=labels,
        boxes=place_boxes(query.shape, method.pyramid, crop),
        support_boxes=place_boxes(learnt.shape, method.pyramid, crop),
        grid=(query.shape[-2], query.shape[-1]), vote=method.vote, temperature=method.unit(described.shape[1]),
        shares=None if shares is None else shares[0])


def masks_of(method: DescriptorMethod, matches: Matches, name: str) -> dict[str, Tensor]:
    """What DN4, MN4 and DMN4 keep on the same search, and what the method itself keeps: bool (M,) each."""
    masks = {"dn4": torch.ones_like(mutual(matches)), "mn4": mutual(matches), "dmn4": discriminative_mutual(matches)}
    return {rule: mask[0] for rule, mask in (masks | {name: method.keep(matches)}).items()}


def cosines_of(method: DescriptorMethod, query: Tensor, pool: SupportPool, matches: Matches) -> Tensor:
    """What the method sums up: the largest cosine in each class, or the k largest -> (1, M, N)."""
    if method.k > 1:
        return search_several(query, pool, method.k)[0].sum(-1)
    return matches.class_best


def pictures_of(method: DescriptorMethod, rows: Tensor, labels: Tensor) -> Tensor:
    """Rows of the pool as numbers of support pictures; after a mean of shots, the first picture of the class."""
    if method.shots == "union":
        return rows
    ways = int(labels.max()) + 1
    first = torch.stack([(labels == label).nonzero()[0, 0] for label in range(ways)])        # (N,)
    return torch.where(rows < ways, first[rows.clamp(max=ways - 1)], rows - ways + len(labels))


def place_boxes(shape: Sequence[int], pyramid: str = "", crop: float = 1.0) -> Tensor:
    """The cell of the picture that each place stands for, those of a pyramid last: (..., H, W) -> (M, 4)."""
    grids = [(shape[-2], shape[-1]), *((side, side) for side in pyramid_sides(pyramid))]
    return torch.cat([cell_boxes(height, width) for height, width in grids]) * crop + (1 - crop) / 2


def cell_boxes(height: int, width: int) -> Tensor:
    """The cells of a grid, row by row, as shares of the whole: (height * width, 4)."""
    top, left = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    return torch.stack([left, top, left + 1 / width, top + 1 / height], dim=-1).flatten(0, 1)


# ---------------------------------------------------------------------------------------------------- of a classifier

def explain_image(classifier: Any, image: Source, reject: bool | float = False) -> Explanation:
    """The evidence for a picture that a fitted FewShotClassifier judges; picture numbers are those of `pictures_`."""
    return next(explain_images(classifier, [image], reject))


def explain_images(classifier: Any, images: Iterable[Source], reject: bool | float = False) -> Iterator[Explanation]:
    """The same for many pictures, of which no more than a batch is in memory."""
    for batch in batches(images, classifier.batch_size):
        for query in classifier.embed(read_pixels(batch, classifier.parts_.transform)):      # (C, H, W)
            yield explain_map(classifier, query, reject)


def explain_map(classifier: Any, query: Tensor, reject: bool | float = False) -> Explanation:
    """The same for the map of a picture that the classifier's `embed` gave: (C, H, W)."""
    parts = classifier.parts_
    near = classifier.learnt_.near(query.mean((1, 2)))        # a row is a picture: descriptor methods ask for no views
    evidence = explain_learnt(parts.method, near.learnt, near.labels, query, name=parts.method_name,
                              classes=classifier.classes_[near.classes.numpy()], crop=seen_share(parts.transform))
    if len(near.rows) < len(classifier.pictures_):
        evidence = among_all(evidence, near.rows, len(classifier.pictures_))
    evidence = replace(evidence, known_classes=len(classifier.classes_))
    verdict = classifier.verdicts(classifier.judge_maps(query[None]), reject)[0]
    return replace(evidence, said=verdict.line)


def among_all(evidence: Explanation, rows: Tensor, pictures: int) -> Explanation:
    """Evidence beside some of the labelled pictures, `rows` (n,), with the numbers that these have among all."""
    labels = torch.full((pictures,), NOT_COMPARED).index_copy(0, rows, evidence.support_labels)
    return replace(evidence, partner_image=rows[evidence.partner_image], support_labels=labels)


def seen_share(transform: Transform) -> float:
    """The share of a picture's side that is left after a centre crop."""
    before = transform.resize if isinstance(transform.resize, int | None) else transform.resize[0]
    return 1.0 if transform.crop != "centre" or before is None else transform.size / before
