"""Few-shot image classification by discriminative mutual nearest neighbours (arXiv:2103.08160)."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .backbones import BACKBONES, build_backbone
    from .bulk.on_ray import RayPredictor
    from .bulk.predict import predict_many
    from .classify.classifier import FewShotClassifier, load
    from .errors import InputError
    from .methods import METHODS, build_method

_HOMES = {
    "METHODS": "methods", "build_method": "methods",
    "BACKBONES": "backbones", "build_backbone": "backbones",
    "FewShotClassifier": "classify.classifier", "load": "classify.classifier",
    "predict_many": "bulk.predict", "RayPredictor": "bulk.on_ray",
    "InputError": "errors",
}

__all__ = ["BACKBONES", "METHODS", "FewShotClassifier", "InputError", "RayPredictor", "build_backbone", "build_method",
           "load", "predict_many"]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used: `import dmn4` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dmn4' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dmn4.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
