"""Feature maps in the cache: a set embedded once, by this process or by many, and found again by every evaluation."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from ..backbones.base import Backbone
from ..data.cache import decoded_folder
from ..data.entries import claim, move, partial_of
from ..data.folders import ImageSet, digest_all
from ..errors import InputError
from ..images import Transform
from .maps import BATCH, IN_MEMORY, MapStore, embed_rows

VERSION = "1"                                                 # of the layout of an entry
Embed = Callable[[Backbone, ImageSet, Transform, np.ndarray], Iterator[tuple[int, np.ndarray]]]


def embed_here(backbone: Backbone, images: ImageSet, transform: Transform,
               starts: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """First row and maps, channels last, of the batches that begin at these rows: (B, H, W, C) each."""
    for start in starts.tolist():
        maps = embed_rows(backbone, images, transform, slice(start, start + BATCH))
        yield start, maps.permute(0, 2, 3, 1).cpu().numpy()


def store_maps(backbone: Backbone, images: ImageSet, transform: Transform, in_memory: float = IN_MEMORY,
               embed: Embed = embed_here, seen: Callable[[int], None] = lambda count: None) -> MapStore:
    """The maps of every picture of a decoded set, embedded only if the cache does not hold them yet.

    Interrupted, the same call goes on where it stopped. More than `in_memory` bytes are kept as float16.
    """
    if not is_storable(backbone):
        raise InputError(f"maps of {backbone.name or type(backbone).__name__!r} cannot be kept: nobody would see when "
                         "its weights change")
    folder = folder_of(backbone, images, transform)
    shape = tuple(embed_rows(backbone, images, transform, slice(1)).permute(0, 2, 3, 1).shape[1:])
    kind = np.float32 if 4 * len(images) * np.prod(shape) <= in_memory else np.float16
    layout = {"maps": (kind, (len(images), *shape)), "done": (np.bool_, (-(-len(images) // BATCH),))}
    arrays = claim(folder, layout)
    missing = BATCH * np.flatnonzero(~arrays["done"])
    seen(len(images) - sum(min(BATCH, len(images) - start) for start in missing.tolist()))
    for start, block in embed(backbone, images, transform, missing):
        arrays["maps"][start : start + len(block)] = block
        arrays["done"][start // BATCH] = True                 # last: now these rows are there
        seen(len(block))
    if not folder.is_dir():
        move(partial_of(folder), folder)
    return opened(folder) or MapStore(torch.from_numpy(arrays["maps"]))     # it may be removed in this moment


def stored_maps(backbone: Backbone, images: ImageSet, transform: Transform) -> MapStore | None:
    """The maps that `store_maps` put into the cache; None if there are none of this set by this network."""
    if not is_storable(backbone) or not any(decoded_folder().glob("maps-*")):
        return None
    return opened(folder_of(backbone, images, transform))


def opened(folder: Path) -> MapStore | None:
    """The maps of a finished entry, which is never written to through them."""
    try:
        return MapStore(torch.from_numpy(np.load(folder / "maps.npy", mmap_mode="c")))
    except (OSError, ValueError, EOFError):                   # not there, or cut off by a crash
        return None


def is_storable(backbone: Backbone) -> bool:
    """Whether everything that its maps depend on can be seen: a network built by its name, with weights in it."""
    return bool(getattr(backbone, "name", "")) and len(backbone.state_dict()) > 0


def folder_of(backbone: Backbone, images: ImageSet, transform: Transform) -> Path:
    """The entry of this set by this network: another picture, preprocessing or weight is another entry."""
    weights = backbone.state_dict()
    key = hashlib.blake2b(VERSION.encode(), digest_size=16)
    key.update(repr((backbone.name, sorted(backbone.options.items()), transform, images.pixels.shape)).encode())
    key.update(np.ascontiguousarray(digest_all(images.pixels) if images.digests is None else images.digests).data)
    for name, tensor in sorted(weights.items()):
        key.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        key.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return decoded_folder() / f"maps-{key.hexdigest()}"
