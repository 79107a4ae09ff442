"""What FewShotClassifier does, without scikit-learn, whose import takes longer than an answer."""

import inspect
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError
from ..images import Source
from ..images.looks import LOOKS, at_once, batches, check_images, look, places_of, read_pixels, thumbnail
from ..methods import METHODS
from ..methods.base import Learnt
from .calibration import Calibration, calibrate, evidence, likeness
from .contents import columns, contents
from .labels import checked_labels, joined_labels, restored, stored
from .modelfile import read_modelfile, write_modelfile
from .parts import Parts, assemble, rebuild
from .pictures import Pictures
from .shots import Shots
from .suggestions import suggest_pictures
from .suspects import Suspect, find_suspects

if TYPE_CHECKING:
    from ..evidence.explain import Explanation

Kind = TypeVar("Kind", bound="PlainClassifier")
LEAST_KNOWN = 0.5                                             # below it a picture is none of these


@dataclass(frozen=True)
class Judgement:
    """What a classifier says of a few pictures."""

    scores: Tensor                                            # (B, N)
    probabilities: Tensor                                     # (B, N)  given that it is one of the classes
    known: Tensor                                             # (B,)    that it is one of them at all; NaN: uncalibrated

    @property
    def none_of_these(self) -> Tensor:
        """Whether each picture is of none of the classes: the one place that decides -> bool (B,)."""
        return self.known < LEAST_KNOWN


