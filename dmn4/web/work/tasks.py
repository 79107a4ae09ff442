"""What a worker process does: learn, answer and explain with one backbone that all its classifiers share."""

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence, Sized
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from ...classify.classifier import FewShotClassifier, load
from ...classify.parts import Parts, assemble, checksum
from ...classify.verdict import COVERAGE, NONE
from ...errors import InputError
from ...evidence.explain import judge_and_explain
from ...sorting import curves
from ..answers import RULES, as_prediction, as_suspect
from ..backbone import ChosenBackbone
from ..limits import Limits, check_size
from .opening import check_contents, check_thumbnails, open_picture, open_pictures, read_model
from .problems import Gone, TooLarge, out_of_memory

METHOD = "dmn4-linear"
TAKEN = (*RULES, METHOD)                                      # methods that a model file may name
BATCH = 8                                                     # pictures between two steps of the progress
IN_MEMORY = 3                                                 # times its file that a classifier takes, roughly
Tell = Callable[[int], None]
Item = TypeVar("Item")


class Tasks:
    """Makes classifiers and files of them; every change gives a new one. No path comes from a client."""

    def __init__(self, backbone: ChosenBackbone, limits: Limits) -> None:
        self.backbone, self.limits = backbone, limits
        self.parts: Parts = assemble(METHOD, backbone.source, backbone.weights)
        self.sha256 = checksum(self.parts.backbone)
        self.known: OrderedDict[str, tuple[FewShotClassifier, int]] = OrderedDict()     # by the name of the file

    # --------------------------------------------------------------------------------------------------- in memory

    def classifier(self, path: Path, sha256: str = "") -> FewShotClassifier:
        """The classifier of a file of this service; the most recently used ones stay in memory."""
        if path.name not in self.known:
            if sha256 and checksum_of(path) != sha256:
                raise OSError(f"{path} is damaged: its checksum is not the one in the database")
            self.remember(path, self.shared(load(path, backbone=self.parts.backbone)))
        self.known.move_to_end(path.name)
        return self.known[path.name][0]

    def remember(self, path: Path, classifier: FewShotClassifier) -> None:
        """Keep a classifier in memory; those that were not used for longest leave."""
        self.known[path.name] = classifier, IN_MEMORY * path.stat().st_size
        while len(self.known) > 1 and sum(size for _, size in self.known.values()) > self.limits.worker_bytes // 3:
            self.known.popitem(last=False)

    def shared(self, classifier: FewShotClassifier) -> FewShotClassifier:
        """The classifier with the shared backbone in place of its copy, and with the arguments that rebuild it."""
        parts = classifier.parts_
        classifier.parts_ = replace(self.parts, method=parts.method, method_name=parts.method_name,
                                    method_options=parts.method_options)
        classifier.set_params(backbone=self.backbone.source, weights=self.backbone.weights, batch_size=BATCH)
        return classifier

    # ---------------------------------------------------------------------------------------------------- learning

    def learn(self, tell: Tell, out: Path, pictures: Sequence[bytes], labels: list[str]) -> dict[str, Any]:
        """A new classifier of these pictures, in a file."""
        if len(Counter(labels)) < 2:
            raise InputError("pictures of one class were sent; a classifier needs at least two classes")
        classifier = FewShotClassifier(METHOD, self.parts.backbone, batch_size=BATCH)
        return self.written(out, self.shared(classifier.fit(self.followed(pictures, tell), labels)))

    def add(self, tell: Tell, out: Path, path: Path, sha256: str, pictures: Sequence[bytes],
            labels: list[str]) -> dict[str, Any]:
        """The classifier with further pictures, of classes it knows or of new ones."""
        known = self.classifier(path, sha256)
        check_size([*known.classes_.tolist(), *labels], len(known.pictures_) + len(labels), self.limits)
        return self.written(out, copy(known).partial_fit(self.followed(pictures, tell), labels))

    def forget(self, tell: Tell, out: Path, path: Path, sha256: str, label: str) -> dict[str, Any]:
        """The classifier without a class."""
        known = self.classifier(path, sha256)
        if label not in known.classes_.tolist():
            raise Gone("there is no such class")
        return self.written(out, copy(known).forget(label))

    def relabel(self, tell: Tell, out: Path, path: Path, sha256: str, number: int, label: str | None) -> dict[str, Any]:
        """The classifier with another label for one of its pictures, or without this picture."""
        known = self.classifier(path, sha256)
        check_number(known.pictures_, number)
        check_size([*known.classes_.tolist(), *([label] if label else [])], len(known.pictures_), self.limits)
        return self.written(out, copy(known).relabel(number, label))

    def rule_out(self, tell: Tell, out: Path, path: Path, sha256: str, pictures: Sequence[bytes],
                 labels: list[str]) -> dict[str, Any]:
        """The classifier with pictures that are not of a class, or none of these."""
        known = self.classifier(path, sha256)
        check_size(known.classes_.tolist(), len(known.ruled_out_) + len(labels), self.limits)
        meant = [None if label == NONE else label for label in labels]
        return self.written(out, copy(known).rule_out(self.followed(pictures, tell), meant))

    def take_back(self, tell: Tell, out: Path, path: Path, sha256: str, number: int) -> dict[str, Any]:
        """The classifier without one of these pictures."""
        known = self.classifier(path, sha256)
        check_number(known.ruled_out_, number)
        return self.written(out, copy(known).take_back(number))

    def followed(self, pictures: Sequence[bytes], tell: Tell) -> Iterator[Any]:
        """The pictures, opened; each one that was looked at is told."""
        for number, picture in enumerate(open_pictures(pictures, self.parts.transform, self.limits)):
            tell(number)
            yield picture

    def written(self, out: Path, classifier: FewShotClassifier) -> dict[str, Any]:
        """What the store has to know of a classifier, once it is in a file."""
        classifier.save(out)
        self.remember(out, classifier)
        return {"classes": known_classes(classifier), "pictures": len(classifier.pictures_),
                "bytes": out.stat().st_size, "sha256": checksum_of(out)}

    # --------------------------------------------------------------------------------------------------- answering

    def answer(self, jobs: Sequence[dict[str, Any]]) -> Iterator[bytes | Exception]:
        """A prediction or an explanation for each picture, as JSON; the pictures go through the network together."""
        opened = [attempt(open_picture, job["picture"], self.parts.transform, self.limits) for job in jobs]
        readable = [pixels for pixels in opened if isinstance(pixels, torch.Tensor)]
        maps = iter(self.embed(torch.cat(readable)) if readable else torch.empty(0))
        for job, pixels in zip(jobs, opened, strict=True):
            yield attempt(self.said, next(maps), job) if isinstance(pixels, torch.Tensor) else pixels

    @torch.inference_mode()
    def embed(self, pixels: torch.Tensor) -> torch.Tensor:
        """Maps of pictures: bytes (B, h, w, 3) -> (B, C, H, W)."""
        plain = FewShotClassifier(METHOD)
        plain.parts_ = self.parts
        return plain.embed(pixels)

    def said(self, maps: torch.Tensor, job: dict[str, Any]) -> bytes:
        """What a classifier says of the map of a picture (C, H, W), and why, as JSON."""
        classifier, rule = self.classifier(job["path"], job["sha256"]), job["rule"]
        if job["why"]:
            judged, evidence = judge_and_explain(classifier, maps)
        else:
            judged, evidence = classifier.judge_maps(maps[None]), None
        [verdict] = classifier.verdicts(judged, reject=True, coverage=COVERAGE)
        prediction = as_prediction(classifier.classes_.tolist(), judged, verdict)
        if evidence is None:
            return prediction.model_dump_json().encode()
        shown = replace(evidence if rule is None else evidence.under(rule), said=verdict.line)
        return json.dumps(shown.to_json() | {"prediction": prediction.model_dump()}, allow_nan=False).encode()

    def shot(self, tell: Tell, path: Path, sha256: str, number: int) -> bytes:
        """One of the pictures learnt from, as JPEG."""
        known = self.classifier(path, sha256)
        check_number(known.pictures_, number)
        return known.pictures_[number]

    def ruled_out(self, tell: Tell, path: Path, sha256: str) -> list[str]:
        """What each picture that was ruled out is not: a class, or none of these."""
        known = self.classifier(path, sha256)
        return [name or NONE for name in known.ruled_out_.names(known.classes_.tolist())]

    def ruled_out_shot(self, tell: Tell, path: Path, sha256: str, number: int) -> bytes:
        """One of these pictures, as JPEG."""
        known = self.classifier(path, sha256).ruled_out_
        check_number(known, number)
        return known.pictures[number]

    # --------------------------------------------------------------------------------------------------- labelling

    def suspects(self, tell: Tell, path: Path, sha256: str) -> list[dict[str, Any]]:
        """The pictures learnt from that the others would name differently, worst first."""
        return [as_suspect(suspect).model_dump() for suspect in self.classifier(path, sha256).suspects()]

    def curve(self, tell: Tell, path: Path, sha256: str) -> dict[str, Any]:
        """How accurate the classifier is, and would be with more pictures."""
        return curves.as_dict(self.classifier(path, sha256).curve())

    def suggest(self, tell: Tell, path: Path, sha256: str, pictures: Sequence[bytes], count: int) -> list[int]:
        """Which of these pictures to label next: their places, the most useful first."""
        places: list[int] = self.classifier(path, sha256).suggest(self.followed(pictures, tell), count).tolist()
        return places

    # ------------------------------------------------------------------------------------------------- model files

    def open_model(self, tell: Tell, out: Path, path: Path) -> dict[str, Any]:
        """The classifier of a *.dmn4 file from outside, written anew."""
        return self.written(out, self.outside_model(path))

    def outside_model(self, path: Path) -> FewShotClassifier:
        """The classifier of a file from outside, or one line that says why it is not taken."""
        try:
            return self.checked_model(path)
        except TooLarge:
            raise
        except Exception as error:                            # a file made to harm can raise nearly every type
            if out_of_memory(error):
                raise
            reason = str(error).replace(str(path), "the file sent") if isinstance(error, InputError) else "damaged"
            raise InputError(f"cannot open the model file: {reason}") from None

    def checked_model(self, path: Path) -> FewShotClassifier:
        """The classifier of a file, if everything in it fits this service."""
        tensors, about = read_model(path, self.limits)
        parts = about.parts
        if parts.backbone.sha256 != self.sha256:
            raise InputError(f"it was made with the backbone {ascii(parts.backbone.name)[:40]} or other weights; "
                             f"this service runs {self.backbone.name!r}")
        if parts.method not in TAKEN or not set(parts.method_options) <= {"vote", "shots", "centre", "compared"}:
            raise InputError(f"its method is {ascii(parts.method)[:40]} with options of its own; this service "
                             f"takes {', '.join(TAKEN)}")
        for name in ("pictures", "ruled_out"):
            if f"{name}.ends" in tensors:
                check_thumbnails(tensors[f"{name}.ends"], tensors[f"{name}.bytes"], self.parts.transform)
        classifier = load(path, backbone=self.parts.backbone)
        check_contents(classifier, self.parts.transform)
        return self.shared(classifier)

    def host(self, tell: Tell, path: Path) -> dict[str, Any]:
        """What the service has to know of a file of its operator; it is checked like one from outside."""
        classifier = self.outside_model(path)
        return {"classes": known_classes(classifier), "pictures": len(classifier.pictures_),
                "bytes": path.stat().st_size, "sha256": checksum_of(path)}


def check_number(pictures: Sized, number: int) -> None:
    """Refuse the number of a picture that is not there."""
    if not 0 <= number < len(pictures):
        raise Gone(f"there is no picture {number}; the last one is {len(pictures) - 1}")


def known_classes(classifier: FewShotClassifier) -> list[tuple[str, list[int]]]:
    """Classes with the numbers of their pictures."""
    plain = classifier.shots_.rows(classifier.shots_.look == 0)
    return [(label, plain.image[plain.labels == number].tolist())
            for number, label in enumerate(classifier.classes_.tolist())]


def checksum_of(path: Path) -> str:
    """Sha256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def attempt(function: Callable[..., Item], *arguments: Any) -> Item | Exception:
    """What a function returns, or the error it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return error
