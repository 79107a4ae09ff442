"""DSN (Simon et al., CVPR 2020): a class is the subspace its shots span; a query belongs where it leaves least over."""

import torch
from torch import Tensor, nn

from ..errors import choose
from .base import Method
from .solvers import leading_directions
from .vectors import VECTORS, squared_distances


class DSN(Method):
    """Distance to the subspace of the K - 1 strongest directions of each class.

    `form`: "conv", around the class mean, minus the distance; "resnet", through the origin, minus the squared distance
    per dimension, times a learnt scale. A single shot is joined by its flip; without it the class is its mean ("conv")
    or the line through its shot ("resnet"). The auxiliary loss keeps the subspaces at right angles ("conv" alone).
    """

    views = ("flip",)
    views_shots = 1

    def __init__(self, channels: int | None = None, vector: str = "flat", form: str = "conv",
                 orthogonality: float = 0.03) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.reads_means = vector == "gap"
        self.form = choose("form of dsn", form, ("conv", "resnet"))
        self.orthogonality = orthogonality
        if form == "resnet":
            self.scale = nn.Parameter(torch.tensor(1.0))

    def score(self, subspaces: list[tuple[Tensor, Tensor]], query: Tensor) -> Tensor:
        rows = self.vector(query).double()                                  # (Q, d)
        rest = torch.stack([left_over(rows, *subspace) for subspace in subspaces], 1)
        if self.form == "conv":
            return -(rest + 1e-12).sqrt().to(query.dtype)                   # (Q, N)
        return -self.scale * (rest / rows.shape[1]).to(query.dtype)

    def derive(self, support: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Origin and directions of each class: (n, C, H, W), (n,) -> N pairs of (d,) and (K - 1, d), in float64."""
        rows = self.vector(support).double()                                # (n, d)
        shots = [rows[labels == c] for c in range(int(labels.max()) + 1)]   # N of (K, d)
        if self.form == "conv":
            return [(vectors.mean(0), leading_directions(vectors - vectors.mean(0), len(vectors) - 1))
                    for vectors in shots]
        return [(torch.zeros_like(vectors[0]), leading_directions(vectors, max(len(vectors) - 1, 1)))
                for vectors in shots]

    def auxiliary(self, support: Tensor, labels: Tensor, query: Tensor, query_labels: Tensor) -> Tensor | None:
        """The overlap of the subspaces, sum of ||P_j P_k^T||^2 over ordered pairs of classes; None for "resnet"."""
        if self.form == "resnet":
            return None
        each = [directions for _, directions in self.derive(support, labels)]
        sizes = torch.tensor([len(directions) for directions in each], device=support.device)
        owner = torch.arange(len(each), device=support.device).repeat_interleave(sizes)
        overlap = (torch.cat(each) @ torch.cat(each).T).square()
        return self.orthogonality * overlap[owner[:, None] != owner].sum().to(support.dtype)


def left_over(query: Tensor, origin: Tensor, directions: Tensor) -> Tensor:
    """Squared distance of each query to a subspace: (Q, d), (d,), (r, d) -> (Q,).

    ||x - P^T P x||^2 multiplied out: the residuals (Q, d) themselves are never formed.
    """
    along = query @ directions.T - directions @ origin                      # (Q, r)  P x
    projected = (along @ (directions @ directions.T) * along).sum(1)        # (Q,)    ||P^T P x||^2
    whole = squared_distances(query, origin[None])[:, 0]                    # (Q,)    ||x||^2
    return (whole - 2 * along.square().sum(1) + projected).clamp(min=0)
