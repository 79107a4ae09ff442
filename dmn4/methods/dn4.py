"""DN4 (Li et al., CVPR 2019): every query descriptor counts, by its k nearest in each class."""

import torch
from torch import Tensor

from ..errors import InputError
from .base import DescriptorMethod
from .descriptors import SupportPool
from .neighbors import Matches, search_several
from .voting import partner_cosines


class DN4(DescriptorMethod):
    """Keep everything. The paper at hand uses k = 1, the original k = 3: the sum of the k largest cosines."""

    partners = False

    def __init__(self, channels: int | None = None, vote: str = "nbnn", shots: str = "union", temperature: float = 1.0,
                 pyramid: str = "", k: int = 1, centre: str = "none") -> None:
        super().__init__(channels, vote, shots, temperature, pyramid, centre)
        if k < 1:
            raise InputError(f"k is {k}; at least one neighbour is needed")
        self.k = k

    def phi(self, query: Tensor, pool: SupportPool) -> Tensor:
        if self.k == 1:
            return super().phi(query, pool)
        if self.k > min(pool.counts):
            raise InputError(f"k is {self.k}, but a class has {min(pool.counts)} support descriptors: lower k")
        cosines = partner_cosines(query, pool.descriptors, *search_several(query, pool, self.k))   # (Q, M, N, k)
        class_best = cosines.sum(-1)                                                               # (Q, M, N)
        return self.ballot(class_best, torch.ones_like(class_best[..., 0], dtype=torch.bool))

    def keep(self, matches: Matches) -> Tensor:
        return torch.ones_like(matches.class_best[..., 0], dtype=torch.bool)
