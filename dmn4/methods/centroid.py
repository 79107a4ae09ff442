"""Centroid alignment (Afrasiyabi et al., ECCV 2020): related base images are drawn towards the novel class centroids.

The call on maps is the head-only form: a new ArcFace classifier, fitted to the support set. The paper's full procedure
also trains the backbone for each episode and needs base images: `learn_adapted`, or `adapt` for the backbone alone.
"""

import math
from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from ..errors import InputError, choose
from .base import Learnt, Method
from .heads import arc_logits, fresh_weights
from .vectors import VECTORS, class_means, cosines, squared_distances


@dataclass(frozen=True)
class BaseImages:
    """Images that the backbone was trained on; their maps too if at hand, to save embedding them for each episode."""

    images: Tensor              # (B, 3, h, w)  as the backbone takes them
    labels: Tensor              # (B,)          base class of each, any integers
    maps: Tensor | None = None  # (B, C, H, W)  of the backbone that is given to `align`, before it adapts


class Centroid(Method):
    """`scale` times the cosine with each weight vector of an ArcFace classifier of the support set; `seed` starts it.

    `head_steps` and `steps` count the updates of the new head and the rounds of alignment; every round takes up to
    `related_images` base images a novel class, from the `related_classes` base classes most often taken for it.
    """

    adapts = True

    def __init__(self, channels: int | None = None, vector: str = "flat", scale: float = 5.0, align_scale: float = 15.0,
                 margin: float = 0.001, lr: float = 1e-3, head_steps: int = 200, steps: int = 150,
                 related_classes: int = 10, related_images: int = 50, seed: int = 0) -> None:
        super().__init__(channels)
        self.vector = VECTORS[choose("vector", vector, VECTORS)]
        self.any_size = self.reads_means = vector == "gap"
        self.scale, self.align_scale, self.margin, self.lr = scale, align_scale, margin, lr
        self.head_steps, self.steps, self.seed = head_steps, steps, seed
        self.related_classes, self.related_images = related_classes, related_images

    def derive(self, support: Tensor, labels: Tensor) -> Tensor:
        """The weights of a fitted head: (n, C, H, W), (n,) -> (N, d)."""
        return self.fit_head(self.vector(support), labels, torch.Generator().manual_seed(self.seed))[0].detach()

    def score(self, weight: Tensor, query: Tensor) -> Tensor:
        return self.scale * cosines(self.vector(query), weight)

    @torch.inference_mode(False)                              # which also turns gradients on
    def fit_head(self, rows: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Optimizer]:
        """A new head trained on fixed support vectors, and its optimiser: (n, d), (n,) -> (N, d)."""
        rows, labels = rows.detach().clone(), labels.clone()
        bound = math.sqrt(6 / (rows.shape[1] + len(labels.unique())))                     # Xavier
        weight = fresh_weights(rows, labels, bound, generator).requires_grad_()
        optimizer = Adam([weight], lr=self.lr)
        for _ in range(self.head_steps):
            update(optimizer, self.head_loss(rows, labels, weight, self.scale))
        return weight, optimizer

    def head_loss(self, rows: Tensor, labels: Tensor, weight: Tensor, scale: float) -> Tensor:
        """The ArcFace loss of labelled vectors: (n, d), (n,), (N, d) -> ()."""
        return F.cross_entropy(arc_logits(cosines(rows, weight), labels, self.margin, scale), labels)

    def adapt(self, backbone: nn.Module, images: Tensor, labels: Tensor, base: BaseImages | None) -> nn.Module:
        """A copy of `backbone` aligned with the support `images`; the plain call then fits a new head to its maps."""
        return self.align(backbone, images, labels, base)[0]

    def learn_adapted(self, backbone: nn.Module, images: Tensor, labels: Tensor,
                      base: BaseImages | None) -> tuple[nn.Module, Learnt]:
        """An aligned copy of `backbone` and the aligned head, with which `answer` scores the copy's maps."""
        network, weight = self.align(backbone, images, labels, base)
        with torch.no_grad():
            return network, Learnt(weight, network(images[:1]).shape[1:])

    @torch.inference_mode(False)
    def align(self, backbone: nn.Module, images: Tensor, labels: Tensor,
              base: BaseImages | None) -> tuple[nn.Module, Tensor]:
        """The paper's whole procedure: an aligned copy of `backbone` and its head (N, d), whose cosines predict."""
        if base is None:
            raise InputError("centroid aligns with base images: give base=BaseImages(images, labels)")
        images, labels = images.clone(), labels.clone()
        generator = torch.Generator().manual_seed(self.seed)
        network = deepcopy(backbone).requires_grad_(True).eval()
        weight, head_optimizer = self.fit_head(self.embed(network, images), labels, generator)
        related = self.find_related(network, weight, base)
        align_optimizer = Adam(network.parameters(), lr=self.lr)
        whole_optimizer = Adam([*network.parameters(), weight], lr=self.lr)
        for _ in range(self.steps):
            places, owner = draw_related(related, self.related_images, generator)
            if len(places):
                near = base.images[places.to(base.images.device)].to(images.device)
                network.train()
                centroids = class_means(self.vector(network(images)), labels)             # (N, d)
                update(align_optimizer, centroid_loss(self.vector(network(near)), owner, centroids))
                rows = self.embed(network.eval(), near)
                update(head_optimizer, self.head_loss(rows, owner, weight, self.align_scale))
            rows = self.vector(network.train()(images))
            update(whole_optimizer, self.head_loss(rows, labels, weight, self.align_scale))
        return network.eval(), weight.detach()

    @torch.no_grad()
    def embed(self, network: nn.Module, images: Tensor) -> Tensor:
        """Vectors without gradients, 64 images at a time: (B, 3, h, w) -> (B, d)."""
        return torch.cat([self.vector(network(batch)) for batch in images.split(64)])

    @torch.no_grad()
    def find_related(self, network: nn.Module, weight: Tensor, base: BaseImages) -> list[Tensor]:
        """The places of the base images related to each novel class -> N tensors."""
        rows = self.embed(network, base.images) if base.maps is None else self.vector(base.maps)
        guesses = cosines(rows, weight).argmax(1)                                         # (B,)
        return related_places(guesses, base.labels, len(weight), self.related_classes)


