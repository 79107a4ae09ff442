"""A backbone and a method as one model, and the maps of many images at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .data.folders import ImageSet
from .episodes import Episode


class FewShotModel(nn.Module):
    """Images of an episode -> class scores: the backbone makes maps, the method compares them.

    `name` and `options` say how `build_method` made the method, so that a checkpoint can rebuild it.
    """

    def __init__(self, backbone: nn.Module, method: nn.Module, name: str = "",
                 options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.backbone, self.method = backbone, method
        self.name, self.options = name, dict(options or {})

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Scores of the query images: (n, 3, h, w), (n,), (Q, 3, h, w) -> (Q, N)."""
        maps = self.backbone(torch.cat([support, query]))                          # (n + Q, C, H, W)
        return self.method(maps[: len(support)], labels, maps[len(support):])


def pictures(images: ImageSet, rows: Tensor | slice) -> Tensor:
    """Some pictures of a decoded set, as bytes: (B, h, w, 3)."""
    assert isinstance(images.images, np.ndarray), "decode the set first"
    return torch.from_numpy(np.array(images.images[rows if isinstance(rows, slice) else rows.numpy()]))


@torch.inference_mode()
def embed(backbone: nn.Module, images: ImageSet, transform: Callable[[Tensor], Tensor], batch: int = 64,
          device: torch.device | str = "cpu") -> Iterator[Tensor]:
    """Feature maps of a decoded set, a batch at a time, in evaluation mode: (B, C, H, W)."""
    was_training = backbone.training
    backbone.eval()
    for start in range(0, len(images), batch):
        inputs = transform(pictures(images, slice(start, start + batch))).to(device)
        yield backbone(inputs.contiguous(memory_format=torch.channels_last))
    backbone.train(was_training)


@torch.inference_mode()
def correct_share(method: nn.Module, maps: Tensor, episodes: Iterable[Episode]) -> float:
    """Share of query images classified correctly over all episodes: maps (n, C, H, W) of the whole set."""
    hits = []
    for episode in episodes:
        scores = method(maps[episode.support], episode.support_labels, maps[episode.query])      # (Q, N)
        hits.append((scores.argmax(1) == episode.query_labels).float().mean())
    return float(torch.stack(hits).mean())
