"""Small episodes for the tests of single methods: a few maps, and a stream that a linear layer can learn from."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def as_maps(rows: list[list[float]]) -> Tensor:
    """Vectors as maps of one location: n rows of C numbers -> (n, C, 1, 1)."""
    return torch.tensor(rows)[:, :, None, None]


def random_episode(seed: int = 0, shots: tuple[int, ...] = (2, 1, 3), queries: int = 4, channels: int = 6,
                   side: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Noise maps with uneven shots a class, shuffled: support, labels, query, in float64."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(len(shots)).repeat_interleave(torch.tensor(shots))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    maps = torch.randn(len(labels) + queries, channels, side, side, generator=generator, dtype=torch.float64)
    return maps[queries:], labels, maps[:queries]


def noise_episode(seed: int = 0, channels: int = 4, side: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """The same in float32: 1, 2 and 3 shots, 4 queries."""
    support, labels, query = random_episode(seed, (1, 2, 3), 4, channels, side)
    return support.float(), labels, query.float()


def toy_episode(generator: torch.Generator, ways: int = 3, shots: int = 2, queries: int = 4, channels: int = 6,
                side: int = 2, noise: float = 1.0, alike: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Support maps, labels, query maps, labels: class templates in two channels, strong noise in the others.

    With `alike` a template is the same at every place, as a method needs that compares places with pooled classes.
    """
    templates = torch.randn(ways, channels, side, side, generator=generator)
    if alike:
        templates = templates[:, :, :1, :1].expand_as(templates).clone()
    templates[:, 2:] = 0
    spread = noise * torch.ones(channels, 1, 1)
    spread[:2] = 0.1

    def draw(each: int) -> tuple[Tensor, Tensor]:
        labels = torch.arange(ways).repeat(each)
        return templates[labels] + spread * torch.randn(len(labels), channels, side, side, generator=generator), labels

    return *draw(shots), *draw(queries)


def train_on_stream(method: nn.Module, episodes: int = 40, rate: float = 0.02, shots: int = 2,
                    alike: bool = False) -> tuple[float, float]:
    """Mean loss of fresh episodes before and after training a 1 x 1 convolution in front of `method`."""
    layer = nn.Conv2d(6, 6, 1, bias=False)
    nn.init.eye_(layer.weight.data[:, :, 0, 0])
    optimizer = torch.optim.Adam([*layer.parameters(), *method.parameters()], lr=rate)

    def loss_on(generator: torch.Generator) -> Tensor:
        support, labels, query, query_labels = toy_episode(generator, shots=shots, alike=alike)
        support, query = layer(support), layer(query)
        loss = getattr(method, "loss", F.cross_entropy)(method(support, labels, query), query_labels)
        extra = method.auxiliary(support, labels, query, query_labels)
        return loss if extra is None else loss + extra

    def mean_loss() -> float:
        generator = torch.Generator().manual_seed(1)
        return sum(loss_on(generator).item() for _ in range(10)) / 10

    before, generator = mean_loss(), torch.Generator().manual_seed(0)
    for _ in range(episodes):
        optimizer.zero_grad()
        loss_on(generator).backward()
        optimizer.step()
    return before, mean_loss()
