"""Which pixels a descriptor sees: receptive fields by backward passes, and a cheap grid form (supplement)."""

import torch
from torch import Tensor, nn


def receptive_fields(backbone: nn.Module, image: Tensor, places: Tensor, batch: int = 16) -> Tensor:
    """The pixels that each place of an image's map depends on: (3, h, w), (P,) -> bool (P, h, w).

    A backward pass starts at each descriptor; where its gradient is not zero the descriptor sees the pixel.
    """
    was_training = backbone.training
    backbone.eval()                                           # batch statistics would tie the copies together
    parts = [seen_pixels(backbone, image, part) for part in places.split(batch) if len(part)]
    backbone.train(was_training)
    return torch.cat([places.new_zeros(0, *image.shape[1:], dtype=torch.bool), *parts])


@torch.enable_grad()
def seen_pixels(backbone: nn.Module, image: Tensor, places: Tensor) -> Tensor:
    """The same for a few places in one pass, each on a copy of the image: (3, h, w), (P,) -> bool (P, h, w)."""
    copies = image.detach().expand(len(places), -1, -1, -1).clone().requires_grad_()
    maps = backbone(copies).flatten(2)                                                           # (P, C, M)
    descriptors = maps[torch.arange(len(places), device=places.device), :, places]               # (P, C)
    gradient, = torch.autograd.grad(descriptors.sum(), copies)                                   # (P, 3, h, w)
    return gradient.ne(0).any(1)


def grid_fields(grid: tuple[int, int], places: Tensor, size: tuple[int, int]) -> Tensor:
    """The cell of the picture that each place of a map stands for: (H, W), (P,), (h, w) -> bool (P, h, w).

    The cheap form, for backbones so deep that every descriptor sees the whole picture, a little.
    """
    cell = torch.arange(grid[0] * grid[1], device=places.device).view(grid)                      # (H, W)
    down, across = (torch.arange(pixels, device=places.device) * cells // pixels
                    for cells, pixels in zip(grid, size, strict=True))                           # (h,), (w,)
    return cell[down][:, across] == places[:, None, None]


def heat(fields: Tensor) -> Tensor:
    """How many of the fields hold each pixel, as a share of the most crowded one: bool (P, h, w) -> (h, w) in 0..1."""
    count = fields.sum(0)                                                                        # (h, w)
    return count / count.amax().clamp(min=1)
