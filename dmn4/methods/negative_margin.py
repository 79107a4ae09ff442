"""Negative Margin (Liu et al., ECCV 2020): pre-train with a slightly negative margin, then fit a new cosine classifier.

The margin belongs to pre-training (`MarginHead` in heads.py). Here is what happens to an episode: a randomly started
cosine classifier, without a margin, is trained on the pooled support images by SGD.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import SGD

from .base import Method
from .checks import positive
from .heads import fresh_weights
from .vectors import cosines, pooled


class NegativeMargin(Method):
    """`scale` times the cosine with each weight vector of a classifier fitted to the support set; `seed` starts it."""

    any_size = True
    reads_means = True

    def __init__(self, channels: int | None = None, scale: float = 5.0, epochs: int = 100, batch: int = 4,
                 lr: float = 0.01, seed: int = 0) -> None:
        super().__init__(channels)
        self.scale, self.epochs, self.lr, self.seed = scale, epochs, lr, seed
        self.batch = int(positive("batch", batch))

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        return self.fit(pooled(support), labels)              # (N, C)

    def score(self, weight: Tensor, query: Tensor) -> Tensor:
        return self.scale * cosines(pooled(query), weight)

    @torch.inference_mode(False)                              # which also turns gradients on
    def fit(self, rows: Tensor, labels: Tensor) -> Tensor:
        """The weights after training on the support set in random batches: (n, C), (n,) -> (N, C)."""
        rows, labels = rows.detach().clone(), labels.clone()
        generator = torch.Generator().manual_seed(self.seed)
        weight = fresh_weights(rows, labels, 1 / math.sqrt(rows.shape[1]), generator).requires_grad_()
        optimizer = SGD([weight], lr=self.lr, momentum=0.9, dampening=0.9, weight_decay=1e-3)
        for _ in range(self.epochs):
            for batch in torch.randperm(len(rows), generator=generator).split(self.batch):
                loss = F.cross_entropy(self.scale * cosines(rows[batch], weight), labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return weight.detach()
