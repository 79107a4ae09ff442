"""Small episodes for the tests of single methods: a few maps, and a stream that a linear layer can learn from."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dmn4.methods.base import Method


def as_maps(rows: list[list[float]]) -> Tensor:
    """Vectors as maps of one location: n rows of C numbers -> (n, C, 1, 1)."""
    return torch.tensor(rows)[:, :, None, None]


def noise_episode(seed: int = 0, channels: int = 4, side: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Random maps of 3 classes with 1, 2 and 3 shots in mixed order, and 4 queries."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.tensor([2, 0, 1, 2, 1, 2])
    support = torch.randn(6, channels, side, side, generator=generator)
    return support, labels, torch.randn(4, channels, side, side, generator=generator)


def toy_episode(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """3 of 5 classes, 2 shots, 4 queries each: 3 channels tell the class, 3 more hold loud noise; 2 x 2 maps."""
    templates = torch.tensor([[2.0, 0, 0], [0, 2, 0], [0, 0, 2], [-2, 0, 0], [0, -2, 0]])
    classes = torch.randperm(5, generator=generator)[:3].repeat_interleave(6)             # (18,)
    maps = torch.randn(18, 6, 2, 2, generator=generator) * torch.tensor([0.5] * 3 + [2.0] * 3).view(6, 1, 1)
    maps[:, :3] += templates[classes][:, :, None, None]
    shots = torch.tensor([True, True, False, False, False, False]).repeat(3)
    labels = torch.arange(3).repeat_interleave(6)
    return maps[shots], labels[shots], maps[~shots], labels[~shots]


def toy_losses(method: Method, episodes: int = 60, lr: float = 0.03) -> tuple[float, float]:
    """The mean loss over the first and the last fifteen episodes, with a 1 x 1 convolution learning before `method`."""
    torch.manual_seed(0)
    layer = nn.Conv2d(6, 6, 1)
    optimizer = torch.optim.Adam([*layer.parameters(), *method.parameters()], lr=lr)
    generator, losses = torch.Generator().manual_seed(1), []
    for _ in range(episodes):
        support, labels, query, truth = toy_episode(generator)
        support, query = layer(support), layer(query)
        loss = getattr(method, "loss", F.cross_entropy)(method(support, labels, query), truth)
        extra = method.auxiliary(support, labels, query, truth)
        loss = loss if extra is None else loss + extra
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[:15]) / 15, sum(losses[-15:]) / 15
