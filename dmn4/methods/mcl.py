"""MCL (Liu et al., CVPR 2022), the successor: a random walk to and fro between query and support descriptors."""

import torch
from torch import Tensor

from ..errors import InputError, choose
from .base import Method
from .checks import positive
from .descriptors import SHOTS, SupportPool, describe, pool_support, pyramid_sides
from .solvers import solve_each

BLOCK_BYTES = 64 << 20


class MCL(Method):
    """A class scores the log of its share of the Katz centrality of all support descriptors."""

    any_size = True

    def __init__(self, channels: int | None = None, shots: str = "mean", temperature: float = 1.0, pyramid: str = "",
                 gamma: float = 20.0, gamma_back: float = 10.0, alpha: float = 0.5) -> None:
        super().__init__(channels)
        if not 0 < alpha < 1:
            raise InputError(f"alpha is {alpha}; the walk converges for 0 < alpha < 1")
        self.shots, self.pyramid = choose("shots", shots, SHOTS), pyramid
        self.temperature = positive("temperature", temperature)
        self.gamma, self.gamma_back, self.alpha = gamma, gamma_back, alpha
        pyramid_sides(pyramid)

    def derive(self, support: Tensor, labels: Tensor) -> SupportPool:
        return pool_support(support, labels, self.shots, self.pyramid)

    def score(self, pool: SupportPool, query: Tensor) -> Tensor:
        query = describe(query, self.pyramid)                                                # (Q, M, C)
        images = max(1, BLOCK_BYTES // (query.shape[1] * len(pool.descriptors) * query.element_size()))
        return torch.cat([self.walk(part, pool) for part in query.split(images)]) / self.temperature

    def walk(self, query: Tensor, pool: SupportPool) -> Tensor:
        """Log shares of the classes: (Q, M, C), SupportPool -> (Q, N)."""
        similarity = query @ pool.descriptors.T                                              # (Q, M, S)
        centrality = katz(similarity, self.gamma, self.gamma_back, self.alpha)               # (Q, S)
        shares = centrality.new_zeros(len(query), len(pool.counts)).index_add(1, pool.owner, centrality)
        return torch.log(shares / shares.sum(1, keepdim=True) + 1e-12)


def katz(similarity: Tensor, gamma: float, gamma_back: float, alpha: float) -> Tensor:
    """Katz centrality of the support descriptors in the two-sided graph: (Q, M, S) -> (Q, S).

    Equal to the support part of ((I - alpha T)^-1 - I) 1 with T = [[0, P_sq], [P_qs, 0]], but only an (M, M) system is
    solved for each image.
    """
    to_support = torch.softmax(gamma * similarity, dim=2)                                    # (Q, M, S)  P_sq, turned
    to_query = torch.softmax(gamma_back * similarity, dim=1)                                 # (Q, M, S)  P_qs
    there_and_back = to_query @ to_support.transpose(1, 2)                                   # (Q, M, M)  P_qs P_sq
    identity = torch.eye(similarity.shape[1], dtype=similarity.dtype, device=similarity.device)
    start = 1 + alpha * to_query.sum(2)                                                      # (Q, M)
    visits = solve_each(identity - alpha**2 * there_and_back, start[..., None])              # (Q, M, 1)
    return alpha * (to_support.transpose(1, 2) @ visits).squeeze(-1)                         # (Q, S)