class PlainClassifier:
    """Names the kind of a photograph, given a few labelled ones of each kind; FewShotClassifier says the rest."""

    classes_: np.ndarray
    parts_: Parts
    shots_: Shots
    pictures_: Pictures
    unlabelled_: Tensor | None
    learnt_: Learnt
    calibration_: Calibration

    def __init__(self, method: str = "dmn4", backbone: str | nn.Module = "efficientnet_lite0", *,
                 weights: str | Path | None = None, layer: str | None = None, image_size: int | None = None,
                 method_options: Mapping[str, Any] | None = None, batch_size: int = 32, device: str = "cpu") -> None:
        self.method, self.backbone = method, backbone
        self.weights, self.layer, self.image_size = weights, layer, image_size
        self.method_options, self.batch_size, self.device = method_options, batch_size, device

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
        self.learnt_ = self._learn(shots)
        self.calibration_ = self._calibrate()
        return self

    def _calibrate(self) -> Calibration:
        """Probabilities and "none of these" from pictures held out of the shots."""
        return calibrate(lambda shots, query: self._answer(self._learn(shots), query), self.shots_)

    @torch.inference_mode()
    def _learn(self, shots: Shots) -> Learnt:
        """What the method derives from these shots, and from the unlabelled pictures if there are any."""
        support = shots.support(self.parts_.method)
        unlabelled = {} if self.unlabelled_ is None else {"unlabelled": self.unlabelled_.float().to(self.device)}
        return self.parts_.method.learn(support.maps.float().to(self.device), support.labels.to(self.device),
                                        **unlabelled)

    def _assemble(self, semi: bool) -> Parts:
        """The parts that the arguments name; with unlabelled pictures the method's semi-supervised twin."""
        name = f"{self.method}-semi" if semi and f"{self.method}-semi" in METHODS else self.method
        parts = assemble(name, self.backbone, self.weights, self.layer, self.image_size, self.method_options)
        if semi and not parts.method.takes_unlabelled:
            able = [known for known, kind in METHODS.items() if kind.takes_unlabelled]
            raise InputError(f"method {name!r} makes no use of unlabelled pictures; choose one of {', '.join(able)}")
        return parts.to(self.device)

    def _look_at(self, images: Iterable[Source], numbers: np.ndarray) -> tuple[Shots, Pictures]:
        """Labelled pictures as maps, with the views that the method and a calibration from single shots need."""
        check_images(images)
        labels = torch.from_numpy(numbers)
        asked = {0, *places_of(self.parts_.method.views)}
        single = labels.bincount()[labels] == 1                                                   # (n,)
        parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        pictures: list[bytes] = []
        for batch in batches(images, self.batch_size):
            pixels = read_pixels(batch, self.parts_.transform)                                    # (B, h, w, 3)
            rows = torch.arange(len(pictures), len(pictures) + len(batch))
            pictures += [thumbnail(picture) for picture in pixels]
            if len(pictures) > len(labels):
                break
            for place in range(len(LOOKS)):
                chosen = torch.ones_like(single[rows]) if place in asked else single[rows]        # (B,)
                if chosen.any():
                    maps = self.embed(pixels[chosen], place).half()
                    parts.append((maps, labels[rows][chosen], torch.full_like(rows[chosen], place), rows[chosen]))
        if len(pictures) != len(labels):
            more = " or more" if len(pictures) > len(labels) else ""
            raise InputError(f"{len(labels)} labels were given for {len(pictures)}{more} pictures; one each is needed")
        return Shots.of(*map(torch.cat, zip(*parts, strict=True))), Pictures(pictures)

    # ----------------------------------------------------------------------------------------------------- predicting

    def predict(self, images: Iterable[Source], reject: bool = False) -> np.ndarray:
        """The class of each picture (n,); with `reject` None where it is none of the classes."""
        check_fitted(self)
        if reject and not self.calibration_.rejects:
            warnings.warn("uncalibrated: nothing could be held out, so no picture is rejected", stacklevel=2)
        if not reject or not self.calibration_.rejects:
            labels = self.classes_[self._scores(images).argmax(1).numpy()]
            return labels.astype(object) if reject else labels
        judged = [self.judge(pixels) for pixels in self._pixels(images)]
        labels = self.classes_[torch.cat([one.scores.argmax(1) for one in judged]).numpy()]
        answers = labels.astype(object)
        answers[torch.cat([one.none_of_these for one in judged]).numpy()] = None
        return answers

    def predict_proba(self, images: Iterable[Source]) -> np.ndarray:
        """The probability of each class (n, N), calibrated on the labelled pictures."""
        scores = self._scores(images)
        return self.calibration_.probabilities(scores).numpy()

    def decision_function(self, images: Iterable[Source]) -> np.ndarray:
        """The method's scores (n, N); with two classes (n,), by how much the second leads."""
        scores = self._scores(images).double().numpy()
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def explain(self, image: Source) -> "Explanation":
        """What was kept of a picture, what it matched, how it voted."""
        check_fitted(self)
        if not self.parts_.method.compares_descriptors:
            raise InputError(f"method {self.method!r} compares no descriptors, so there is nothing to show; "
                             "explain needs dmn4, mn4, dn4 or odm")
        from ..evidence.explain import explain_image

        return explain_image(self, image)

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
        return find_suspects(self._scores_beside, self.calibration_.probabilities, self.shots_, self.classes_.tolist())

    def _scores_beside(self, support: Shots, pictures: Shots) -> Tensor:
        """The scores of some labelled pictures for a classifier that learnt from others alone: (Q, N)."""
        learnt = self._learn(support)
        return torch.cat([self._answer(learnt, maps.float()) for maps in pictures.maps.batches()])

    def judge(self, pixels: Tensor) -> "Judgement":
        """Everything that is said of a few pictures: bytes (B, h, w, 3), as `read_pixels` gives them."""
        return self.judge_maps(self.embed(pixels))

    def judge_maps(self, maps: Tensor) -> "Judgement":
        """The same of maps that `embed` gave, (B, C, H, W): several classifiers can share one embedding."""
        scores = self._answer(self.learnt_, maps)                                                 # (B, N)
        return Judgement(scores, self.calibration_.probabilities(scores),
                         self.calibration_.known(evidence(scores, likeness(self.shots_, maps))))

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

    def _scores(self, images: Iterable[Source]) -> Tensor:
        """The method's scores of all pictures: (n, N)."""
        check_fitted(self)
        parts = [self._answer(self.learnt_, self.embed(pixels)) for pixels in self._pixels(images)]
        if not parts:
            raise InputError("no pictures were given; at least one is needed")
        return torch.cat(parts)

    @torch.inference_mode()
    def _answer(self, learnt: Learnt, query: Tensor) -> Tensor:
        """The method's scores beside what it has learnt: (Q, C, H, W) -> (Q, N)."""
        return self.parts_.method.answer(learnt, query.to(self.device)).cpu()

    # -------------------------------------------------------------------------------------------------------- keeping

    def save(self, path: str | Path) -> None:
        """Write the classifier to a file, `birds.dmn4` for instance; `dmn4.load` reads it. No pickle inside."""
        check_fitted(self)
        about = {"parameters": self._parameters(), "parts": self.parts_.about(), "classes": stored(self.classes_),
                 "calibration": asdict(self.calibration_)}
        tensors = columns(self.shots_, self.pictures_, self.unlabelled_) | self.parts_.tensors()
        write_modelfile(Path(path), tensors, about)

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
    classifier.shots_, classifier.pictures_, classifier.unlabelled_ = held
    classifier.learnt_ = classifier._learn(classifier.shots_)
    classifier.calibration_ = about.calibration
    return classifier
