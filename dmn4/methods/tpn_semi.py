"""TPN-semi (Liu et al., ICLR 2019): labels spread over a graph of the labelled and unlabelled images and one query."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .checks import needed_channels
from .semi import SemiMethod
from .solvers import solve_each

GRAPH_BYTES = 64 << 20       # what the graphs of the queries solved at a time may take


class TPNSemi(SemiMethod):
    """The label mass that reaches each query; every query has a graph of its own, so queries do not meet.

    Two images are joined by how near they are, each measured by a length scale that a small network reads from its map,
    if one is among the `k` nearest of the other. `alpha` is the share that flows on at each step; `length` is the scale
    that training starts from: at 1 all images of a trained backbone are neighbours, and the best-connected shot wins.
    """

    needs_training = True

    def __init__(self, channels: int | None = None, alpha: float = 0.99, k: int = 20, length: float = 1.0) -> None:
        super().__init__(channels)
        if not 0 < alpha < 1:
            raise InputError(f"alpha is {alpha}; it lies between 0 and 1")
        if k < 1:
            raise InputError(f"k is {k}; at least one neighbour is needed")
        if not length > 0:
            raise InputError(f"length is {length}; a scale above 0 is needed")
        self.alpha, self.k = alpha, k
        self.length = LengthScale(needed_channels(channels, "tpn-semi"), length)

    def derive_with(self, support: Tensor, labels: Tensor, unlabelled: Tensor) -> tuple[Tensor, Tensor]:
        """The maps that every query is joined with, and the labels of the first of them: (T, C, H, W), (n,)."""
        return torch.cat([support, unlabelled]), labels

    def score(self, nodes_and_labels: tuple[Tensor, Tensor], query: Tensor) -> Tensor:
        (known, labels), maps = nodes_and_labels, torch.cat([nodes_and_labels[0], query])     # batch norm sees all
        rows = maps.flatten(1) / (self.length(maps) + torch.finfo(maps.dtype).eps)        # (T + Q, d)
        nodes, queries = rows[: len(rows) - len(query)], rows[len(rows) - len(query):]    # (T, d), (Q, d)
        targets = F.pad(F.one_hot(labels), (0, 0, 0, len(known) - len(labels) + 1)).to(rows)  # (T + 1, N)
        among = affinities(nodes, nodes)                                                  # (T, T)
        at_once = max(1, GRAPH_BYTES // (rows.element_size() * len(targets) ** 2))
        graphs = (join(among, part) for part in affinities(queries, nodes).split(at_once))
        return torch.cat([propagate(nearest_only(graph, self.k), targets, self.alpha)[:, -1] for graph in graphs])


class LengthScale(nn.Module):
    """The unit in which an image measures distances: (B, C, H, W) -> (B, 1). Made for 5 x 5 maps, takes any."""

    def __init__(self, channels: int, start: float = 1.0) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*block(channels, channels), *block(channels, 1), nn.AdaptiveMaxPool2d(2))
        last = nn.Linear(8, 1)
        with torch.no_grad():                                  # near 0 every image would be alone
            last.weight *= start
            last.bias.fill_(start)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), last)

    def forward(self, maps: Tensor) -> Tensor:
        sigma: Tensor = self.head(self.blocks(maps))
        return sigma


def block(inside: int, outside: int) -> tuple[nn.Module, ...]:
    """A convolution that keeps the size and a pool that halves it: 5 -> 3 -> 2."""
    return (nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2, padding=1))


def affinities(a: Tensor, b: Tensor) -> Tensor:
    """exp(-d / 2) with d the squared distance per dimension: (n, d), (m, d) -> (n, m)."""
    squares = a.square().mean(1)[:, None] + b.square().mean(1)
    return (a @ b.T / a.shape[1] - squares / 2).clamp(max=0).exp()


def join(among: Tensor, query: Tensor) -> Tensor:
    """The graph of each query, which comes last, with the nodes that all share: (T, T), (Q, T) -> (Q, T + 1, T + 1)."""
    shared = among.expand(len(query), *among.shape)                                       # (Q, T, T)
    upper = torch.cat([shared, query[:, :, None]], 2)                                     # (Q, T, T + 1)
    return torch.cat([upper, F.pad(query, (0, 1), value=1.0)[:, None]], 1)


def nearest_only(graph: Tensor, k: int) -> Tensor:
    """The graph without edges that are among the k strongest of neither end: (..., T, T) -> (..., T, T)."""
    strongest = graph.detach().topk(min(k, graph.shape[-1]), dim=-1).indices              # (..., T, k)
    near = torch.zeros_like(graph, dtype=torch.bool).scatter(-1, strongest, True)
    return graph * (near | near.transpose(-2, -1))


def propagate(graph: Tensor, targets: Tensor, alpha: float) -> Tensor:
    """F = (I - alpha D^-1/2 W D^-1/2)^-1 Y: (..., T, T), (T, N) -> (..., T, N)."""
    root = graph.sum(-1).rsqrt()                                                          # (..., T)
    spread = root[..., :, None] * graph * root[..., None, :]
    identity = torch.eye(graph.shape[-1]).to(graph)
    return solve_each(identity - alpha * spread, targets.expand(*graph.shape[:-1], -1))
