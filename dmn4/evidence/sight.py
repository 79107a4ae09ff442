"""What a backbone makes of two pictures: its maps, how long it took, what its descriptors tell apart and match."""

import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..images import Transform
from ..methods.descriptors import describe
from ..methods.neighbors import keep_mutual

ROUNDS = 5


@dataclass(frozen=True)
class Sight:
    """Two pictures through a backbone."""

    maps: Tensor                                              # (2, C, H, W)
    seconds: float                                            # for one picture, the median of ROUNDS
    colours: Tensor                                           # (2, H, W, 3)  0..1, equal parts in equal colours
    matches: list[tuple[int, int]]                            # places of mutual nearest neighbours, the surest first

    @property
    def places(self) -> int:
        """Descriptors of a picture."""
        return self.maps.shape[2] * self.maps.shape[3]


@torch.inference_mode()
def look_at(embedder: nn.Module, transform: Transform, pixels: Tensor) -> Sight:
    """Look at two pictures (2, h, w, 3) of bytes, a few times."""
    images = transform(pixels)
    embedder(images[:1])                                      # the first time is not the usual one
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        embedder(images[:1])
        times.append(time.perf_counter() - start)
    maps = embedder(images).float().contiguous()
    return Sight(maps, statistics.median(times), principal_colours(maps), mutual_matches(maps))


def principal_colours(maps: Tensor) -> Tensor:
    """The first three principal components of all descriptors as red, green and blue: (B, C, H, W) -> (B, H, W, 3)."""
    descriptors = describe(maps).flatten(0, 1)                                                   # (B*M, C)
    centred = descriptors - descriptors.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:3]                                 # (3, C)
    axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()                      # one of two signs
    shares = centred @ axes.T                                                                    # (B*M, 3)
    low, high = shares.quantile(0.02, dim=0), shares.quantile(0.98, dim=0)
    colours = ((shares - low) / (high - low).clamp(min=1e-9)).clamp(0, 1)
    batch, _, height, width = maps.shape
    return torch.nn.functional.pad(colours, (0, 3 - colours.shape[1])).view(batch, height, width, 3)


def mutual_matches(maps: Tensor) -> list[tuple[int, int]]:
    """Places (first, second) of mutual nearest neighbours in two maps, measured from their common mean."""
    first, second = describe(maps, centre=maps.mean((0, 2, 3)))                                  # (M, C) each
    kept = keep_mutual(first[None], second, torch.zeros(len(second), dtype=torch.long), "mnn")[0]
    cosines, partner = (first @ second.T).max(1)
    order = cosines.argsort(descending=True).tolist()
    return [(place, int(partner[place])) for place in order if kept[place]]
