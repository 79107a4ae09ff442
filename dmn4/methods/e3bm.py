"""E3BM (Liu et al., ECCV 2020): an ensemble of the classifier after every inner step, with generated step sizes.

Meta-training leaves the pre-trained kernels as they are and learns one factor for each of them: `scale_kernels` gives a
backbone that form, `merge_kernels` makes it an ordinary backbone again.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ..errors import choose
from .base import Method
from .checks import needed_channels, positive
from .vectors import class_means, cosines, pooled

Part = TypeVar("Part", bound=nn.Module)


class E3BM(Method):
    """The sum over inner steps of a generated share times `scale` times the cosine with the classifier of that step.

    `start="last"` gives all the share to the last step at first, `start="equal"` the same to each. `strength`
    multiplies what the generators add to these starting values; small, so the method works before it is trained.
    """

    any_size = True
    reads_means = True

    def __init__(self, channels: int | None = None, steps: int = 100, start: str = "last", scale: float = 8.0,
                 rate: float = 0.1, strength: float = 1e-4) -> None:
        super().__init__(channels)
        width = needed_channels(channels, "e3bm")
        steps = int(positive("steps", steps))
        choose("start", start, ("last", "equal"))
        shares = torch.eye(steps)[-1] if start == "last" else torch.full((steps,), 1 / steps)
        self.rates = HyperPrior(width, torch.full((steps,), float(rate)), strength)
        self.shares = HyperPrior(width, shares, strength)
        self.steps, self.scale = steps, scale

    def derive(self, support: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The share and the weights of the classifier after every step: (n, C, H, W), (n,) -> pairs of (), (N, C)."""
        rows = centred(pooled(support))                                                   # (n, C)
        weight = class_means(rows, labels).detach()                                       # (N, C)
        classifiers = []
        for step in range(self.steps):
            slope = head_slope(weight, rows, labels, self.scale)                          # (N, C), a constant
            state = torch.cat([rows.mean(0), slope.mean(0)])                              # (2 C,)
            weight = weight - self.rates(state, step) * slope
            classifiers.append((self.shares(state, step), weight))
        return classifiers

    def score(self, classifiers: list[tuple[Tensor, Tensor]], query: Tensor) -> Tensor:
        rows = centred(pooled(query))                                                     # (Q, C)
        scores = rows.new_zeros(len(rows), len(classifiers[0][1]))                        # (Q, N)
        for share, weight in classifiers:
            scores = scores + share * self.scale * cosines(rows, weight)
        return scores


class HyperPrior(nn.Module):
    """One number per inner step: a learnt value, plus a little that a linear layer reads from the state of the step."""

    def __init__(self, channels: int, values: Tensor, strength: float) -> None:
        super().__init__()
        self.values = nn.Parameter(values)                                                # (steps,)
        self.layer = nn.Linear(2 * channels, len(values))
        nn.init.kaiming_normal_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)
        self.strength = strength

    def forward(self, state: Tensor, step: int) -> Tensor:
        """(2 C,), the place of the step -> ()"""
        return self.values[step] + self.strength * (self.layer.weight[step] @ state + self.layer.bias[step])


def centred(rows: Tensor) -> Tensor:
    """Each row less its own mean: (n, C) -> (n, C)."""
    return rows - rows.mean(1, keepdim=True)


@torch.inference_mode(False)                                  # which also turns gradients on
def head_slope(weight: Tensor, rows: Tensor, labels: Tensor, scale: float) -> Tensor:
    """The gradient of the support loss by the weights of a cosine classifier, first-order: (N, C)."""
    weight = weight.detach().clone().requires_grad_()
    loss = F.cross_entropy(scale * cosines(rows.detach().clone(), weight), labels.clone())
    return torch.autograd.grad(loss, weight)[0]


class ScaledConv(nn.Module):
    """A convolution whose kernels are multiplied by one learnt factor for each pair of channels, 1 at first."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        self.factor = nn.Parameter(torch.ones_like(conv.weight[:, :, :1, :1]))            # (out, in, 1, 1)

    def forward(self, maps: Tensor) -> Tensor:
        scaled: Tensor = functional_call(self.conv, {"weight": self.conv.weight * self.factor}, (maps,))
        return scaled

    def merged(self) -> nn.Conv2d:
        """The convolution itself, its kernels multiplied."""
        self.conv.weight.data *= self.factor.data
        return self.conv


def scale_kernels(backbone: Part) -> Part:
    """A copy whose kernels are frozen and scaled; only the factors and the affine BatchNorm parameters learn."""
    scaled: Part = exchange(deepcopy(backbone).requires_grad_(False), nn.Conv2d, ScaledConv)
    for module in scaled.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.requires_grad_(True)
    return scaled


def merge_kernels(backbone: Part) -> Part:
    """A copy with each factor multiplied into its kernels: the same maps from an ordinary backbone."""
    merged: Part = exchange(deepcopy(backbone), ScaledConv, ScaledConv.merged).requires_grad_(True)
    return merged


def exchange(module: Any, kind: type[nn.Module], change: Callable[..., nn.Module]) -> Any:
    """`module` with every part of a kind exchanged for what `change` makes of it."""
    if isinstance(module, kind):
        return change(module)
    for name, part in module.named_children():
        setattr(module, name, exchange(part, kind, change))
    return module
