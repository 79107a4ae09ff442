"""Relation Networks (Sung et al., CVPR 2018): a small network judges a class map and a query map side by side."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import choose
from .base import Method, needed_channels
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
        self.any_size = not conv

    def score(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        if isinstance(self.relation, PooledRelation):
            support, query = pooled(support)[..., None, None], pooled(query)[..., None, None]
        classes = class_means(support.flatten(1), labels)                               # (N, C H W)
        if self.shots == "sum":
            classes = classes * torch.bincount(labels)[:, None]
        pairs = pair_up(query, classes.view(-1, *support.shape[1:]))                    # (Q N, 2 C, H, W)
        return self.relation(pairs).view(len(query), len(classes))

    def loss(self, scores: Tensor, query_labels: Tensor) -> Tensor:
        """The loss this network is trained with, in place of cross-entropy: (Q, N), (Q,) -> ()."""
        return LOSSES[self.loss_name](scores, query_labels)


def pair_up(query: Tensor, classes: Tensor) -> Tensor:
    """Each class map on top of each query map, channel-wise: (Q, C, H, W), (N, C, H, W) -> (Q N, 2 C, H, W)."""
    pairs = torch.broadcast_tensors(classes[None], query[:, None])                      # (Q, N, C, H, W) twice
    return torch.cat(pairs, 2).flatten(0, 1)


class ConvRelation(nn.Module):
    """Two conv blocks and two layers: (B, 2 C, H, W) -> (B, 1); 19 x 19 maps become 17, 8, 6, 3 wide.

    Maps under 10 x 10 are padded instead. What is left is resampled to 3 x 3, which changes nothing for 19 x 19.
    """

    def __init__(self, channels: int, momentum: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(conv_block(width, channels, momentum) for width in (2 * channels, channels))
        self.judge = nn.Sequential(nn.Linear(9 * channels, 8), nn.ReLU(), nn.Linear(8, 1))
        start_linear(self.judge, bias=1.0)

    def forward(self, pairs: Tensor) -> Tensor:
        return self.judge(F.adaptive_avg_pool2d(self.shrink(pairs), 3).flatten(1))

    def shrink(self, maps: Tensor) -> Tensor:
        """Both blocks: (B, 2 C, H, W) -> (B, C, h, w)."""
        padding = 1 if min(maps.shape[2:]) < 10 else 0
        for block in self.blocks:
            maps = block(F.pad(maps, [padding] * 4))
            maps = F.max_pool2d(maps, [min(2, side) for side in maps.shape[2:]])
        return maps


def conv_block(incoming: int, outgoing: int, momentum: float) -> nn.Sequential:
    """A 3 x 3 convolution with N(0, 2 / (9 out)) weights, BatchNorm and ReLU."""
    conv = nn.Conv2d(incoming, outgoing, 3)
    nn.init.normal_(conv.weight, std=math.sqrt(2 / (9 * outgoing)))
    return nn.Sequential(conv, nn.BatchNorm2d(outgoing, momentum=momentum), nn.ReLU())


class PooledRelation(nn.Module):
    """Two layers on a pair of pooled vectors: (B, 2 C, 1, 1) -> (B, 1)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = max(1, channels // 2)
        self.judge = nn.Sequential(nn.Linear(2 * channels, half), nn.ReLU(), nn.Linear(half, 1))
        start_linear(self.judge, bias=0.0)

    def forward(self, pairs: Tensor) -> Tensor:
        return self.judge(pairs.flatten(1))


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
