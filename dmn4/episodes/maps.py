"""Feature maps of a whole data set: embedded once, kept in memory or in a file, drawn from by every episode."""

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..data.folders import ImageSet
from ..errors import InputError
from ..files import reserve

IN_MEMORY = 4e9                                               # bytes; a larger store is float16 and lies in a file
BATCH = 64                                                    # pictures embedded at a time


def pictures(images: ImageSet, rows: Tensor | slice) -> Tensor:
    """Some pictures of a decoded set, as bytes: (B, h, w, 3)."""
    assert isinstance(images.images, np.ndarray), "decode the set first"
    return torch.from_numpy(np.array(images.images[rows if isinstance(rows, slice) else rows.numpy()]))


@torch.no_grad()
def embed_rows(backbone: nn.Module, images: ImageSet, transform: Callable[[Tensor], Tensor], rows: slice) -> Tensor:
    """Feature maps of some pictures of a decoded set, in evaluation mode: (B, C, H, W)."""
    was_training, device = backbone.training, next(backbone.parameters()).device
    inputs = transform(pictures(images, rows)).to(device)
    maps: Tensor = backbone.eval()(inputs.contiguous(memory_format=torch.channels_last))
    backbone.train(was_training)
    return maps


@dataclass(frozen=True)
class MapStore:
    """The maps of all images of a set, channels last; `store[rows]` are those of some: (...) -> (..., C, H, W)."""

    values: Tensor                                            # (n, H, W, C)

    def __getitem__(self, rows: Tensor) -> Tensor:
        maps = self.values.index_select(0, rows.flatten()).float().permute(0, 3, 1, 2)
        chosen: Tensor = maps.unflatten(0, rows.shape)
        return chosen

    def pooled(self) -> "MapStore":
        """The mean of each map, as a map of one location."""
        means = torch.cat([part.float().mean((1, 2), keepdim=True) for part in self.values.split(1024)])
        return MapStore(means)                                # (n, 1, 1, C)


@torch.no_grad()
def embed_all(backbone: nn.Module, images: ImageSet, transform: Callable[[Tensor], Tensor], *,
              in_memory: float = IN_MEMORY, seen: Callable[[int], None] = lambda count: None) -> MapStore:
    """The maps of every image, embedded once; `seen` hears how many came with each batch."""
    values = torch.empty(0)
    for start in range(0, len(images), BATCH):
        block = embed_rows(backbone, images, transform, slice(start, start + BATCH)).permute(0, 2, 3, 1)
        if not start:                                         # (B, H, W, C)
            values = room(len(images), tuple(block.shape[1:]), in_memory)
        values[start : start + len(block)] = block
        seen(len(block))
    return MapStore(values)


def room(count: int, shape: tuple[int, ...], in_memory: float) -> Tensor:
    """Space for `count` maps: float32 in memory or, if that is too large, float16 in a passing file."""
    if 4 * count * np.prod(shape) <= in_memory:
        return torch.empty(count, *shape)
    try:
        with tempfile.NamedTemporaryFile() as file:           # the name goes at once; the space with the last reader
            reserve(cast(BinaryIO, file), 2 * count * math.prod(shape))
            return torch.from_numpy(np.memmap(file.name, np.float16, "r+", shape=(count, *shape)))
    except OSError as error:
        raise InputError(f"no room for {2 * count * math.prod(shape) / 1e9:.1f} GB of maps in "
                         f"{tempfile.gettempdir()!r} ({error.strerror}); set TMPDIR, or raise --memory") from None


# ------------------------------------------------------------------------------------ extra pictures of support images
