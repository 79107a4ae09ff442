"""Which pictures to label next: those that stand best for what no labelled picture is like."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from .shots import Shots

MOST = 4096                                                   # pictures that are compared with each other


def suggest_pictures(looked_at: Iterable[tuple[Tensor, Tensor]], count: int, shots: Shots | None = None) -> Tensor:
    """Places of the pictures to label next, the most useful first -> (count,).

    Of each batch: the means of its maps (B, C), and how unsure each picture is (B,), 0 to 1. Without labelled `shots`
    it is a first set. Of more than MOST pictures an even share stands for all.
    """
    if count < 1:
        raise InputError(f"n is the number of pictures to suggest, at least 1, not {count}")
    batches = list(looked_at)
    if not batches:
        raise InputError("no pictures were given; at least one is needed")
    vectors, doubts = map(torch.cat, zip(*batches, strict=True))                                  # (n, C), (n,)
    share = torch.linspace(0, len(vectors) - 1, min(len(vectors), max(MOST, count))).long()
    labelled = None if shots is None else shots.rows(shots.look == 0).maps.means                  # (m, C)
    return share[representatives(vectors[share], count, labelled, doubts[share])]


def representatives(vectors: Tensor, count: int, labelled: Tensor | None = None,
                    doubts: Tensor | None = None) -> Tensor:
    """Places of the pictures that, beside the labelled ones, are nearest to all: (n, C), (m, C), (n,) -> (count,).

    Greedy: each choice is the picture that adds most to the sum, over all pictures, of the cosine with the nearest one
    that is labelled or chosen, times how unsure the classifier is of the picture; cosines are measured from the mean of
    the pictures. So a group of pictures that nobody labelled comes first, by its most typical member; pictures
    that the classifier is sure of, and repeats, come last.
    """
    middle = vectors.mean(0)                                                                      # (C,)
    directions = F.normalize(vectors - middle)                                                    # (n, C)
    alike = directions @ directions.T                                                             # (n, n)
    weights = torch.ones(len(vectors)) if doubts is None else doubts.to(alike)                    # (n,)
    nearest = torch.full((len(vectors),), -1.0)                                                   # (n,)
    if labelled is not None:
        nearest = (directions @ F.normalize(labelled - middle).T).amax(1)
    chosen: list[int] = []
    for _ in range(min(count, len(vectors))):
        gains = weights @ (alike - nearest[:, None]).clamp(min=0)                                 # (n,)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        nearest = torch.maximum(nearest, alike[:, chosen[-1]])
    return torch.tensor(chosen, dtype=torch.long)
