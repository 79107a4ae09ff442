"""What a method is given, checked once: maps, labels, options."""

import torch
from torch import Tensor

from ..errors import InputError


def positive(name: str, value: float) -> float:
    """`value`, or an InputError unless it is a number above zero."""
    if not 0 < value < float("inf"):
        raise InputError(f"{name} is {value}; it must be above 0, and finite")
    return value


def needed_channels(channels: int | None, name: str) -> int:
    """`channels`, or an InputError if a method that learns layers was not told how wide the maps are."""
    if channels is None:
        raise InputError(f"method {name!r} learns layers: give channels=, the width of the feature maps")
    return channels


def checked_labels(support: Tensor, labels: Tensor) -> Tensor:
    """The labels beside their maps, as integers; an InputError names the first thing wrong with either: -> (n,)."""
    labels = torch.as_tensor(labels, device=support.device)
    check_map("support", support)
    check_labels(labels, len(support))
    return labels.long()


def check_query(shape: torch.Size, query: Tensor, any_size: bool = False) -> None:
    """Raise an InputError unless query maps are finite and fit support maps of this shape (C, H, W)."""
    check_map("query", query)
    alike = 1 if any_size else 3                              # channels alone, or height and width as well
    if shape[:alike] != query.shape[1 : 1 + alike]:
        raise InputError(f"support maps are {in_words(shape)}, query maps {in_words(query.shape[1:])}: "
                         "they must be alike")


def check_map(name: str, maps: Tensor) -> None:
    """Raise an InputError unless `maps` is a finite floating-point tensor (n, C, H, W) that is not empty."""
    if maps.ndim != 4 or 0 in maps.shape[1:]:
        raise InputError(f"{name} maps have shape {tuple(maps.shape)}; (images, channels, height, width) is needed")
    if not maps.is_floating_point():
        raise InputError(f"{name} maps are {maps.dtype}; floating-point maps are needed")
    if not maps.detach().sum().isfinite():                    # one cheap pass; the slow one below names the image
        finite = maps.detach().flatten(1).isfinite().all(1)   # (n,)
        if not finite.all():
            bad = int((~finite).nonzero()[0])
            raise InputError(f"{name} map {bad} holds NaN or infinite values")


def check_labels(labels: Tensor, images: int) -> None:
    """Raise an InputError unless `labels` are integers 0..N-1, one an image, none of the classes empty."""
    if labels.shape != (images,) or labels.is_floating_point():
        raise InputError(f"labels have shape {tuple(labels.shape)} and type {labels.dtype}; "
                         f"{images} integers are needed")
    if not images:
        raise InputError("no support images: every class needs at least one")
    if int(labels.min()) < 0:
        raise InputError(f"label {int(labels.min())} is negative; labels run from 0 to N-1")
    counts = torch.bincount(labels)
    if not counts.all():
        raise InputError(f"class {int((counts == 0).nonzero()[0])} has no support image; labels run from 0 to "
                         f"{len(counts) - 1} without a gap")


def in_words(shape: torch.Size) -> str:
    """Channels and size of a map: "64 x 19 x 19"."""
    return " x ".join(str(side) for side in shape)
