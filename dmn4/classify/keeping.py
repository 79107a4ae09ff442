"""A classifier as a file, and back."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from .calibration import Calibration, calibrate
from .contents import columns, contents
from .labels import restored, stored
from .learning import ARGUMENTS, Learner, check_fitted
from .modelfile import read_modelfile, write_modelfile
from .parts import rebuild

Kind = TypeVar("Kind", bound=Learner)


def save_classifier(classifier: Learner, path: Path) -> None:
    """Write all that a classifier learnt to a file that `opened` reads."""
    check_fitted(classifier)
    about = {"parameters": parameters(classifier), "parts": classifier.parts_.about(),
             "classes": stored(classifier.classes_), "calibration": asdict(classifier.calibration_)}
    held = columns(classifier.shots_, classifier.pictures_, classifier.unlabelled_, classifier.head_,
                   classifier.ruled_out_)
    write_modelfile(path, held | classifier.parts_.tensors(), about)


def parameters(classifier: Learner) -> dict[str, Any]:
    """The arguments as JSON can hold them; a backbone made elsewhere is given again when the file is loaded."""
    values = {name: getattr(classifier, name) for name in ARGUMENTS if name != "device"}
    return values | {"weights": None if classifier.weights is None else str(classifier.weights),
                     "backbone": None if isinstance(classifier.backbone, nn.Module) else classifier.backbone}


def opened(kind: type[Kind], path: str | Path, backbone: nn.Module | None = None, device: str = "cpu") -> Kind:
    """The classifier of a file that `save_classifier` wrote, as a PlainClassifier or a kind of it."""
    tensors, about = read_modelfile(Path(path))
    arguments = vars(about.parameters) | ({} if backbone is None else {"backbone": backbone})
    classifier = kind(**arguments, device=device)
    classifier.parts_ = rebuild(about.parts, tensors, backbone, str(path)).to(device)
    classifier.classes_ = restored(about.classes, repr(str(path)))
    held = contents(tensors, len(classifier.classes_), repr(str(path)))
    classifier.shots_, classifier.pictures_, classifier.unlabelled_, head, classifier.ruled_out_ = held
    classifier.learnt_, classifier.head_, classifier.objections_ = classifier._learn(classifier.shots_, head)
    promises = about.calibration
    classifier.calibration_ = (
        calibrate(classifier.parts_.method, classifier._judge_by, classifier.shots_) if promises is None else
        Calibration(promises.temperature, tuple(promises.fits), tuple(promises.chances)))
    return classifier
