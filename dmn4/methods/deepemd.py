"""DeepEMD (Zhang et al., CVPR 2020), on whole maps: optimal transport between the locations of query and class."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import choose
from .base import Method
from .checks import positive
from .descriptors import unit
from .solvers import require_transport, transport
from .vectors import class_means

CELLS = 1 << 24     # of the cost matrices that are held at a time: 128 MB in float64


class DeepEMD(Method):
    """Similarity moved by the cheapest flow between the locations of the query and those of the class map.

    A location weighs what it has in common with the other image's mean. One shot is its class's map; with more shots
    the mean map is refined by gradient steps on the support (the structured fully connected layer), drawn by `seed`.
    `gradient`: "full", through costs and weights as in the paper; "flow", with the weights held fixed, as the released
    code trains with OpenCV and refines class maps (always so here: single shots sit where the duals are not unique).
    `side` averages larger maps to side x side places first: transport between 19 x 19 places takes a minute an episode.
    """

    any_size = True

    def __init__(self, channels: int | None = None, solver: str = "exact", gradient: str = "full", scale: float = 12.5,
                 rate: float = 100.0, epochs: int = 100, batch: int = 4, entropy: float = 0.02, iterations: int = 200,
                 seed: int = 0, side: int = 0) -> None:
        super().__init__(channels)
        self.solver = choose("solver", solver, ("exact", "sinkhorn"))
        require_transport(solver)
        self.gradient = choose("gradient", gradient, ("full", "flow"))
        self.scale, self.epochs, self.batch, self.seed, self.side = scale, epochs, batch, seed, side
        self.rate, self.entropy, self.iterations = positive("rate", rate), positive("entropy", entropy), iterations

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        return self.class_maps(self.shrunk(support), labels)                # (N, C, h, w)

    def score(self, maps: Tensor, query: Tensor) -> Tensor:
        return self.compare(maps, self.shrunk(query), self.gradient)

    def shrunk(self, maps: Tensor) -> Tensor:
        """Maps averaged to side x side places, or as they are: (n, C, H, W) -> (n, C, h, w)."""
        return F.adaptive_avg_pool2d(maps, self.side) if self.side else maps

    def class_maps(self, support: Tensor, labels: Tensor) -> Tensor:
        """One map a class: its only shot, or the mean of its shots, refined: (n, C, H, W), (n,) -> (N, C, H, W)."""
        means = class_means(support.flatten(1), labels).unflatten(1, support.shape[1:])
        return means if len(means) == len(support) else self.refine(means.detach(), support.detach(), labels)

    @torch.inference_mode(False)                                            # which also turns gradients on
    def refine(self, maps: Tensor, support: Tensor, labels: Tensor) -> Tensor:
        """Class maps that tell the support images apart, by stochastic gradient descent from `maps`, detached."""
        maps, support, labels = maps.clone().requires_grad_(), support.clone(), labels.clone()
        optimizer = torch.optim.SGD([maps], lr=self.rate, momentum=0.9, dampening=0.9)
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.epochs):
            for rows in torch.randperm(len(support), generator=generator).to(labels.device).split(self.batch):
                optimizer.zero_grad()
                F.cross_entropy(self.compare(maps, support[rows], "flow"), labels[rows]).backward()
                optimizer.step()
        return maps.detach()

    def compare(self, maps: Tensor, query: Tensor, gradient: str) -> Tensor:
        """Similarity moved between each query and each class map: (N, C, h, w), (Q, C, H, W) -> (Q, N)."""
        cells = len(maps) * maps.shape[2:].numel() * query.shape[2:].numel()      # of one query's cost matrices
        return torch.cat([self.compare_block(maps, block, gradient) for block in query.split(max(1, CELLS // cells))])

    def compare_block(self, maps: Tensor, query: Tensor, gradient: str) -> Tensor:
        """`compare` for as many queries as fit into memory at once."""
        left, right = query.flatten(2).mT, maps.flatten(2).mT               # (Q, M, C), (N, m, C)
        supply = (left @ right.mean(1).T).mT                                # (Q, N, M)
        demand = torch.einsum("nmc,qc->qnm", right, left.mean(1))           # (Q, N, m)
        if gradient == "flow":
            supply, demand = supply.detach(), demand.detach()
        cost = 1 - torch.einsum("qic,njc->qnij", centred_unit(left), centred_unit(right))    # (Q, N, M, m)
        moved = transport(cost.flatten(0, 1), shares(supply), shares(demand), self.solver, self.entropy,
                          self.iterations)
        return self.scale * (1 - moved.view(len(query), len(maps)))


def shares(weights: Tensor) -> Tensor:
    """What is in common, never nothing, as parts of 1: (Q, N, M) -> (Q N, M)."""
    return F.normalize(weights.relu() + 1e-3, p=1, dim=-1).flatten(0, 1)


def centred_unit(rows: Tensor) -> Tensor:
    """Unit descriptors, each less the mean over its own channels: (n, M, C) -> (n, M, C)."""
    return unit(rows - rows.mean(-1, keepdim=True))
