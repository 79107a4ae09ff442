"""What FewShotClassifier does, without scikit-learn, whose import takes longer than an answer."""

import inspect
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError
from ..images import Source
from ..images.looks import at_once, batches, check_images, look, places_of, read_pixels, thumbnail
from ..methods import METHODS
from ..methods.base import HEAD_PRIOR, compares_descriptors
from ..methods.linear_head import LinearHead, fit_head
from ..methods.vectors import pooled
from .calibration import Calibration, calibrate
from .contents import columns, contents
from .labels import checked_labels, joined_labels, restored, stored
from .modelfile import read_modelfile, write_modelfile
from .parts import Parts, assemble, rebuild
from .pictures import Pictures
from .shortlist import Shortlist, Whole, length_of
from .shots import Shots
from .suggestions import suggest_pictures
from .suspects import Suspect, find_suspects
from .verdict import Judgement, Verdict, refusable

if TYPE_CHECKING:
    from ..evidence.explain import Explanation

Kind = TypeVar("Kind", bound="PlainClassifier")


class PlainClassifier:
    """Names the kind of a photograph, given a few labelled ones of each kind; FewShotClassifier says the rest."""

    classes_: np.ndarray
    parts_: Parts
    shots_: Shots
    pictures_: Pictures
    unlabelled_: Tensor | None
    learnt_: Whole | Shortlist
    head_: LinearHead
    calibration_: Calibration

    def __init__(self, method: str = "dmn4-linear", backbone: str | nn.Module = "efficientnet_lite0", *,
                 weights: str | Path | None = None, layer: str | None = None, image_size: int | None = None,
                 method_options: Mapping[str, Any] | None = None, shortlist: int | None = None,
                 batch_size: int = 32, device: str = "cpu") -> None:
        self.method, self.backbone = method, backbone
        self.weights, self.layer, self.image_size = weights, layer, image_size
        self.method_options, self.shortlist = method_options, shortlist
        self.batch_size, self.device = batch_size, device

    # ------------------------------------------------------------------------------------------------------- learning

    def fit(self, images: Iterable[Source], y: Iterable[Hashable],
            unlabelled: Iterable[Source] | None = None) -> Self:
        """Learn the classes of `y` from its pictures; `unlabelled` ones help the semi-supervised methods."""
        classes, numbers = np.unique(checked_labels(y), return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y holds one class ({classes.tolist()[0]!r}); a classifier needs at least two")
        if hasattr(self, "calibration_"):                     # until it is there again the classifier is not fitted
            del self.calibration_
        self.parts_ = self._assemble(unlabelled is not None)
        maps = [] if unlabelled is None else [self.embed(pixels).half() for pixels in self._pixels(unlabelled)]
        self.unlabelled_ = torch.cat(maps) if maps else None
        shots, pictures = self._look_at(images, numbers)
        return self._keep(classes, shots, pictures)

    def partial_fit(self, images: Iterable[Source], y: Iterable[Hashable],
                    classes: Iterable[Hashable] | None = None) -> Self:
        """Add pictures of known or of new classes; `classes` is there for scikit-learn and changes nothing."""
        if not hasattr(self, "calibration_"):
            return self.fit(images, y)
        both = joined_labels(self.classes_, checked_labels(y))
        classes, numbers = np.unique(both, return_inverse=True)
        renumbered = torch.from_numpy(numbers[: len(self.classes_)])
        shots, pictures = self._look_at(images, numbers[len(self.classes_):])
        return self._keep(classes, self.shots_.renamed(renumbered).joined(shots), self.pictures_ + pictures)

    def forget(self, label: Hashable) -> Self:
        """Remove a class and its pictures."""
        check_fitted(self)
        names = self.classes_.tolist()
        if label not in names:
            raise InputError(f"there is no class {label!r} to forget; the classes are {', '.join(map(repr, names))}")
        if len(names) == 2:
            raise InputError(f"without {label!r} one class is left; a classifier needs at least two")
        shots, stay = self.shots_.without(names.index(label))
        return self._keep(np.delete(self.classes_, names.index(label)), shots, self.pictures_.chosen(stay))

    def _keep(self, classes: np.ndarray, shots: Shots, pictures: Pictures) -> Self:
        """Take these as what was learnt, and calibrate anew."""
        self.classes_, self.shots_, self.pictures_ = classes, shots, pictures
        self.learnt_, self.head_ = self._learn(shots)
        self.calibration_ = calibrate(self.parts_.method, self._judge_by, shots)
        return self

    def _judge_by(self, support: Shots, pictures: Shots) -> tuple[Tensor, Tensor]:
        """What would be said of some labelled pictures, had these been learnt: scores (Q, N) and fit (Q,)."""
        return self._answer(*self._learn(support), pictures.maps.float(), pictures.maps.means)

    @torch.inference_mode()
    def _learn(self, shots: Shots, head: LinearHead | None = None) -> tuple[Whole | Shortlist, LinearHead]:
        """What these shots and unlabelled pictures teach, and the linear head on the means unless it is there already.

        With a shortlist no map is read: the maps of the classes that a picture may be of are, when it is judged.
        """
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
        return Whole(method, learnt, support.labels), head

    def comparing_all(self) -> Self:
        """The same classifier without a shortlist: every class is compared closely with every picture."""
        if isinstance(self.learnt_, Whole):
            return self
        whole = copy(self)
        whole.shortlist = len(self.classes_)
        whole.learnt_, whole.head_ = whole._learn(whole.shots_)
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
        asked = sorted({0, *places_of(self.parts_.method.views)})
        parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        pictures: list[bytes] = []
        for batch in batches(images, self.batch_size):
            pixels = read_pixels(batch, self.parts_.transform)                                    # (B, h, w, 3)
            rows = torch.arange(len(pictures), len(pictures) + len(batch))
            pictures += [thumbnail(picture) for picture in pixels]
            if len(pictures) > len(labels):
                break
            parts += [(self.embed(pixels, place).half(), labels[rows], torch.full_like(rows, place), rows)
                      for place in asked]
        if len(pictures) != len(labels):
            more = " or more" if len(pictures) > len(labels) else ""
            raise InputError(f"{len(labels)} labels were given for {len(pictures)}{more} pictures; one each is needed")
        maps, numbered, looks, rows = map(torch.cat, zip(*parts, strict=True))
        return Shots.of(maps, numbered, looks, rows, self.parts_.method.compared), Pictures(pictures)

    # ----------------------------------------------------------------------------------------------------- predicting

    def predict(self, images: Iterable[Source], reject: bool | float = False) -> np.ndarray:
        """The class of each picture (n,); with `reject` None where it is none of the classes.

        `reject` is the share of known pictures that may be refused; True is 0.1. `calibration_.promise(reject)` says
        how sure that share is.
        """
        share = refusable(reject)
        judged = self._judged(images)
        answers = self.classes_[torch.cat([some.scores.argmax(1) for some in judged]).numpy()]
        if not share:
            return answers
        if not self.calibration_.rejects(share):
            warnings.warn(self.calibration_.promise(share), stacklevel=2)
        answers = answers.astype(object)
        answers[torch.cat([some.refused(share) for some in judged]).numpy()] = None
        return answers

    def predict_set(self, images: Iterable[Source], coverage: float = 0.9) -> list[list[Any]]:
        """For each picture the classes that hold its own with this probability, the most probable first.

        A list can be empty: then even the most probable class is less so than the promise takes.
        """
        if not 0 < coverage < 1:
            raise InputError(f"coverage is {coverage}; it is a probability above 0 and below 1, such as 0.9")
        return [list(verdict.perhaps) for judged in self._judged(images)
                for verdict in self.verdicts(judged, coverage=coverage)]

    def verdicts(self, judged: Judgement, reject: bool | float = False, coverage: float | None = None) -> list[Verdict]:
        """The verdict on each judged picture: the one object that every surface prints."""
        sets = None if coverage is None else self.calibration_.contains(judged.probabilities, coverage)
        return judged.verdicts(self.classes_.tolist(), reject, sets)

    def predict_proba(self, images: Iterable[Source]) -> np.ndarray:
        """The probability of each class (n, N), calibrated on the labelled pictures."""
        return torch.cat([judged.probabilities for judged in self._judged(images)]).numpy()

    def decision_function(self, images: Iterable[Source]) -> np.ndarray:
        """The method's scores (n, N); with two classes (n,), by how much the second leads."""
        scores = torch.cat([judged.scores for judged in self._judged(images)]).double().numpy()
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(self, image: Source, reject: bool | float = False) -> "Explanation":
        """What was kept of a picture, what it matched, how it voted; the verdict is that of `predict`."""
        check_fitted(self)
        if not self.parts_.method.compares_descriptors:
            raise InputError(f"method {self.method!r} compares no descriptors, so there is nothing to show; "
                             "explain needs dmn4, mn4, dn4 or odm")
        from ..evidence.explain import explain_image

        return explain_image(self, image, reject)

    def suggest(self, images: Iterable[Source], n: int = 10) -> np.ndarray:
        """Which pictures to label next: their places in `images`, the most useful first (n,).

        They stand for pictures that no labelled one is like, and differ. Before `fit` they are a varied first set.
        """
        fitted = hasattr(self, "calibration_")
        if not fitted:
            self.parts_ = self._assemble(semi=False)
        maps = (self.embed(pixels) for pixels in self._pixels(images))
        return suggest_pictures(maps, n, self.shots_ if fitted else None).numpy()

    def suspects(self) -> list[Suspect]:
        """Labelled pictures that the other labelled ones would name differently, worst first, with the evidence."""
        check_fitted(self)
        return find_suspects(self._judge_by, self.calibration_.probabilities, self.shots_, self.classes_.tolist())

    def judge(self, pixels: Tensor) -> "Judgement":
        """Everything that is said of a few pictures: bytes (B, h, w, 3), as `read_pixels` gives them."""
        return self.judge_maps(self.embed(pixels))

    def judge_maps(self, maps: Tensor) -> "Judgement":
        """The same of maps that `embed` gave, (B, C, H, W): several classifiers can share one embedding."""
        compared = self.parts_.method.compared or maps.shape[1]
        scores, fit = self._answer(self.learnt_, self.head_, maps[:, :compared], pooled(maps))    # (B, N), (B,)
        return Judgement(scores, self.calibration_.probabilities(scores), self.calibration_.known(fit))

    @torch.inference_mode()
    def embed(self, pixels: Tensor, place: int = 0) -> Tensor:
        """Maps of pictures, or of one of their LOOKS: bytes (B, h, w, 3) -> (B, C, H, W)."""
        seen = look(pixels, self.parts_.transform, place).to(self.device)
        parts = [self.parts_.embedder(some) for some in seen.split(at_once(seen))]
        if not all(isinstance(maps, Tensor) and maps.ndim == 4 for maps in parts):
            raise InputError("the backbone gives no maps (images, channels, height, width) for these pictures")
        return torch.cat(parts).float().cpu().contiguous()    # as a file holds them: sums come out the same

    def _pixels(self, images: Iterable[Source]) -> Iterator[Tensor]:
        """The pictures as bytes, a batch at a time: (B, h, w, 3)."""
        check_images(images)
        for batch in batches(images, self.batch_size):
            yield read_pixels(batch, self.parts_.transform)

    def _judged(self, images: Iterable[Source]) -> list[Judgement]:
        """What is said of all pictures, a batch at a time."""
        check_fitted(self)
        judged = [self.judge(pixels) for pixels in self._pixels(images)]
        if not judged:
            raise InputError("no pictures were given; at least one is needed")
        return judged

    @torch.inference_mode()
    def _answer(self, learnt: Whole | Shortlist, head: LinearHead, maps: Tensor,
                means: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (Q, N) and fit (Q,) of pictures beside what was learnt: (Q, compared, H, W), (Q, C)."""
        means = means.to(self.device)
        scores = learnt.scores(maps.to(self.device), means)
        return scores.cpu(), head.scores(means).amax(1).cpu()

    # -------------------------------------------------------------------------------------------------------- keeping

    def save(self, path: str | Path) -> None:
        """Write the classifier to a file, `birds.dmn4` for instance; `dmn4.load` reads it. No pickle inside."""
        check_fitted(self)
        about = {"parameters": self._parameters(), "parts": self.parts_.about(), "classes": stored(self.classes_),
                 "calibration": asdict(self.calibration_)}
        seen = columns(self.shots_, self.pictures_, self.unlabelled_, self.head_)
        write_modelfile(Path(path), seen | self.parts_.tensors(), about)

    def _parameters(self) -> dict[str, Any]:
        """The arguments as JSON can hold them; a backbone made elsewhere is given again when the file is loaded."""
        values = {name: getattr(self, name) for name in ARGUMENTS if name != "device"}
        return values | {"weights": None if self.weights is None else str(self.weights),
                         "backbone": None if isinstance(self.backbone, nn.Module) else self.backbone}


ARGUMENTS = [name for name in inspect.signature(PlainClassifier.__init__).parameters if name != "self"]


def check_fitted(classifier: PlainClassifier) -> None:
    """Raise scikit-learn's NotFittedError if the classifier has learnt nothing yet."""
    if not hasattr(classifier, "calibration_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError("this classifier is not fitted yet: call fit with labelled pictures first")


def opened(kind: type[Kind], path: str | Path, backbone: nn.Module | None = None, device: str = "cpu") -> Kind:
    """The classifier of a file that `save` wrote, as a PlainClassifier or a kind of it."""
    tensors, about = read_modelfile(Path(path))
    parameters = vars(about.parameters) | ({} if backbone is None else {"backbone": backbone})
    classifier = kind(**parameters, device=device)
    classifier.parts_ = rebuild(about.parts, tensors, backbone, str(path)).to(device)
    classifier.classes_ = restored(about.classes, repr(str(path)))
    held = contents(tensors, len(classifier.classes_), repr(str(path)))
    classifier.shots_, classifier.pictures_, classifier.unlabelled_, head = held
    classifier.learnt_, classifier.head_ = classifier._learn(classifier.shots_, head)
    promises = about.calibration
    classifier.calibration_ = (
        calibrate(classifier.parts_.method, classifier._judge_by, classifier.shots_) if promises is None else
        Calibration(promises.temperature, tuple(promises.fits), tuple(promises.chances)))
    return classifier
