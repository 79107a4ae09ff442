"""Dense Classification (Lifchitz et al., CVPR 2019): every location is classified, the probabilities are averaged.

Pre-training classifies every location of a base image with the image's label (`CosineHead` on rows of locations).
The implanting stage of that paper, which trains extra channels at test time, is a separate method and not here.
"""

import math

import torch
from torch import Tensor, nn

from ..errors import choose
from .base import Method
from .vectors import class_means, cosines, pooled


class DC(Method):
    """log of the mean, over the query's locations, of the softmax of scaled cosines with the class means.

    `locations="pooled"` averages the query's locations before the softmax, the form the authors also report.
    """

    any_size = True

    def __init__(self, channels: int | None = None, scale: float = 10.0, locations: str = "dense") -> None:
        super().__init__(channels)
        self.locations = choose("locations", locations, ("dense", "pooled"))
        self.scale = nn.Parameter(torch.tensor(float(scale)))

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        return class_means(pooled(support), labels)                     # (N, C)

    def score(self, prototypes: Tensor, query: Tensor) -> Tensor:
        rows = query.flatten(2).transpose(1, 2)                         # (Q, M, C)
        if self.locations == "pooled":
            rows = rows.mean(1, keepdim=True)                           # (Q, 1, C)
        return log_mean_probability(self.scale * cosines(rows, prototypes))


def log_mean_probability(logits: Tensor) -> Tensor:
    """log of the softmax over classes averaged over locations: (Q, M, N) -> (Q, N)."""
    return logits.log_softmax(2).logsumexp(1) - math.log(logits.shape[1])
