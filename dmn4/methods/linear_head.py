"""A linear head on the mean of a map: discriminants with a shrunken covariance, solved in one step.

The score of a mean is the mean of scores, so every place of a map has its exact share of what the head says.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .descriptors import unit
from .vectors import class_means

AT_ONCE = 4096                                                # rows of a product in float32
FEW = 10                                                      # pictures, of those tried 0 to 40: docs/evidence.md


@dataclass(frozen=True)
class LinearHead:
    """Scores vectors that are measured from a centre, each block of channels scaled to the same length."""

    centre: Tensor       # (C,)
    weight: Tensor       # (C, N)
    bias: Tensor         # (N,)
    blocks: list[int]    # channels of each block, C in all

    def some(self, classes: Tensor) -> "LinearHead":
        """The head of some of the classes (L,)."""
        return replace(self, weight=self.weight.T[classes].T, bias=self.bias[classes])

    def directions(self, means: Tensor) -> Tensor:
        """The means of some maps as the head sees them, rows of length 1: (Q, C) -> (Q, C)."""
        return block_unit(means - self.centre, self.blocks)

    def scores(self, means: Tensor) -> Tensor:
        """The score of each class for the means of some maps: (Q, C) -> (Q, N)."""
        return self.directions(means) @ self.weight + self.bias

    def shares(self, maps: Tensor) -> Tensor:
        """What each place adds to the scores of its map, M shares to a score: (Q, C, H, W) -> (Q, M, N)."""
        rows = maps.flatten(2).mT - self.centre                                           # (Q, M, C)
        norms = [part.norm(dim=-1, keepdim=True) for part in rows.mean(1, keepdim=True).split(self.blocks, -1)]
        scaled = [part / norm.masked_fill(norm == 0, torch.inf)
                  for part, norm in zip(rows.split(self.blocks, -1), norms, strict=True)]
        directions = torch.cat(scaled, -1) / len(self.blocks) ** 0.5                      # (Q, M, C)
        shares: Tensor = (directions @ self.weight + self.bias) / rows.shape[1]
        return shares


def block_unit(rows: Tensor, blocks: list[int]) -> Tensor:
    """Rows of length 1 in which every block of channels has the same length: (..., C) -> same."""
    units: Tensor = torch.cat([unit(part) for part in rows.split(blocks, -1)], -1) / len(blocks) ** 0.5
    return units


def fit_head(means: Tensor, labels: Tensor, blocks: list[int], prior: float) -> LinearHead:
    """The head for the means of labelled maps: (n, C), (n,) -> LinearHead.

    w_c = t (R'R + p t I)^-1 (n - N + p) m_c with class means m_c, R the rows less their class mean, t the variance of
    a channel: linear discriminants whose covariance is that of the n - N rows and of p pseudo-rows of equal variance.
    Directions are taken from the mean of all classes, but from a few pictures that is a poor guess: it counts as if FEW
    more pictures had a mean of zero. With one shot this is the nearest class mean. The cost grows with n; the largest
    system has C unknowns. Of many rows the largest matrices are float32, and sums of them float64.
    """
    centre = class_means(means, labels).mean(0) * len(means) / (len(means) + FEW)         # (C,)
    rows = block_unit(means - centre, blocks)                                             # (n, C)
    if len(rows) < rows.shape[1]:
        rows = rows.double()
    middles = class_means(rows, labels)                                                   # (N, C)
    shift = middles.double().mean(0)                                                      # (C,)
    variance = rows.var(0, correction=0).double().mean().clamp_min(1e-12)                 # ()
    residuals = rows - middles[labels]                                                    # (n, C)
    middles = middles.double() - shift
    grown = (len(rows) - len(middles)) / prior + 1
    weight = grown * whitened(middles, residuals, prior * variance)                       # (N, C)
    bias = -((middles / 2 + shift) * weight).sum(1)                                       # (N,)
    return LinearHead(centre, weight.T.to(means), bias.to(means), blocks)


def whitened(rows: Tensor, residuals: Tensor, ridge: Tensor) -> Tensor:
    """Rows times (I + R'R / ridge)^-1, by the smaller of two systems: (N, C), (n, C), () -> (N, C)."""
    count, channels = residuals.shape
    if count >= channels:
        squares = sum((part.T @ part).to(rows) for part in residuals.split(AT_ONCE))      # (C, C)
        system = squares / ridge + torch.eye(channels).to(rows)                           # (C, C)
        whole: Tensor = torch.linalg.solve(system, rows, left=False)
        return whole
    system = residuals @ residuals.T + ridge * torch.eye(count).to(rows)                  # (n, n)
    along: Tensor = torch.linalg.solve(system, rows @ residuals.T, left=False) @ residuals
    return rows - along
