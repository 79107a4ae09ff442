"""How the evidence is found: from maps, from what a method has learnt, from a classifier and a picture."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..images import Source, Transform
from ..images.looks import batches, read_pixels
from ..methods.base import DescriptorMethod, Learnt, Method, compares_descriptors
from ..methods.checks import check_query
from ..methods.descriptors import SupportPool, pyramid_sides
from ..methods.neighbors import (
    Matches,
    discriminative_mutual,
    mutual,
    relative_closeness,
    search,
    search_several,
)
from ..methods.vectors import pooled
from .explanation import NOT_COMPARED, Explanation


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
        classes=tuple(str(name) for name in classes) or tuple(str(label) for label in range(len(pool.counts))),
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
    judged, evidence = judge_and_explain(classifier, query)
    return replace(evidence, said=classifier.verdicts(judged, reject)[0].line)


@torch.inference_mode()
def judge_and_explain(classifier: Any, query: Tensor) -> tuple[Any, Explanation]:
    """The Judgement of the map of a picture and, from the same search, the evidence without its verdict: (C, H, W)."""
    parts, means = classifier.parts_, pooled(query[None])                                    # (1, C)
    likely = classifier.head_.scores(means)                                                  # (1, N)
    near = classifier.learnt_.near(likely[0])                 # a row is a picture: descriptor methods ask for no views
    evidence = explain_learnt(parts.method, near.learnt, near.labels, query, name=parts.method_name,
                              classes=classifier.classes_[near.classes.numpy()], crop=seen_share(parts.transform))
    listed = parts.method.answer_matched(near.learnt, evidence.class_best[None], evidence.kept[None], means)[0]
    scores = classifier.learnt_.spread(listed, near, likely[0])                              # (N,)
    judged = classifier.judge_scores(scores[None], likely, means)
    if classifier.objections_ is not None:
        evidence = evidence.less(evidence.scores - judged.scores[0, near.classes])
    if len(near.rows) < len(classifier.pictures_):
        evidence = among_all(evidence, near.rows, len(classifier.pictures_))
    return judged, replace(evidence, known_classes=len(classifier.classes_))


def among_all(evidence: Explanation, rows: Tensor, pictures: int) -> Explanation:
    """Evidence beside some of the labelled pictures, `rows` (n,), with the numbers that these have among all."""
    labels = torch.full((pictures,), NOT_COMPARED).index_copy(0, rows, evidence.support_labels)
    return replace(evidence, partner_image=rows[evidence.partner_image], support_labels=labels)


def seen_share(transform: Transform) -> float:
    """The share of a picture's side that is left after a centre crop."""
    before = transform.resize if isinstance(transform.resize, int | None) else transform.resize[0]
    return 1.0 if transform.crop != "centre" or before is None else transform.size / before
