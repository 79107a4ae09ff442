"""What a classifier derives from labelled pictures, and how it answers from that."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError
from ..images import Source
from ..images.looks import at_once, batches, check_images, look, places_of, read_pixels, thumbnail
from ..methods import METHODS
from ..methods.base import HEAD_PRIOR, compares_descriptors
from ..methods.linear_head import LinearHead, fit_head
from .calibration import Calibration, calibrate
from .counterexamples import Counterexamples, Objections
from .parts import Parts, assemble
from .pictures import Pictures
from .shortlist import Shortlist, Whole, length_of
from .shots import Shots


class Learner:
    """What a classifier keeps of labelled pictures; Teachable changes it, PlainClassifier answers from it."""

    classes_: np.ndarray
    parts_: Parts
    shots_: Shots
    pictures_: Pictures
    unlabelled_: Tensor | None
    ruled_out_ = Counterexamples.none()
    learnt_: Whole | Shortlist
    head_: LinearHead
    objections_: Objections | None = None
    calibration_: Calibration

    def __init__(self, method: str = "dmn4-linear", backbone: str | nn.Module = "efficientnet_lite0", *,
                 weights: str | Path | None = None, layer: str | None = None, image_size: int | None = None,
                 method_options: Mapping[str, Any] | None = None, shortlist: int | None = None,
                 batch_size: int = 32, device: str = "cpu") -> None:
        self.method, self.backbone = method, backbone
        self.weights, self.layer, self.image_size = weights, layer, image_size
        self.method_options, self.shortlist = method_options, shortlist
        self.batch_size, self.device = batch_size, device

    def _keep(self, classes: np.ndarray, shots: Shots, pictures: Pictures) -> Self:
        """Take these as what was learnt, and calibrate anew."""
        if len(self.ruled_out_):
            self.ruled_out_ = self.ruled_out_.renumbered(self.classes_.tolist(), classes.tolist())
        self.classes_, self.shots_, self.pictures_ = classes, shots, pictures
        self.learnt_, self.head_, self.objections_ = self._learn(shots)
        self.calibration_ = calibrate(self.parts_.method, self._judge_by, shots)
        return self

    def _judge_by(self, support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
        """What would be said of some labelled pictures, had these been learnt: scores (Q, N) and fit (Q,)."""
        return self._answer(*self._learn(support), pictures.maps.float(), pictures.maps.means)

    @torch.inference_mode()
    def _learn(self, shots: Shots,
               head: LinearHead | None = None) -> tuple[Whole | Shortlist, LinearHead, Objections | None]:
        """What these shots and unlabelled pictures teach, the linear head on the means unless it is there already, and
        what counterexamples say.

        With a shortlist no map is read: the maps of the classes that a picture may be of are, when it is judged.
        """
        learnt, head = self._compare(shots, head)
        ruled_out = self.ruled_out_
        return learnt, head, Objections.of(ruled_out, shots, head.blocks) if len(ruled_out) else None

    def _compare(self, shots: Shots, head: LinearHead | None) -> tuple[Whole | Shortlist, LinearHead]:
        """The first two of these."""
        method, support = self.parts_.method, shots.support(self.parts_.method)
        means, labels = support.maps.means.to(self.device), support.labels.to(self.device)
        ways = len(shots.counts)
        length = length_of(self.shortlist, method, ways, adopts=self.unlabelled_ is not None)
        if length < ways and compares_descriptors(method):
            head = head or method.head(means, labels)
            return Shortlist(method, support, head, length), head
        unlabelled = {} if self.unlabelled_ is None else {"unlabelled": self.unlabelled_.float().to(self.device)}
        learnt = method.learn_kept(support.maps.float().to(self.device), means, labels, **unlabelled)
        head = method.head_in(learnt) or fit_head(means, labels, [means.shape[1]], HEAD_PRIOR)
        return Whole(method, learnt, support.labels, head.directions(means)), head

    def comparing_all(self) -> Self:
        """The same classifier without a shortlist: every class is compared closely with every picture."""
        if isinstance(self.learnt_, Whole):
            return self
        whole = copy(self)
        whole.shortlist = len(self.classes_)
        whole.learnt_, whole.head_, whole.objections_ = whole._learn(whole.shots_)
        return whole

    def _assemble(self, semi: bool) -> Parts:
        """The parts that the arguments name; with unlabelled pictures the method's semi-supervised twin."""
        name = f"{self.method}-semi" if semi and f"{self.method}-semi" in METHODS else self.method
        parts = assemble(name, self.backbone, self.weights, self.layer, self.image_size, self.method_options)
        if semi and not parts.method.takes_unlabelled:
            able = [known for known, kind in METHODS.items() if kind.takes_unlabelled]
            raise InputError(f"method {name!r} makes no use of unlabelled pictures; choose one of {', '.join(able)}")
        return parts.to(self.device)

    def _look_at(self, images: Iterable[Source], numbers: np.ndarray) -> tuple[Shots, Pictures]:
        """Labelled pictures as maps, with the views that the method asks for."""
        check_images(images)
        labels = torch.from_numpy(numbers)
        wanted_looks = sorted({0, *places_of(self.parts_.method.views)})
        parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        pictures: list[bytes] = []
        for batch in batches(images, self.batch_size):
            pixels = read_pixels(batch, self.parts_.transform)                                    # (B, h, w, 3)
            rows = torch.arange(len(pictures), len(pictures) + len(batch))
            pictures += [thumbnail(picture) for picture in pixels]
            if len(pictures) > len(labels):
                break
            parts += [(self.embed(pixels, place).half(), labels[rows], torch.full_like(rows, place), rows)
                      for place in wanted_looks]
        if len(pictures) != len(labels):
            more = " or more" if len(pictures) > len(labels) else ""
            raise InputError(f"{len(labels)} labels were given for {len(pictures)}{more} pictures; one each is needed")
        maps, numbered, looks, rows = map(torch.cat, zip(*parts, strict=True))
        return Shots.of(maps, numbered, looks, rows, self.parts_.method.compared), Pictures(pictures)

    def _pixels(self, images: Iterable[Source]) -> Iterator[Tensor]:
        """The pictures as bytes, a batch at a time: (B, h, w, 3)."""
        check_images(images)
        for batch in batches(images, self.batch_size):
            yield read_pixels(batch, self.parts_.transform)

    @torch.inference_mode()
    def embed(self, pixels: Tensor, place: int = 0) -> Tensor:
        """Maps of pictures, or of one of their LOOKS: bytes (B, h, w, 3) -> (B, C, H, W)."""
        seen = look(pixels, self.parts_.transform, place).to(self.device)
        parts = [self.parts_.embedder(part) for part in seen.split(at_once(seen))]
        if not all(isinstance(maps, Tensor) and maps.ndim == 4 for maps in parts):
            raise InputError("the backbone gives no maps (images, channels, height, width) for these pictures")
        return torch.cat(parts).float().cpu().contiguous()    # as a file holds them: sums come out the same

    @torch.inference_mode()
    def _answer(self, learnt: Whole | Shortlist, head: LinearHead, objections: Objections | None, maps: Tensor,
                means: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (Q, N) and fit (Q,) of pictures beside what was learnt: (Q, compared, H, W), (Q, C)."""
        means = means.to(self.device)
        likely = head.scores(means)
        scores = learnt.scores(maps.to(self.device), means, likely)
        return self._heard(learnt, head, objections, scores, likely, means)

    def _heard(self, learnt: Whole | Shortlist, head: LinearHead, objections: Objections | None, scores: Tensor,
               likely: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (Q, N) less what the counterexamples object to, and fit (Q,).

        How well a picture fits the class that the head prefers: the head's score, and the cosine with the nearest
        picture of that class.
        """
        if objections is not None:
            scores, likely = objections.heard(scores, *objections.weigh(means))
        score, preferred = likely.max(1)                                                         # (Q,) each
        return scores.cpu(), (score + learnt.nearest(head.directions(means), preferred)).cpu()


ARGUMENTS = [name for name in inspect.signature(Learner.__init__).parameters if name != "self"]


def check_fitted(classifier: Learner) -> None:
    """Raise scikit-learn's NotFittedError if the classifier has learnt nothing yet."""
    if not hasattr(classifier, "calibration_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError("this classifier is not fitted yet: call fit with labelled pictures first")
