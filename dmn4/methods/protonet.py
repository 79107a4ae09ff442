"""Prototypical Networks (Snell et al., NeurIPS 2017): the nearest class mean in squared Euclidean distance."""

from torch import Tensor

from ..errors import choose
from .base import Method
from .checks import positive
from .vectors import VECTORS, class_means, squared_distances


class ProtoNet(Method):
    """Minus the squared distance to the mean of the shots of each class, over `temperature`."""

    vectorised = True

    def __init__(self, channels: int | None = None, vector: str = "gap", temperature: float = 1.0) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.any_size = self.reads_means = vector == "gap"
        self.temperature = positive("temperature", temperature)

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        return class_means(self.vector(support), labels)                # (N, d)

    def score(self, prototypes: Tensor, query: Tensor) -> Tensor:
        return -squared_distances(self.vector(query), prototypes) / self.temperature
