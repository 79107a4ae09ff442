"""What the semi-supervised methods share: the call that also takes unlabelled maps, and the check of these."""

import torch
from torch import Tensor

from ..errors import InputError
from .base import Method, check_map, check_maps, shape_of


class SemiMethod(Method):
    """A method that also learns from unlabelled maps; without any it is its supervised twin."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, unlabelled: Tensor | None = None) -> Tensor:
        """Class scores of each query image: (n, C, H, W), (n,), (Q, C, H, W), (U, C, H, W) -> (Q, N)."""
        labels = torch.as_tensor(labels, device=support.device)
        check_maps(support, labels, query, self.any_size)
        labels = labels.long()
        if unlabelled is None or not len(unlabelled):
            return self.score(support, labels, query)
        check_unlabelled(support, unlabelled)
        return self.score_with(support, labels, query, unlabelled)

    def score(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        return self.score_with(support, labels, query, support[:0])

    def score_with(self, support: Tensor, labels: Tensor, query: Tensor, unlabelled: Tensor) -> Tensor:
        """The method itself, on checked maps, of which `unlabelled` may be empty -> (Q, N)."""
        raise NotImplementedError


def check_unlabelled(support: Tensor, unlabelled: Tensor) -> None:
    """Raise an InputError unless the unlabelled maps are finite and as wide and large as the support maps."""
    check_map("unlabelled", unlabelled)
    if support.shape[1:] != unlabelled.shape[1:]:
        raise InputError(f"support maps are {shape_of(support)}, unlabelled maps {shape_of(unlabelled)}: "
                         "they must be alike")
