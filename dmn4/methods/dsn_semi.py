"""DSN-semi (Simon et al., CVPR 2020): unlabelled images move the origin of a class before its subspace is laid."""

import torch
from torch import Tensor

from ..errors import InputError
from .dsn import DSN
from .pn_semi import move_means, soft_assignment
from .semi import SemiMethod
from .solvers import leading_directions


class DSNSemi(SemiMethod, DSN):
    """Distance to the subspace that the shots span around the refined mean of their class, in the form of Conv-4.

    `distractors=1` adds a class with a mean of zero to the soft assignment and drops what falls to it.
    """

    def __init__(self, channels: int | None = None, vector: str = "flat", orthogonality: float = 0.03,
                 distractors: int = 0) -> None:
        super().__init__(channels, vector, "conv", orthogonality)
        if distractors not in (0, 1):
            raise InputError(f"distractors is {distractors}; it is 1 if other classes are among the unlabelled images, "
                             "otherwise 0")
        self.distractors = distractors

    def derive_with(self, support: Tensor, labels: Tensor, unlabelled: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Origin and directions of each class -> N pairs of (d,) and (K - 1, d), in float64."""
        rows, extra = self.vector(support).double(), self.vector(unlabelled).double()       # (n, d), (U, d)
        shots = [rows[labels == c] for c in range(int(labels.max()) + 1)]                   # N of (K, d)
        means = torch.stack([vectors.mean(0) for vectors in shots])                         # (N, d)
        centres = torch.cat([means, means.new_zeros(self.distractors, rows.shape[1])])      # (N + 1, d), or (N, d)
        weight = soft_assignment(centres, extra)[:, : len(means)]                           # (U, N)
        origins = move_means(means, labels.bincount(), extra, weight)
        return [(origin, leading_directions(vectors - origin, len(vectors) - 1))
                for origin, vectors in zip(origins, shots, strict=True)]
