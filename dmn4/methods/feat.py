"""FEAT (Ye et al., CVPR 2020): prototypes look at each other through one self-attention layer before they compare."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import choose
from .base import Method
from .checks import needed_channels, positive
from .vectors import class_means, peaks, pooled, squared_distances

POOLS = {"gap": pooled, "max": peaks}


class FEAT(Method):
    """Minus the squared distance to the adapted class means, over `temperature`.

    `balance` weighs the auxiliary loss of training and `auxiliary_temperature` divides its distances; the defaults are
    the paper's for ResNet-12 and one shot. `vector="max"` is its Conv-4 form.
    """

    needs_training = True
    any_size = True
    vectorised = True

    def __init__(self, channels: int | None = None, vector: str = "gap", temperature: float = 64.0,
                 auxiliary_temperature: float = 64.0, balance: float = 0.01) -> None:
        super().__init__(channels)
        self.vector = POOLS[choose("vector", vector, POOLS)]
        self.adapt_set = SetAttention(needed_channels(channels, "feat"))
        self.temperature = positive("temperature", temperature)
        self.auxiliary_temperature = positive("auxiliary_temperature", auxiliary_temperature)
        self.balance = balance
        self.reads_means = vector == "gap"

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        adapted: Tensor = self.adapt_set(class_means(self.vector(support), labels))                  # (N, C)
        return adapted

    def score(self, prototypes: Tensor, query: Tensor) -> Tensor:
        return -squared_distances(self.vector(query), prototypes) / self.temperature

    def auxiliary(self, support: Tensor, labels: Tensor, query: Tensor, query_labels: Tensor) -> Tensor:
        """All images of the episode against the centres of their adapted class sets, as a weighted loss -> ()."""
        rows = self.vector(torch.cat([support, query]))                                   # (n + Q, C)
        labels = torch.cat([labels, query_labels])                                        # (n + Q,)
        centres = [self.adapt_set(rows[labels == c]).mean(0) for c in range(int(labels.max()) + 1)]
        distances = squared_distances(rows, torch.stack(centres))                         # (n + Q, N)
        return self.balance * F.cross_entropy(-distances / self.auxiliary_temperature, labels)


class SetAttention(nn.Module):
    """Each member of a set, moved by what it attends to in the set; the order of the members is not seen."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        for layer in (self.query, self.key, self.value):
            nn.init.normal_(layer.weight, std=math.sqrt(1 / width))                       # sqrt(2 / (d + d))
        self.mix = nn.Linear(width, width)
        nn.init.xavier_normal_(self.mix.weight)
        self.norm = nn.LayerNorm(width)
        self.attention_dropout, self.dropout = nn.Dropout(0.1), nn.Dropout(0.5)

    def forward(self, members: Tensor) -> Tensor:
        """(s, d) -> (s, d)"""
        similarity = self.query(members) @ self.key(members).T / math.sqrt(members.shape[1])
        attended = self.attention_dropout(similarity.softmax(1)) @ self.value(members)    # (s, d)
        adapted: Tensor = self.norm(self.dropout(self.mix(attended)) + members)
        return adapted
