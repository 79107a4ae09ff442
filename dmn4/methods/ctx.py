"""CrossTransformers (Doersch et al., NeurIPS 2020): a class prototype is assembled anew for each query location.

One key layer serves support and query alike, as in the released code; the attention runs over all locations of all
shots of a class together.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Method
from .checks import needed_channels


class CTX(Method):
    """Minus the mean squared distance of the query's values to what attention finds for them in each class."""

    needs_training = True
    any_size = True

    def __init__(self, channels: int | None = None, width: int = 128) -> None:
        super().__init__(channels)
        self.key = nn.Linear(needed_channels(channels, "ctx"), width, bias=False)
        self.value = nn.Linear(needed_channels(channels, "ctx"), width, bias=False)

    def derive(self, support: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of each class, all its shots together: (n, C, H, W), (n,) -> N pairs of (K M, width)."""
        rows = support.flatten(2).transpose(1, 2)                                            # (n, M, C)
        keys, values = self.key(rows), self.value(rows)                                      # (n, M, width)
        return [(keys[labels == c].flatten(0, 1), values[labels == c].flatten(0, 1))
                for c in range(int(labels.max()) + 1)]

    def score(self, classes: list[tuple[Tensor, Tensor]], query: Tensor) -> Tensor:
        rows = query.flatten(2).transpose(1, 2)                                              # (Q, M, C)
        keys, values = self.key(rows), self.value(rows)                                      # (Q, M, width)
        return -torch.stack([aligned_distance(keys, values, *projected) for projected in classes], 1)


def aligned_distance(asked_keys: Tensor, asked_values: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The mean over locations of ||v_p - t_p||^2: (Q, M, d), (Q, M, d), (s, d), (s, d) -> (Q,)."""
    flat_keys = asked_keys.reshape(1, -1, asked_keys.shape[2])                               # all queries, one class
    aligned = F.scaled_dot_product_attention(flat_keys, keys[None], values[None])            # (1, Q M, d)  t_p
    return (asked_values - aligned.view_as(asked_values)).square().sum(2).mean(1)
