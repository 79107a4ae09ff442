"""What FewShotClassifier does, without scikit-learn, whose import takes longer than an answer."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..images import Source
from ..methods.vectors import pooled
from .curve import LearningCurve, Progress, learning_curve
from .keeping import save_classifier
from .learning import check_fitted
from .suggestions import suggest_pictures
from .suspects import WRONG, Suspect, find_suspects
from .teaching import Teachable
from .verdict import Judgement, Verdict, refusable

if TYPE_CHECKING:
    from ..evidence.explanation import Explanation


class PlainClassifier(Teachable):
    """Names the kind of a photograph, given a few labelled ones of each kind; FewShotClassifier says the rest."""

    def predict(self, images: Iterable[Source], reject: bool | float = False) -> np.ndarray:
        """The class of each picture (n,); with `reject` None where it is none of the classes.

        `reject` is the share of known pictures that may be refused; True is 0.1. `calibration_.promise(reject)` says
        how sure that share is.
        """
        share = refusable(reject)
        judged = self._judged(images)
        answers: np.ndarray = self.classes_[torch.cat([judgement.scores.argmax(1) for judgement in judged]).numpy()]
        if not share:
            return answers
        if not self.calibration_.rejects(share):
            warnings.warn(self.calibration_.promise(share), stacklevel=2)
        answers = answers.astype(object)
        answers[torch.cat([judgement.refused(share) for judgement in judged]).numpy()] = None
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
        if coverage is None:
            return judged.verdicts(self.classes_.tolist(), reject)
        sets = self.calibration_.contains(judged.probabilities, coverage)
        return judged.verdicts(self.classes_.tolist(), reject, sets, vouched=self.calibration_.supports(coverage))

    def predict_proba(self, images: Iterable[Source]) -> np.ndarray:
        """The probability of each class (n, N), calibrated on the labelled pictures."""
        return torch.cat([judged.probabilities for judged in self._judged(images)]).numpy()

    def decision_function(self, images: Iterable[Source]) -> np.ndarray:
        """The method's scores (n, N); with two classes (n,), by how much the second leads."""
        scores: np.ndarray = torch.cat([judged.scores for judged in self._judged(images)]).double().numpy()
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

        They stand for pictures that no labelled one is like or that it is unsure of, and differ. Before `fit` they are
        a varied first set.
        """
        fitted = hasattr(self, "calibration_")
        if not fitted:
            self.parts_ = self._assemble(semi=False)
        maps = (self.embed(pixels) for pixels in self._pixels(images))
        looked_at = ((pooled(part), self._doubts(part) if fitted else torch.ones(len(part))) for part in maps)
        return suggest_pictures(looked_at, n, self.shots_ if fitted else None).numpy()

    def _doubts(self, maps: Tensor) -> Tensor:
        """How unsure the nearest class of each picture is: (B, C, H, W) -> (B,), 0 to 1."""
        return 1 - self.judge_maps(maps).probabilities.amax(1)

    def suspects(self, wrong: float = WRONG) -> list[Suspect]:
        """Labelled pictures that the others would name differently, worst first, with the evidence.

        `wrong` is the share of labels that may be wrong: with 0.1 a label is a suspect if another is nine times as
        probable; with 0.5 if any other is more probable.
        """
        check_fitted(self)
        return find_suspects(self._judge_by, self.calibration_.probabilities, self.shots_, self.classes_.tolist(),
                             wrong)

    def curve(self, progress: Progress = lambda steps, words: steps) -> LearningCurve:
        """How accurate it is, and would be with more labelled pictures, for all classes and each; what is confused.

        Each labelled picture is judged by some of the others. `progress` is given the steps and a few words, and
        returns the steps; it can show a bar.
        """
        check_fitted(self)
        return learning_curve(self._judge_by, self.shots_, self.classes_.tolist(), progress)

    def judge(self, pixels: Tensor) -> "Judgement":
        """Everything that is said of a few pictures: bytes (B, h, w, 3), as `read_pixels` gives them."""
        return self.judge_maps(self.embed(pixels))

    def judge_maps(self, maps: Tensor) -> "Judgement":
        """The same of maps that `embed` gave, (B, C, H, W): several classifiers can share one embedding."""
        compared = self.parts_.method.compared or maps.shape[1]
        return self._judgement(*self._answer(self.learnt_, self.head_, self.objections_, maps[:, :compared],
                                             pooled(maps)))

    def judge_scores(self, scores: Tensor, likely: Tensor, means: Tensor) -> "Judgement":
        """The same of scores (B, N) that a search gave, what the head says (B, N) and the means of the maps (B, C)."""
        return self._judgement(*self._heard(self.learnt_, self.head_, self.objections_, scores, likely, means))

    def _judgement(self, scores: Tensor, fit: Tensor) -> "Judgement":
        """Scores (B, N) and how well the pictures fit the classes (B,), as a promise."""
        return Judgement(scores, self.calibration_.probabilities(scores), self.calibration_.known(fit))

    def _judged(self, images: Iterable[Source]) -> list[Judgement]:
        """What is said of all pictures, a batch at a time."""
        check_fitted(self)
        judged = [self.judge(pixels) for pixels in self._pixels(images)]
        if not judged:
            raise InputError("no pictures were given; at least one is needed")
        return judged

    def save(self, path: str | Path) -> None:
        """Write the classifier to a file, `birds.dmn4` for instance; `dmn4.load` reads it. No pickle inside."""
        save_classifier(self, Path(path))
