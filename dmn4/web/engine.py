"""Learning, judging and explaining with one backbone that all classifiers of the process share."""

import tempfile
from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ..classify.classifier import FewShotClassifier, Judgement, load
from ..classify.modelfile import read_modelfile
from ..classify.parts import Parts, assemble, checksum
from ..errors import InputError
from ..evidence.explain import Explanation
from ..images.looks import read_pixels

METHOD = "dmn4"
RULES = ("dn4", "mn4", "dmn4")                                # what the page can show, and a model file may name
BATCH = 8                                                     # pictures between two steps of the progress


class Engine:
    """Makes classifiers; every change gives a new one and leaves the old one as it was."""

    def __init__(self, backbone: str | nn.Module = "efficientnet_lite0", weights: str | None = None) -> None:
        self.parts: Parts = assemble(METHOD, backbone, weights)
        self.given: dict[str, object] = {"backbone": backbone, "weights": weights, "batch_size": BATCH}
        self.sha256 = checksum(self.parts.backbone)

    @property
    def backbone(self) -> str:
        """What the backbone is called."""
        return getattr(self.parts.backbone, "name", "") or type(self.parts.backbone).__name__

    def learn(self, pictures: Iterable[bytes], labels: list[str]) -> FewShotClassifier:
        """A classifier of these pictures."""
        if len(Counter(labels)) < 2:
            raise InputError("pictures of one class were sent; a classifier needs at least two classes")
        classifier = FewShotClassifier(METHOD, self.parts.backbone, batch_size=BATCH).fit(pictures, labels)
        return self.share(classifier, self.parts)

    def add(self, classifier: FewShotClassifier, pictures: Iterable[bytes], labels: list[str]) -> FewShotClassifier:
        """The classifier with further pictures, of classes it knows or of new ones."""
        return copy(classifier).partial_fit(pictures, labels)

    def forget(self, classifier: FewShotClassifier, label: str) -> FewShotClassifier:
        """The classifier without a class."""
        return copy(classifier).forget(label)

    def judge(self, classifier: FewShotClassifier, picture: bytes) -> Judgement:
        """What it says of a picture."""
        return classifier.judge(read_pixels([picture], classifier.parts_.transform))

    def explain(self, classifier: FewShotClassifier, picture: bytes, rule: str | None) -> Explanation:
        """Why it says so, as its own method sees it or as one of the RULES does."""
        explanation = classifier.explain(picture)
        return explanation if rule is None else explanation.under(rule)

    def share(self, classifier: FewShotClassifier, parts: Parts) -> FewShotClassifier:
        """The classifier with the shared backbone in place of its copy, and with the arguments that rebuild it."""
        classifier.parts_ = parts
        classifier.set_params(**self.given)
        return classifier

    # -------------------------------------------------------------------------------------------------- model files

    def model_file(self, classifier: FewShotClassifier) -> bytes:
        """The content of the *.dmn4 file of a classifier."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.dmn4")
            classifier.save(path)
            return path.read_bytes()

    def open_model(self, content: bytes) -> FewShotClassifier:
        """The classifier in the content of a *.dmn4 file. It comes from outside: nothing in it is believed."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.dmn4")
            path.write_bytes(content)
            try:
                self.check_description(path)
                classifier = load(path, backbone=self.parts.backbone)
                self.check_contents(classifier)
            except Exception as error:                        # a file made to harm can raise nearly every type
                reason = str(error).replace(str(path), "the file sent") if isinstance(error, InputError) else "damaged"
                raise InputError(f"cannot open the model file: {reason}") from None
        own = classifier.parts_
        return self.share(classifier, replace(self.parts, method=own.method, method_name=own.method_name,
                                              method_options=own.method_options))

    def check_description(self, path: Path) -> None:
        """Refuse a file made with another backbone, preprocessing or method, before anything is built from it."""
        about = read_modelfile(path)[1]
        parts, classes = about.parts, about.classes
        if parts.backbone.sha256 != self.sha256:
            raise InputError(f"it was made with the backbone {ascii(parts.backbone.name)[:40]} or other weights; "
                             f"this service runs {self.backbone!r}")
        if parts.method not in RULES or not set(parts.method_options) <= {"vote", "shots", "centre"}:
            raise InputError(f"its method is {ascii(parts.method)[:40]} with options of its own; this service "
                             f"takes {', '.join(RULES)}")
        if classes.type != np.array(classes.values).dtype.str or not classes.type.startswith("<U"):
            raise InputError("its classes are not text")

    def check_contents(self, classifier: FewShotClassifier) -> None:
        """Refuse a file whose tensors do not fit together or do not fit the backbone."""
        shots, pictures = classifier.shots_, classifier.pictures_
        if classifier.parts_.transform != self.parts.transform:
            raise InputError("its pictures were prepared in another way than this service does")
        first = read_pixels(pictures, self.parts.transform)[:1]                   # all of them can be read
        shape = (len(shots.maps), *classifier.embed(first).shape[1:])
        plain = shots.rows(shots.look == 0)
        fits = (shots.maps.shape == shape and all(bool(maps.isfinite().all()) for maps in shots.maps.batches())
                and all(column.dtype == torch.int64 and column.shape == shape[:1]
                        for column in (shots.labels, shots.look, shots.image))
                and set(plain.labels.tolist()) == set(shots.labels.tolist()) == set(range(len(classifier.classes_)))
                and sorted(plain.image.tolist()) == sorted(set(shots.image.tolist())) == list(range(len(pictures)))
                and len(set(classifier.classes_.tolist())) == len(classifier.classes_) >= 2
                and classifier.unlabelled_ is None and bool(classifier.judge(first).probabilities.isfinite().all()))
        if not fits:
            raise InputError("its shots do not fit together")
