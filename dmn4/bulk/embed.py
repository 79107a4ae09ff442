"""A data set embedded on a Ray cluster: this machine decodes, workers run the network, the maps come back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..backbones.base import Backbone
from ..data.folders import ImageSet
from ..episodes.maps import BATCH, embed_rows
from ..episodes.stored import Embed, embed_here
from ..errors import InputError, choose
from ..images import Transform
from .cluster import ENGINES, joined, spread


@contextmanager
def embedder(engine: str = "local", address: str | None = None, workers: int | None = None,
             gpus: float = 0) -> Iterator[Embed]:
    """What embeds pictures: this process, or the workers of a Ray cluster, which is left with the block."""
    if choose("engine", engine, ENGINES) == "local":
        if address is not None or workers is not None or gpus:
            raise InputError("--address, --workers and --gpus-per-worker are for --engine ray")
        yield embed_here
        return
    with joined(address, workers, gpus) as ray:
        def embed_on_cluster(backbone: Backbone, images: ImageSet, transform: Transform,
                             starts: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
            network = ray.put((backbone, transform))          # every node fetches it once
            batches = (([network], start, np.array(images.pixels[start : start + BATCH])) for start in starts.tolist())
            yield from spread(ray, embed_there, batches, workers, gpus)

        yield embed_on_cluster


LOADED: dict[str, tuple[Backbone, Transform]] = {}            # of this process, at most one


def embed_there(network: list[Any], start: int, pixels: np.ndarray) -> tuple[int, np.ndarray]:
    """First row and maps (B, H, W, C) of a batch of pictures, on whatever node."""
    key = network[0].hex()
    if key not in LOADED:
        import ray

        torch.set_num_threads(1)
        LOADED.clear()
        backbone, transform = ray.get(network[0])
        LOADED[key] = backbone.to("cuda" if ray.get_gpu_ids() else "cpu"), transform
    images = ImageSet(pixels, np.zeros(len(pixels)), ("picture",))
    backbone, transform = LOADED[key]
    maps = embed_rows(backbone, images, transform, slice(None))
    return start, maps.permute(0, 2, 3, 1).cpu().numpy()
