"""Predictions as tasks of Label Studio, to be checked there."""

from typing import Any
from urllib.parse import quote

from .predictions import Prediction

LOCAL = "/data/local-files/?d="                               # how Label Studio names files of its local storage


def as_task(prediction: Prediction, model: str) -> dict[str, Any] | None:
    """A picture with its verdict as a pre-annotation; None if it could not be read.

    The names are those of Label Studio's template for images: <Image name="image"/>, <Choices name="choice"/>.
    """
    verdict = prediction.verdict
    if verdict is None:
        return None
    result = {"from_name": "choice", "to_name": "image", "type": "choices", "value": {"choices": [verdict.words]}}
    return {"data": {"image": LOCAL + quote(prediction.name.lstrip("/"))},
            "predictions": [{"model_version": model, "score": round(verdict.probability, 4), "result": [result]}]}