def related_places(guesses: Tensor, labels: Tensor, ways: int, most: int) -> list[Tensor]:
    """Where base images lie that were taken for each novel class: (B,), (B,) -> N tensors of places.

    In turn each novel class claims the `most` base classes with the largest share taken for it, of those left over by
    the ones before, and in these the images taken for it.
    """
    owner = labels.unique(return_inverse=True)[1]                                         # (B,)
    shares = class_means(F.one_hot(guesses, ways).float(), owner)                         # (base classes, N)
    free = torch.ones(len(shares), dtype=torch.bool, device=shares.device)
    related = []
    for novel, share in enumerate(shares.T):
        claimed = share.where(free, -1).topk(min(most, int(free.sum()))).indices
        free[claimed] = False
        related.append(((guesses == novel) & torch.isin(owner, claimed)).nonzero()[:, 0])
    return related


def draw_related(related: list[Tensor], most: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """As many random places for each novel class that has any, up to `most`, and their classes: (a,), (a,)."""
    held = [(novel, places) for novel, places in enumerate(related) if len(places)]
    size = min([most, *(len(places) for _, places in held)])
    drawn = [places[torch.randperm(len(places), generator=generator)[:size]] for _, places in held]
    owner = torch.tensor([novel for novel, _ in held], dtype=torch.long).repeat_interleave(size)
    return torch.cat([related[0][:0], *drawn]), owner.to(related[0].device)


def centroid_loss(rows: Tensor, owner: Tensor, centroids: Tensor) -> Tensor:
    """-log softmax(-||z - mu||^2) at each image's own centroid, averaged: (a, d), (a,), (N, d) -> ()."""
    return F.cross_entropy(-squared_distances(rows, centroids), owner)


def update(optimizer: Optimizer, loss: Tensor) -> None:
    """One step of gradient descent."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
