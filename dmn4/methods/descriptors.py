"""Images as sets of descriptors, and the merged support pool (Sec. 3.1)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError, choose

SHOTS = ("union", "mean")
CENTRES = ("none", "shots")


@dataclass(frozen=True)
class SupportPool:
    """**S**, all support descriptors in one flat, class-major list; classes may differ in size."""

    descriptors: Tensor   # (S, C)  unit vectors
    counts: list[int]     # N       descriptors of each class
    rows: Tensor          # (S,)    support image each one came from; the class itself after a mean of shots
    places: Tensor        # (S,)    its place in that image, row by row
    centre: Tensor | None = None   # (C,)  what all descriptors are measured from; None: zero, as in the paper

    @property
    def owner(self) -> Tensor:
        """The class of each descriptor -> (S,)."""
        counts = torch.tensor(self.counts, device=self.descriptors.device)
        return torch.arange(len(counts), device=counts.device).repeat_interleave(counts)


def describe(maps: Tensor, pyramid: str = "", centre: Tensor | None = None) -> Tensor:
    """Unit descriptors of each image: (B, C, H, W) -> (B, M, C).

    `pyramid` joins coarser views: "2,1" adds the means of a 2 x 2 and of a 1 x 1 grid. `centre` (C,) is subtracted
    before the norm is taken. Zero vectors stay zero and have no gradient: they have no direction to turn to.
    """
    if centre is not None:
        maps = maps - centre[:, None, None]
    scales = [maps, *(F.adaptive_avg_pool2d(maps, side) for side in pyramid_sides(pyramid))]
    each = [scale.flatten(2).transpose(1, 2) for scale in scales]                            # (B, M, C) each
    descriptors = torch.cat(each, dim=1) if pyramid else each[0]      # channels-last maps are not copied
    if descriptors.dtype in (torch.float16, torch.bfloat16):      # cosines deserve float32
        descriptors = descriptors.float()
    return unit(descriptors.contiguous())


def unit(rows: Tensor) -> Tensor:
    """Rows over their norms, as F.normalize gives them, but without a gradient where all is zero: (..., C) -> same.

    F.normalize divides a zero row by 1e-12, which multiplies its gradient by 1e12; over infinity both are zero.
    """
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)                             # (..., 1)
    units: Tensor = rows / norms.clamp_min(1e-12).masked_fill(norms == 0, torch.inf)
    return units


def pyramid_sides(pyramid: str) -> list[int]:
    """The grid sides that a pyramid option names: "4,2,1" or, on a command line, "4-2-1" -> [4, 2, 1]; "" -> []."""
    try:
        sides = [int(side) for side in str(pyramid).replace("-", ",").split(",")] if pyramid else []
    except ValueError:
        sides = [0]
    if any(not 1 <= side <= 64 for side in sides):
        raise InputError(f"pyramid {str(pyramid)[:40]!r} is not a list of grid sides from 1 to 64; "
                         "write for instance '2,1'")
    return sides


def pool_support(support: Tensor, labels: Tensor, shots: str = "union", pyramid: str = "",
                 centre: str = "none", middle: Tensor | None = None) -> SupportPool:
    """The support pool: maps (n, C, H, W), labels (n,) in any order -> SupportPool.

    "union" keeps the descriptors of all shots; "mean" those of the mean map of each class, whose norm is taken last.
    `centre` "shots" measures all descriptors from the mean of the labelled ones: what every picture here has in common
    then makes no two of them alike; a `middle` (C,) that is known, of more classes than these for instance, is taken.
    """
    choose("shots", shots, SHOTS)
    if choose("centre", centre, CENTRES) == "shots" and middle is None:
        middle = mean_descriptor(support, labels)
    if shots == "mean":
        support = mean_maps(support, labels)
        labels = torch.arange(len(support), device=support.device)
    order = labels.argsort(stable=True)                              # (n,)  class-major, shots in their order
    descriptors = describe(support, pyramid, middle)                 # (n, M, C)
    if (labels.diff() < 0).any():
        descriptors = descriptors[order]
    size = descriptors.shape[1]
    return SupportPool(
        descriptors=descriptors.flatten(0, 1).contiguous(),
        counts=(labels.bincount() * size).tolist(),
        rows=order.repeat_interleave(size),
        places=torch.arange(size, device=order.device).repeat(len(order)),
        centre=middle,
    )


def mean_descriptor(support: Tensor, labels: Tensor) -> Tensor:
    """The mean over all places, each class weighing the same: (n, C, H, W), (n,) -> (C,), at least float32."""
    means = support.mean((2, 3), dtype=torch.promote_types(support.dtype, torch.float32))     # (n, C)
    return mean_maps(means[:, :, None, None], labels).mean(0).flatten()


def mean_maps(support: Tensor, labels: Tensor) -> Tensor:
    """The mean map of each class: (n, C, H, W), (n,) -> (N, C, H, W)."""
    counts = labels.bincount().to(support.dtype)                                              # (N,)
    total = support.new_zeros(len(counts), *support.shape[1:]).index_add(0, labels, support)  # (N, C, H, W)
    return total / counts[:, None, None, None]
