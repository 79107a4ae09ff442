"""Semi-supervised ProtoNet (Ren et al., ICLR 2018): one step of soft k-means moves the prototypes, masked or not."""

import torch
from torch import Tensor, nn

from ..errors import InputError
from .protonet import ProtoNet
from .semi import SemiMethod
from .vectors import class_means, squared_distances


class PNSemi(SemiMethod, ProtoNet):
    """Minus the squared distance to prototypes that share in the unlabelled images near them.

    `temperature` divides all squared distances, those of the assignment as well.
    """

    def __init__(self, channels: int | None = None, vector: str = "flat", temperature: float = 1.0) -> None:
        super().__init__(channels, vector, temperature)

    def derive_with(self, support: Tensor, labels: Tensor, unlabelled: Tensor) -> Tensor:
        prototypes, extra = class_means(self.vector(support), labels), self.vector(unlabelled)   # (N, d), (U, d)
        return move_means(prototypes, labels.bincount(), extra, self.weigh(prototypes, extra))

    def weigh(self, prototypes: Tensor, extra: Tensor) -> Tensor:
        """How much of each unlabelled image every class takes: (N, d), (U, d) -> (U, N)."""
        return soft_assignment(prototypes, extra, self.temperature)


class PNSemiMasked(PNSemi):
    """The same, but a class takes little of what is far from it; how far, a small network reads from the distances.

    `mask_power` 2 multiplies by the mask twice, as the released code does; the paper's formula has it once.
    """

    needs_training = True

    def __init__(self, channels: int | None = None, vector: str = "flat", temperature: float = 1.0,
                 mask_power: int = 1) -> None:
        super().__init__(channels, vector, temperature)
        if mask_power not in (1, 2):
            raise InputError(f"mask_power is {mask_power}; it is 1 (the formula) or 2 (the released code)")
        self.mask_power = mask_power
        self.gauge = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 2))
        for parameter in self.gauge.parameters():
            nn.init.normal_(parameter, std=0.01 if parameter.ndim == 2 else 0.0)

    def weigh(self, prototypes: Tensor, extra: Tensor) -> Tensor:
        weight = soft_assignment(prototypes, extra, self.temperature)               # (U, N)
        if not len(extra):
            return weight
        distances = relative_distances(prototypes, extra)                           # (U, N)
        bias, scale = self.gauge(shape_of_columns(distances.detach())).exp().unbind(1)      # (N,) each
        masks: Tensor = weight * ((bias - distances) * scale).sigmoid() ** self.mask_power
        return masks


@torch.no_grad()
def soft_assignment(means: Tensor, extra: Tensor, temperature: float = 1.0) -> Tensor:
    """The share of each class in every unlabelled image, by squared distance: (N, d), (U, d) -> (U, N)."""
    return (-squared_distances(extra, means) / temperature).softmax(1)


def move_means(means: Tensor, shots: Tensor, extra: Tensor, weight: Tensor) -> Tensor:
    """The means of the shots and of weighted unlabelled images: (N, d), (N,), (U, d), (U, N) -> (N, d).

    (K mean + sum w u) / (K + sum w), written as a step from the old mean: without images nothing moves.
    """
    total = weight.sum(0)[:, None]                                                  # (N, 1)
    return means + (weight.T @ extra - total * means) / (shots[:, None] + total)


def relative_distances(means: Tensor, extra: Tensor) -> Tensor:
    """Squared distances over their mean in each class: (N, d), (U, d) -> (U, N)."""
    distances = squared_distances(extra, means)
    return distances / distances.mean(0).clamp(min=torch.finfo(extra.dtype).tiny)


def shape_of_columns(values: Tensor) -> Tensor:
    """Minimum, maximum, variance, skewness and excess kurtosis of each column: (U, N) -> (N, 5)."""
    centred = values - values.mean(0)
    variance = centred.square().mean(0)                                             # (N,)
    unit = centred / variance.clamp(min=torch.finfo(values.dtype).eps).sqrt()
    skewness, kurtosis = unit.pow(3).mean(0), unit.pow(4).mean(0) - 3
    return torch.stack([values.amin(0), values.amax(0), variance, skewness, kurtosis], 1)
