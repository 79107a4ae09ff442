"""A backbone and a method as one model."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..backbones.base import Backbone
from ..methods.base import Method


class FewShotModel(nn.Module):
    """Images of an episode -> class scores: the backbone makes maps, the method compares them.

    `name` and `options` say how `build_method` made the method, so that a checkpoint can rebuild it.
    """

    backbone: Backbone
    method: Method

    def __init__(self, backbone: Backbone, method: Method, name: str = "",
                 options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.backbone, self.method = backbone, method
        self.name, self.options = name, dict(options or {})

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Scores of the query images: (n, 3, h, w), (n,), (Q, 3, h, w) -> (Q, N)."""
        maps = self.backbone(torch.cat([support, query]))                          # (n + Q, C, H, W)
        scores: Tensor = self.method(maps[: len(support)], labels, maps[len(support):])
        return scores
