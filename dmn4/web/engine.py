"""Which network a service runs, by name: small enough to be sent to every worker process."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Engine:
    """A backbone, by its name or as a module, and its weights. The workers build it; this process never does."""

    backbone: Any = "efficientnet_lite0"
    weights: str | None = None

    @property
    def name(self) -> str:
        """What the backbone is called."""
        if isinstance(self.backbone, str):
            return self.backbone
        return getattr(self.backbone, "name", "") or type(self.backbone).__name__
