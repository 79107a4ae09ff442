"""What the semi-supervised methods share: the call that also takes unlabelled maps, and the check of these."""

from typing import Any

from torch import Tensor

from ..errors import InputError
from .base import Learnt, Method
from .checks import check_map, checked_labels, in_words


class SemiMethod(Method):
    """A method that also learns from unlabelled maps; without any it is its supervised twin."""

    takes_unlabelled = True

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, unlabelled: Tensor | None = None) -> Tensor:
        """Class scores of each query image: (n, C, H, W), (n,), (Q, C, H, W), (U, C, H, W) -> (Q, N)."""
        return self.answer(self.learn(support, labels, unlabelled), query)

    def learn(self, support: Tensor, labels: Tensor, unlabelled: Tensor | None = None) -> Learnt:
        """What the method derives from labelled and unlabelled maps: (n, C, H, W), (n,), (U, C, H, W)."""
        labels = checked_labels(support, labels)
        if unlabelled is None or not len(unlabelled):
            return Learnt(self.derive(support, labels), support.shape[1:])
        check_unlabelled(support, unlabelled)
        return Learnt(self.derive_with(support, labels, unlabelled), support.shape[1:])

    def derive(self, support: Tensor, labels: Tensor) -> Any:
        return self.derive_with(support, labels, support[:0])

    def derive_with(self, support: Tensor, labels: Tensor, unlabelled: Tensor) -> Any:
        """The first half of the method, on checked maps, of which `unlabelled` may be empty."""
        raise NotImplementedError


def check_unlabelled(support: Tensor, unlabelled: Tensor) -> None:
    """Raise an InputError unless the unlabelled maps are finite and as wide and large as the support maps."""
    check_map("unlabelled", unlabelled)
    if support.shape[1:] != unlabelled.shape[1:]:
        raise InputError(f"support maps are {in_words(support.shape[1:])}, unlabelled maps "
                         f"{in_words(unlabelled.shape[1:])}: they must be alike")
