"""DropBlock (Ghiasi et al. 2018): zero whole squares of a map, with the schedule of ResNet-12 pre-training."""

import torch
import torch.nn.functional as F
from torch import Tensor

RAMP = 40_000                                                 # training passes until the full drop rate is reached


def drop_squares(maps: Tensor, rate: float, side: int, passes: Tensor) -> Tensor:
    """`maps` with random squares set to zero and the rest scaled up: (B, C, H, W) -> (B, C, H, W).

    Squares shrink to the map where the map is smaller. `passes` counts the training passes so far.
    """
    batch, channels, height, width = maps.shape
    side = min(side, height, width)
    corners = (height - side + 1, width - side + 1)           # places of a square's top left corner
    chance = seed_chance(rate, side, height, width, passes)
    seeds = torch.rand(batch, channels, *corners, device=maps.device) < chance
    kept = 1 - squares(seeds.to(maps.dtype), side)            # (B, C, H, W)
    return maps * kept * (kept.numel() / kept.sum().clamp(min=1))


def seed_chance(rate: float, side: int, height: int, width: int, passes: Tensor) -> Tensor:
    """gamma, the chance of a place to become the corner of a dropped square; it grows linearly over RAMP passes."""
    dropped = (rate * passes / RAMP).clamp(max=rate)          # 1 - keep
    return dropped / side**2 * (height * width) / ((height - side + 1) * (width - side + 1))


def squares(seeds: Tensor, side: int) -> Tensor:
    """Ones on the square whose top left corner is a seed: (B, C, H-side+1, W-side+1) -> (B, C, H, W)."""
    return F.max_pool2d(F.pad(seeds, [side - 1] * 4), side, stride=1)
