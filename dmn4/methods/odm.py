"""Online discriminative mining (Liu et al., arXiv:2103.08160, Sec. 4.4): the query descriptors with the largest tau."""

import torch
from torch import Tensor

from ..errors import InputError
from .base import DescriptorMethod
from .neighbors import Matches, relative_closeness


class ODM(DescriptorMethod):
    """Keep the top share of the query descriptors by tau, at least one; equals in their order."""

    partners = False

    def __init__(self, channels: int | None = None, vote: str = "nbnn", shots: str = "union", temperature: float = 1.0,
                 pyramid: str = "", share: float = 0.25, centre: str = "none") -> None:
        super().__init__(channels, vote, shots, temperature, pyramid, centre)
        if not 0 < share <= 1:
            raise InputError(f"share is {share}; it must be above 0 and at most 1")
        self.share = share

    def keep(self, matches: Matches) -> Tensor:
        tau = relative_closeness(matches.class_best)                           # (Q, M)
        number = max(1, round(self.share * tau.shape[1]))
        top = tau.argsort(dim=1, descending=True, stable=True)[:, :number]     # (Q, number)
        return torch.zeros_like(tau, dtype=torch.bool).scatter(1, top, True)
