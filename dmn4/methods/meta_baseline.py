"""Meta-Baseline (Chen et al., ICCV 2021): a pre-trained network, then episodes with scaled cosines to class means."""

import torch
from torch import Tensor, nn

from .base import Method
from .vectors import class_means, cosines, pooled


class MetaBaseline(Method):
    """A learnt scale times the cosine with the mean of each class: averaged first, normalised after."""

    any_size = True
    reads_means = True
    vectorised = True

    def __init__(self, channels: int | None = None, scale: float = 10.0) -> None:
        super().__init__(channels)
        self.scale = nn.Parameter(torch.tensor(float(scale)))

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        return class_means(pooled(support), labels)                     # (N, C)

    def score(self, prototypes: Tensor, query: Tensor) -> Tensor:
        return self.scale * cosines(pooled(query), prototypes)
