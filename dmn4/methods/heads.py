"""Classifiers that pre-training puts on a backbone, all called alike: rows (..., C), labels (...) -> logits (..., n).

A row is one image's vector or, for dense classification, one location; two heads read whole maps. Labels are
needed only by the heads that treat the true class apart, and only while they learn; without them every head gives its
plain logits.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import choose
from .descriptors import unit
from .solvers import solve_each
from .vectors import class_means, cosines


class LinearHead(nn.Linear):
    """A linear layer with bias."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)

    def forward(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        """(..., C) -> (..., n)"""
        return super().forward(rows)


class CosineHead(nn.Module):
    """Scaled cosines with one weight vector per class; the scale is learnt or stays."""

    def __init__(self, channels: int, classes: int, scale: float = 10.0, learn_scale: bool = True) -> None:
        super().__init__()
        self.weight = nn.Linear(channels, classes, bias=False).weight                 # (n, C)
        self.scale = nn.Parameter(torch.tensor(float(scale)), requires_grad=learn_scale)

    def forward(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        """(..., C) -> (..., n)"""
        return unit(rows) @ (self.scale * unit(self.weight)).T    # few weights, many rows


class MarginHead(nn.Module):
    """The logits of Negative Margin (Liu et al., ECCV 2020): the true class has to win by `margin`, or may lose by it.

    `form="cosine"` compares directions; `form="softmax"` takes linear outputs above the smallest one of the row.
    """

    def __init__(self, channels: int, classes: int, margin: float = -0.02, scale: float = 30.0,
                 form: str = "cosine") -> None:
        super().__init__()
        self.form = choose("form of the margin head", form, ("cosine", "softmax"))
        self.weight = nn.Linear(channels, classes, bias=False).weight                 # (n, C)
        self.margin, self.scale = margin, scale

    def forward(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        """(..., C), (...) -> (..., n)"""
        if self.form == "cosine":
            likeness = cosines(rows, self.weight)
        else:
            linear = rows @ self.weight.T
            likeness = linear - linear.amin(-1, keepdim=True)
        return self.scale * likeness if labels is None else margin_logits(likeness, labels, self.margin, self.scale)


class ArcHead(nn.Module):
    """The logits of ArcFace (Deng et al., CVPR 2019): the true class is turned away by an angle `margin`."""

    def __init__(self, channels: int, classes: int, margin: float = 0.01, scale: float = 20.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(classes, channels)))
        self.margin, self.scale = margin, scale

    def forward(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        """(..., C), (...) -> (..., n)"""
        cosine = cosines(rows, self.weight)
        return self.scale * cosine if labels is None else arc_logits(cosine, labels, self.margin, self.scale)


class ImageToClassHead(nn.Module):
    """Naive-Bayes nearest neighbours (Eq. 5) with learnt classes: each owns some descriptors and takes the nearest.

    What the paper's episodes compare, for all base classes at once: places that say nothing may stay between classes.
    """

    def __init__(self, channels: int, classes: int, owned: int = 4, scale: float = 20.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, owned, channels) / channels**0.5)     # (n, k, C)
        self.scale = scale

    def forward(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        """(B, M, C) -> (B, n), `scale` times the mean over the places"""
        each = cosines(rows, self.weight.flatten(0, 1)).unflatten(-1, self.weight.shape[:2])  # (B, M, n, k)
        scores: Tensor = self.scale * each.amax(-1).mean(1)
        return scores


class ReconstructionHead(nn.Module):
    """The pre-training of FRN (Wertheimer et al., CVPR 2021): every class owns descriptors that rebuild an image's.

    The logit is minus the mean squared error of a ridge regression, times a learnt scale; features over sqrt(C).
    """

    def __init__(self, channels: int, classes: int, places: int) -> None:
        super().__init__()
        self.supports = nn.Parameter(torch.randn(classes, places, channels))          # (n, m, C)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        """(B, M, C) -> (B, n), the rebuilt descriptors A S themselves are never formed."""
        wanted = rows.flatten(0, 1) / rows.shape[2] ** 0.5                            # (B*M, C)
        gram = self.supports @ self.supports.mT                                       # (n, m, m)
        inner = self.supports @ wanted.T                                              # (n, m, B*M)
        strength = gram.shape[1] / rows.shape[2] + 1e-6                               # lambda
        weights = solve_each(gram + strength * torch.eye(gram.shape[1]).to(gram), inner)           # A, transposed
        rebuilt = (weights * (gram @ weights - 2 * inner)).sum(1)                     # (n, B*M)  ||A S||^2 - 2 <A S, q>
        errors = (wanted.square().sum(1) + rebuilt).view(len(gram), *rows.shape[:2]).mean(2)       # (n, B)
        scores: Tensor = -self.scale * errors.T
        return scores


def margin_logits(likeness: Tensor, labels: Tensor, margin: float, scale: float) -> Tensor:
    """`scale` times the likeness, less `margin` at the true class: (..., n), (...) -> (..., n)."""
    return scale * (likeness - margin * F.one_hot(labels, likeness.shape[-1]))


def arc_logits(cosine: Tensor, labels: Tensor, margin: float, scale: float) -> Tensor:
    """`scale` times cos(theta + margin) at the true class where cos(theta) > 0, elsewhere times cos(theta)."""
    sine = (1 - cosine.square()).clamp(min=1e-7).sqrt()                               # finite slope at cos = 1
    turned = cosine * math.cos(margin) - sine * math.sin(margin)                      # cos(theta + margin)
    true = F.one_hot(labels, cosine.shape[-1]).bool()
    return scale * torch.where(true & (cosine > 0), turned, cosine)


def fresh_weights(rows: Tensor, labels: Tensor, bound: float, generator: torch.Generator) -> Tensor:
    """Uniform random weights of a new head, within `bound`: vectors (n, d), labels (n,) -> (N, d).

    The classes draw in the order of their mean activation, so neither their names nor the order of the shots matter.
    """
    order = class_means(rows, labels).sum(1).argsort()                                # (N,)
    drawn = torch.rand(len(order), rows.shape[1], generator=generator).to(rows)       # on the CPU: the same everywhere
    return bound * (2 * drawn[order.argsort()] - 1)
