"""FRN (Wertheimer et al., CVPR 2021): rebuild a query's descriptors from each class's; the least error wins."""

import torch
from torch import Tensor, nn

from ..errors import choose
from .base import Method
from .solvers import ridge


class FRN(Method):
    """Minus the error of a ridge regression from the descriptors of each class to the query's, times a learnt scale.

    Learnt besides: alpha and beta, in lambda = (descriptors of the class / C) e^alpha and in rho = e^beta, which
    multiplies what was rebuilt. `scaling="sqrt"` divides features by sqrt(C), as the paper does for ResNet-12.
    """

    any_size = True

    def __init__(self, channels: int | None = None, scaling: str = "none", overlap: float = 0.03) -> None:
        super().__init__(channels)
        self.scaling = choose("scaling", scaling, ("none", "sqrt"))
        self.overlap = overlap
        self.alpha, self.beta = nn.Parameter(torch.tensor(0.0)), nn.Parameter(torch.tensor(0.0))
        self.scale = nn.Parameter(torch.tensor(1.0))

    def score(self, classes: list[Tensor], query: Tensor) -> Tensor:
        wanted = self.locations(query)                                      # (Q, M, C)
        errors = [self.error(rows, wanted) for rows in classes]
        return -self.scale * torch.stack(errors, dim=1)                     # (Q, N)

    def error(self, rows: Tensor, wanted: Tensor) -> Tensor:
        """How badly one class rebuilds each query, a mean over its locations: (S, C), (Q, M, C) -> (Q,)."""
        strength = len(rows) / rows.shape[1] * self.alpha.exp() + 1e-6      # lambda
        rebuilt = self.beta.exp() * ridge(rows, rows, wanted.flatten(0, 1), strength).view_as(wanted)
        return (rebuilt - wanted).square().sum(2).mean(1)

    def auxiliary(self, support: Tensor, labels: Tensor, query: Tensor, query_labels: Tensor) -> Tensor:
        """The overlap of the classes: sum of ||S_i S_j^T||^2 over pairs i < j, the whole support of norm 1."""
        rows = self.derive(support, labels)
        norm = torch.cat(rows).square().sum()
        grams = torch.stack([descriptors.T @ descriptors for descriptors in rows]) / norm   # (N, C, C)
        return self.overlap * (grams.sum(0).square().sum() - grams.square().sum()) / 2      # ||S T^T||^2 = <G_S, G_T>

    def derive(self, support: Tensor, labels: Tensor) -> list[Tensor]:
        """The descriptors of each class, those of all its shots together: (n, C, H, W), (n,) -> N of (K M, C)."""
        each = self.locations(support)                                      # (n, M, C)
        return [each[labels == c].flatten(0, 1) for c in range(int(labels.max()) + 1)]

    def locations(self, maps: Tensor) -> Tensor:
        """Descriptors as they are, or divided by sqrt(C): (n, C, H, W) -> (n, M, C)."""
        rows = maps.flatten(2).mT
        return rows / rows.shape[2] ** 0.5 if self.scaling == "sqrt" else rows
