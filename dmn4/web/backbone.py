"""The backbone a service runs, as it was chosen: small enough to be sent to every worker process."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ChosenBackbone:
    """A backbone, by its name or as a module, and its weights. The workers build it; this process never does."""

    source: Any = "efficientnet_lite0"
    weights: str | None = None

    @property
    def name(self) -> str:
        """What the backbone is called."""
        if isinstance(self.source, str):
            return self.source
        return getattr(self.source, "name", "") or type(self.source).__name__
