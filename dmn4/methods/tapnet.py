"""TapNet (Yoon et al., ICML 2019): a projection, new in every episode, in which class means meet learnt references."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .base import Method
from .checks import needed_channels
from .solvers import null_space
from .vectors import class_means, pooled, squared_distances


class TapNet(Method):
    """Nearest reference in the null space of what separates the references from the class means.

    As many classes as `references` take them in order, as in training; fewer choose the closest unused one in turn.
    """

    needs_training = True
    reads_means = True

    def __init__(self, channels: int | None = None, references: int = 20) -> None:
        super().__init__(channels)
        self.references = nn.Linear(needed_channels(channels, "tapnet"), references)      # Phi and its bias

    def derive(self, support: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The references of the classes, their biases, and the null space: -> (N, d), (N,), (d, d - N)."""
        means = class_means(pooled(support), labels)                                      # (N, d)
        self.check(means)
        picks = choose_references(means, self.references.weight, self.references.bias)    # (N,)
        references, bias = self.references.weight[picks], self.references.bias[picks]     # (N, d), (N,)
        return references, bias, null_space(reference_errors(references, means))

    def score(self, projection: tuple[Tensor, Tensor, Tensor], query: Tensor) -> Tensor:
        references, bias, basis = projection
        return 2 * bias - squared_distances(pooled(query) @ basis, references @ basis)

    def check(self, means: Tensor) -> None:
        """Raise an InputError if there are more classes than references, or no null space."""
        classes, width = means.shape
        if classes > self.references.out_features:
            raise InputError(f"tapnet has {self.references.out_features} references for {classes} classes: "
                             "give references= as many")
        if classes >= width:
            raise InputError(f"tapnet needs more channels than classes: there are {width} channels, {classes} classes")


@torch.no_grad()
def choose_references(means: Tensor, references: Tensor, bias: Tensor) -> Tensor:
    """Which reference stands for each class, class after class: (N, d), (R, d), (R,) -> (N,)."""
    if len(means) == len(references):
        return torch.arange(len(means), device=means.device)
    closeness = 2 * bias - squared_distances(means, references)             # (N, R)
    picks: list[int] = []
    for row in closeness:
        row[picks] = -torch.inf                                             # taken
        picks.append(int(row.argmax()))
    return torch.tensor(picks, device=means.device)


def reference_errors(references: Tensor, means: Tensor) -> Tensor:
    """What the projection has to remove: each reference, less the others, minus its class mean: (N, d) -> (N, d)."""
    apart = len(references) * references - references.sum(0)                # (N, d)  Phi~
    return F.normalize(apart, dim=1, eps=1e-6) - F.normalize(means, dim=1, eps=1e-6)
