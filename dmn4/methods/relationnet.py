"""Relation Networks (Sung et al., CVPR 2018): a small network judges a class map and a query map side by side."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import choose
from .base import Method
from .checks import needed_channels
from .vectors import class_means, pooled


class RelationNet(Method):
    """The relation of each query with each class map, before the sigmoid.

    `form="conv"` is the paper's network on maps, `form="pooled"` two layers on pooled vectors. `shots="sum"` adds the
    maps of a class (released code; train and test need equal shots), `shots="mean"` averages them. `loss` is the
    paper's squared error or what re-implementations use, "binary" and "softmax" cross-entropy.
    """

    needs_training = True

    def __init__(self, channels: int | None = None, form: str = "conv", shots: str = "sum", loss: str = "squared",
                 momentum: float = 0.1) -> None:
        super().__init__(channels)
        width = needed_channels(channels, "relationnet")
        self.shots = choose("shots", shots, ("sum", "mean"))
        self.loss_name = choose("loss", loss, LOSSES)
        conv = choose("form", form, ("conv", "pooled")) == "conv"
        self.relation = ConvRelation(width, momentum) if conv else PooledRelation(width)
        self.any_size, self.smooths = not conv, loss == "softmax"

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        """One map a class: (n, C, H, W), (n,) -> (N, C, H, W)."""
        support = self.read(support)
        classes = class_means(support.flatten(1), labels)                               # (N, C H W)
        if self.shots == "sum":
            classes = classes * torch.bincount(labels)[:, None]
        return classes.view(-1, *support.shape[1:])

    def score(self, classes: Tensor, query: Tensor) -> Tensor:
        scores: Tensor = self.relation(classes, self.read(query))
        return scores

    def read(self, maps: Tensor) -> Tensor:
        """Maps as the relation network takes them: whole, or their means (n, C, 1, 1)."""
        return pooled(maps)[..., None, None] if isinstance(self.relation, PooledRelation) else maps

    def loss(self, scores: Tensor, query_labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """The loss this network is trained with, in place of cross-entropy: (Q, N), (Q,) -> ()."""
        if self.smooths:
            return super().loss(scores, query_labels, smoothing)
        return LOSSES[self.loss_name](scores, query_labels)


class ConvRelation(nn.Module):
    """Two conv blocks and two layers on each pair: (N, C, H, W), (Q, C, H, W) -> (Q, N).

    19 x 19 maps become 17, 8, 6, 3 wide. Maps under 10 x 10 are padded instead. What is left is resampled to 3 x 3,
    which changes nothing for 19 x 19.
    """

    def __init__(self, channels: int, momentum: float) -> None:
        super().__init__()
        self.pair, self.conv = PairConv(2 * channels, channels, 3), nn.Conv2d(channels, channels, 3)
        for conv in (self.pair, self.conv):
            nn.init.normal_(conv.weight, std=math.sqrt(2 / (9 * channels)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels, momentum=momentum) for _ in range(2))
        self.judge = nn.Sequential(nn.Linear(9 * channels, 8), nn.ReLU(), nn.Linear(8, 1))
        start_linear(self.judge, bias=1.0)

    def forward(self, classes: Tensor, query: Tensor) -> Tensor:
        maps = F.adaptive_avg_pool2d(self.shrink(classes, query), 3)                    # (Q N, C, 3, 3)
        scores: Tensor = self.judge(maps.flatten(1)).view(len(query), len(classes))
        return scores

    def shrink(self, classes: Tensor, query: Tensor) -> Tensor:
        """Both blocks: (N, C, H, W), (Q, C, H, W) -> (Q N, C, h, w)."""
        margin = [1 if min(query.shape[2:]) < 10 else 0] * 4
        maps = halved(self.norms[0](self.pair(F.pad(classes, margin), F.pad(query, margin))).relu())
        return halved(self.norms[1](self.conv(F.pad(maps, margin))).relu())


class PairConv(nn.Conv2d):
    """The convolution of each class map stacked on each query map, as the sum of its two halves.

    Nothing is stacked: N + Q convolutions of half the depth do the work of N Q.
    """

    def forward(self, classes: Tensor, query: Tensor) -> Tensor:  # type: ignore[override]
        """(N, C, H, W), (Q, C, H, W) -> (Q N, out, h, w)"""
        upper, lower = self.weight.chunk(2, dim=1)                                      # (out, C, 3, 3) twice
        pairs = F.conv2d(classes, upper, self.bias)[None] + F.conv2d(query, lower)[:, None]
        return pairs.flatten(0, 1)


def halved(maps: Tensor) -> Tensor:
    """Max-pooling by 2, along sides that are still 2 or more: (B, C, H, W) -> (B, C, h, w)."""
    return F.max_pool2d(maps, [min(2, side) for side in maps.shape[2:]])


class PooledRelation(nn.Module):
    """Two layers on each pair of pooled vectors: (N, C, 1, 1), (Q, C, 1, 1) -> (Q, N)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = max(1, channels // 2)
        self.judge = nn.Sequential(nn.Linear(2 * channels, half), nn.ReLU(), nn.Linear(half, 1))
        start_linear(self.judge, bias=0.0)

    def forward(self, classes: Tensor, query: Tensor) -> Tensor:
        pairs = torch.broadcast_tensors(classes.flatten(1)[None], query.flatten(1)[:, None])   # (Q, N, C) twice
        scores: Tensor = self.judge(torch.cat(pairs, 2)).squeeze(2)
        return scores


def start_linear(layers: nn.Sequential, bias: float) -> None:
    """Set the linear layers to N(0, 0.01) weights and a constant bias."""
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.constant_(layer.bias, bias)


def squared_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean squared error of the sigmoid scores against 1 for the true class and 0 for the others."""
    return F.mse_loss(scores.sigmoid(), F.one_hot(labels, scores.shape[1]).to(scores.dtype))


def binary_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean binary cross-entropy of all scores."""
    return F.binary_cross_entropy_with_logits(scores, F.one_hot(labels, scores.shape[1]).to(scores.dtype))


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "squared": squared_loss, "binary": binary_loss, "softmax": F.cross_entropy}
