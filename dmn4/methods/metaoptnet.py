"""MetaOptNet (Lee et al., CVPR 2019): a linear classifier fitted to the support images inside every episode.

`metaoptnet` fits Crammer and Singer's multi-class SVM, `metaoptnet-rr` a ridge regression; both train through the fit.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import choose
from .base import Method
from .checks import positive
from .solvers import ridge, svm_dual
from .vectors import VECTORS


class MetaOptNet(Method):
    """Multi-class SVM on the support vectors: scores are dot products with its weights, times a learnt scale.

    `bound` is the SVM's C; `identity` is what the released code adds to the kernel, which changes the solution.
    """

    def __init__(self, channels: int | None = None, vector: str = "flat", bound: float = 0.1,
                 identity: float = 1.0) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.reads_means = vector == "gap"
        self.bound, self.identity = positive("bound", bound), identity
        self.scale = nn.Parameter(torch.tensor(1.0))

    def derive(self, support: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The support vectors and the dual variables of the SVM: (n, C, H, W), (n,) -> (n, d), (n, N)."""
        rows = self.vector(support)
        dual = svm_dual(rows.double() @ rows.double().T, labels, self.bound, self.identity)
        return rows, dual.to(rows.dtype)

    def score(self, machine: tuple[Tensor, Tensor], query: Tensor) -> Tensor:
        rows, dual = machine
        return self.scale * (self.vector(query) @ rows.T) @ dual


class MetaOptNetRidge(Method):
    """One-against-the-rest ridge regression on the support vectors, times a learnt scale.

    `target` is the value that a member of the class is regressed on: 2 in the released code, 1 in R2D2.
    """

    def __init__(self, channels: int | None = None, vector: str = "flat", strength: float = 50.0,
                 target: float = 2.0) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.reads_means = vector == "gap"
        self.strength, self.target = positive("strength", strength), target
        self.scale = nn.Parameter(torch.tensor(1.0))

    def derive(self, support: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The support vectors and what they are regressed on: (n, C, H, W), (n,) -> (n, d), (n, N)."""
        rows = self.vector(support)
        return rows, self.target * F.one_hot(labels).to(rows.dtype)

    def score(self, shots: tuple[Tensor, Tensor], query: Tensor) -> Tensor:
        return self.scale * ridge(*shots, self.vector(query), self.strength)
