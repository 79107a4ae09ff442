"""Matching Networks (Vinyals et al., NeurIPS 2016): every support image votes for its class by softmax attention.

With `context=1` the vectors are first read in the light of the whole support set by two LSTMs ("full contextual
embedding"). The order of the support images then matters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError, choose
from .base import Method
from .checks import needed_channels
from .vectors import VECTORS, cosines


class MatchingNet(Method):
    """log p(c), the attention that falls on the shots of class c; attention is a softmax of scaled cosines."""

    def __init__(self, channels: int | None = None, vector: str = "gap", scale: float = 10.0, context: int = 0) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.any_size = self.reads_means = vector == "gap"
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.context = build_context(channels, vector) if context else None
        self.needs_training = bool(context)
        self.vectorised = not context                                   # the LSTMs are not

    def derive(self, support: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return self.vector(support), labels                             # (n, d), (n,)

    def score(self, shots: tuple[Tensor, Tensor], query: Tensor) -> Tensor:
        (rows, labels), queries = shots, self.vector(query)             # (n, d), (n,), (Q, d)
        if self.context is not None:
            rows, queries = self.context(rows, queries)
        votes = attention_votes(self.scale * cosines(queries, rows), labels)
        return (votes + 1e-6).log()


def attention_votes(similarity: Tensor, labels: Tensor) -> Tensor:
    """The softmax over all shots, summed within each class: (Q, n), (n,) -> (Q, N)."""
    return similarity.softmax(1) @ F.one_hot(labels).to(similarity.dtype)


def build_context(channels: int | None, vector: str) -> "Context":
    """The LSTMs for pooled vectors; flat ones have a width that is not known before the first map."""
    if vector != "gap":
        raise InputError(f"matchingnet with context=1 works on vector='gap', not {vector!r}")
    return Context(needed_channels(channels, "matchingnet"))


class Context(nn.Module):
    """Support vectors that know each other, and query vectors that have read them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reader = nn.LSTM(width, width, bidirectional=True)
        self.asker = nn.LSTMCell(2 * width, width)

    def forward(self, rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """(n, d), (Q, d) -> (n, d), (Q, d)"""
        forwards, backwards = self.reader(rows)[0].chunk(2, dim=1)      # (n, d) twice
        rows = rows + forwards + backwards
        hidden, cell = queries, torch.zeros_like(queries)               # (Q, d) twice
        for _ in rows:                                                  # as many steps as shots
            read = (hidden @ rows.T).softmax(1) @ rows                  # (Q, d)
            hidden, cell = self.asker(torch.cat([queries, read], 1), (hidden, cell))
            hidden = hidden + queries
        return rows, hidden
