"""Photographs as a backbone takes them: read and scaled a batch at a time, mirrored, or seen through a window."""

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from os import PathLike
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..errors import InputError, choose
from .batches import Transform
from .files import Crop, Source, digest, read_image, resize_image

LOOKS = ("plain", "flip", "crop", "crop", "crop", "crop")         # a picture itself, and the views a method may ask for
ONE = (str, bytes, PathLike, Crop, Image.Image)                   # what is one picture, though some can be iterated
CPU_PIXELS = 6 * 224 * 224                                        # embedded at a time
Item = TypeVar("Item")


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of up to `size` items; of a stream no more than one list is held."""
    stream = iter(items)
    while batch := list(islice(stream, size)):
        yield batch


def check_images(images: Iterable[Source]) -> None:
    """Raise an InputError if `images` is one picture, or nothing that can be gone through."""
    if isinstance(images, ONE) or (isinstance(images, np.ndarray) and images.ndim == 3):
        raise InputError("one picture was given where a list of pictures is needed: write [picture]")
    if not hasattr(images, "__iter__") and not hasattr(images, "__getitem__"):
        raise InputError(f"a list of pictures (paths, PIL images, uint8 arrays) is needed, not {type(images).__name__}")


def read_pixels(sources: Sequence[Source], transform: Transform) -> Tensor:
    """The pictures at the size the transform starts from, read in parallel: bytes (B, h, w, 3)."""
    size = transform.stored_size

    def read(source: Source) -> np.ndarray:
        return resize_image(read_image(source, size), size)

    if len(sources) == 1:                                     # threads would take longer to start than it takes to read
        return torch.from_numpy(read(sources[0])[None])
    with ThreadPoolExecutor(max_workers=4) as readers:
        return torch.from_numpy(np.stack(list(readers.map(read, sources))))


def view(transform: Transform, kind: str) -> Callable[..., Tensor]:
    """The preprocessing of an extra look at a picture, called like a transform.

    "flip" mirrors it; "crop" moves it by up to a tenth of its side, changes its colours and may mirror it, as RFS does.
    """
    if choose("view", kind, LOOKS[1:]) == "crop":
        return replace(transform, crop="random", padding=round(transform.size * 8 / 84), flip=True, jitter=0.4)
    return lambda batch, generator=None: transform(batch, generator).flip(-1)


def look(pixels: Tensor, transform: Transform, place: int) -> Tensor:
    """The pictures in one of the LOOKS: bytes (B, h, w, 3) -> (B, 3, size, size).

    What a crop shows depends on the picture and on `place` alone, not on what else is in the batch.
    """
    if not place:
        return transform(pixels)
    show = view(transform, LOOKS[place])
    return torch.cat([show(picture[None], seeded(picture, place)) for picture in pixels])


def at_once(images: Tensor) -> int:
    """How many prepared pictures to embed at a time: (B, 3, h, w) -> images.

    On a CPU six of 224 pixels: the largest map inside EfficientNet is then one that the C library keeps when it is
    freed, where the kernel clears a larger one anew each time. 6.5 ms a picture on two cores, 12 in batches of 32.
    """
    return len(images) if images.is_cuda else max(1, CPU_PIXELS // (images.shape[2] * images.shape[3]))


def seeded(picture: Tensor, place: int) -> torch.Generator:
    """A generator that depends on the picture's content and a number: (h, w, 3)."""
    seed = int.from_bytes(digest(picture.numpy()).tobytes()[:6], "little")
    return torch.Generator().manual_seed(seed + place)


def places_of(kinds: Sequence[str]) -> list[int]:
    """Which of the LOOKS give these views: ("crop", "crop") -> [2, 3]."""
    places: list[int] = []
    for kind in kinds:
        choose("view", kind, LOOKS[1:])
        free = [place for place, name in enumerate(LOOKS) if name == kind and place not in places]
        if not free:
            raise InputError(f"a method asks for {kinds.count(kind)} views {kind!r}; there are {LOOKS.count(kind)}")
        places.append(free[0])
    return places


def thumbnail(pixels: Tensor) -> bytes:
    """A picture as the bytes of a JPEG file, to be shown beside a prediction: (h, w, 3)."""
    out = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(out, "JPEG", quality=85)
    return out.getvalue()
