"""Covariance pooling (Wertheimer & Hariharan, CVPR 2019): prototypes of second-order features.

Made for signed maps (a backbone without a final ReLU). Batch folding and localisation by boxes, other parts of that
paper, are not here.
"""

from torch import Tensor

from .base import Method
from .checks import positive
from .vectors import class_means, squared_distances


class Covariance(Method):
    """Minus the squared distance to the class mean of covariance vectors, over `temperature`."""

    any_size = True

    def __init__(self, channels: int | None = None, temperature: float = 1.0) -> None:
        super().__init__(channels)
        self.temperature = positive("temperature", temperature)

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        return class_means(covariance_vectors(support), labels)         # (N, C C)

    def score(self, prototypes: Tensor, query: Tensor) -> Tensor:
        return -squared_distances(covariance_vectors(query), prototypes) / self.temperature


def covariance_vectors(maps: Tensor) -> Tensor:
    """X X^T / M, not centred, after a signed square root, in a row: (n, C, H, W) -> (n, C C)."""
    channels = maps.flatten(2)                                          # (n, C, M)
    moments = channels @ channels.transpose(1, 2) / channels.shape[2]   # (n, C, C)
    rooted = moments.sign() * (moments.abs() + 1e-5).sqrt()             # 1e-5 bounds the slope at 0
    return rooted.flatten(1)
