"""The backbone a service runs, as it was chosen: small enough to be sent to every worker process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..backbones.named import is_outside, written
from ..classify.modelfile import read_modelfile

USUAL = "efficientnet_lite0"


@dataclass(frozen=True)
class ChosenBackbone:
    """A backbone, by its name or as a module, and its weights. The workers build it; this process never does."""

    source: Any = USUAL
    weights: str | None = None

    @classmethod
    def of_model(cls, path: Path) -> Self:
        """The one that a model file was made with, if it can be named."""
        parts = read_modelfile(path)[1].parts
        name, options, weights = parts.backbone.name, parts.backbone.options, parts.backbone.weights
        if is_outside(name):
            return cls(written(name, options | {"image_size": parts.transform.size}))
        return cls() if weights is None else cls(name, weights)

    @property
    def name(self) -> str:
        """What the backbone is called: of one from elsewhere not where it lies."""
        if isinstance(self.source, str):
            kind, _, place = self.source.partition(":")
            return f"{kind}:{Path(place).name}" if place.startswith("/") else self.source
        return getattr(self.source, "name", "") or type(self.source).__name__
