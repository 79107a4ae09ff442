"""The tensors of a model file: labelled pictures as they are written, and checked when they come back."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..images.looks import LOOKS
from ..methods.linear_head import LinearHead
from .counterexamples import ALL, Counterexamples
from .maps import Maps, by_patch
from .modelfile import Column
from .pictures import Pictures
from .shots import Shots

FINITE = {"shots.means", "unlabelled"}                        # the maps are checked when they are read
KINDS = {"shots.patches": (torch.float16, 4), "shots.means": (torch.float32, 2), "pictures.bytes": (torch.uint8, 1),
         "pictures.ends": (torch.int64, 1), "shots.labels": (torch.int64, 1), "shots.look": (torch.int64, 1),
         "shots.image": (torch.int64, 1)}                     # numbers of this type, and how many sides they have


class Contents(NamedTuple):
    """What a classifier has seen, and the linear head it learnt from that."""

    shots: Shots
    pictures: Pictures
    unlabelled: Tensor | None
    head: LinearHead | None
    ruled_out: Counterexamples


def columns(shots: Shots, pictures: Pictures, unlabelled: Tensor | None, head: LinearHead,
            ruled_out: Counterexamples) -> dict[str, Tensor | Column]:
    """What a classifier has seen, as the tensors of a file."""
    maps = shots.maps
    held: dict[str, Tensor | Column] = {
        "shots.patches": Column(torch.float16, (len(maps), *maps.sides), maps.batches), "shots.means": maps.means,
        "shots.labels": shots.labels, "shots.look": shots.look, "shots.image": shots.image,
        **in_a_row("pictures", pictures)}
    held |= {"head.centre": head.centre, "head.weight": head.weight.T, "head.bias": head.bias,
             "head.blocks": torch.tensor(head.blocks)}
    if len(ruled_out):
        held |= {"ruled_out.means": ruled_out.means, "ruled_out.labels": ruled_out.labels,
                 **in_a_row("ruled_out", ruled_out.pictures)}
    return held | ({} if unlabelled is None else {"unlabelled": unlabelled})


def in_a_row(name: str, pictures: Pictures) -> dict[str, Tensor | Column]:
    """The bytes of pictures one after the other, and where each ends."""
    size = sum(map(len, pictures.contents))
    return {f"{name}.bytes": Column(torch.uint8, (size,), lambda: pictures.contents), f"{name}.ends": pictures.ends}


def contents(tensors: Mapping[str, Tensor], ways: int, source: str) -> Contents:
    """What a classifier of so many classes has seen, or an InputError that says in one line what does not fit.

    Older files hold maps channel by channel, and the oldest no means: all maps are read then.
    """
    tensors = {**tensors, **renewed(tensors)}
    for name, (kind, sides) in KINDS.items():
        if name not in tensors:
            raise InputError(f"cannot read model file {source}: the tensor {name!r} is not there")
        if tensors[name].dtype != kind:
            raise InputError(f"cannot read model file {source}: the tensor {name!r} is {tensors[name].dtype}, "
                             f"not {kind}")
        if tensors[name].ndim != sides:
            raise InputError(f"cannot read model file {source}: the tensor {name!r} has {tensors[name].ndim} sides, "
                             f"not {sides}")
    head = head_of(tensors, ways, source)
    for name in FINITE & tensors.keys():
        if not tensors[name].isfinite().all():
            raise InputError(f"cannot read model file {source}: the tensor {name!r} holds NaN or infinite values")
    patches, means = tensors["shots.patches"], tensors["shots.means"]
    labels, look, image = tensors["shots.labels"], tensors["shots.look"], tensors["shots.image"]
    ends, unlabelled = tensors["pictures.ends"], tensors.get("unlabelled")
    pictures = len(ends)
    fits = (0 not in patches.shape and len(means) == len(patches) and means.shape[1] >= patches.shape[3]
            and all(column.shape == patches.shape[:1] for column in (labels, look, image))
            and within(labels, ways) and within(look, len(LOOKS)) and within(image, pictures)
            and bool(labels[look == 0].bincount(minlength=ways).all())
            and image[look == 0].sort().values.tolist() == list(range(pictures))
            and ascending(ends, tensors["pictures.bytes"])
            and (unlabelled is None or unlabelled.shape[1:] == patches[0].permute(2, 0, 1).shape))
    if not fits:
        raise InputError(f"cannot read model file {source}: its labelled pictures do not fit together")
    shots = Shots(Maps((patches,), torch.arange(len(patches)), means), labels, look, image)
    return Contents(shots, Pictures.unpacked(tensors["pictures.bytes"], ends), unlabelled, head,
                    ruled_out_of(tensors, ways, source))


def ruled_out_of(tensors: Mapping[str, Tensor], ways: int, source: str) -> Counterexamples:
    """The pictures in a file that are known not to be of a class."""
    if "ruled_out.labels" not in tensors:
        return Counterexamples.none()
    means, labels, joined, ends = (tensors.get(f"ruled_out.{name}", torch.empty(0))
                                   for name in ("means", "labels", "bytes", "ends"))
    kinds = [part.dtype for part in (means, labels, joined, ends)]
    fits = (kinds == [torch.float32, torch.int64, torch.uint8, torch.int64] and labels.ndim == ends.ndim == 1
            and len(labels) == len(ends) and means.shape == (len(labels), tensors["shots.means"].shape[1])
            and within(labels - ALL, ways - ALL) and bool(means.isfinite().all()) and joined.ndim == 1
            and ascending(ends, joined))
    if not fits:
        raise InputError(f"cannot read model file {source}: its pictures that are ruled out do not fit together")
    return Counterexamples(means.clone(), labels.clone(), Pictures.unpacked(joined, ends))


def ascending(ends: Tensor, joined: Tensor) -> bool:
    """Whether pictures that end at these places lie one after the other in the bytes."""
    return (len(ends) > 0 and int(ends.diff(prepend=ends.new_zeros(1)).min()) >= 0
            and int(ends[-1]) <= len(joined))


def renewed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a file of an older version holds otherwise, as it is held now."""
    maps = tensors.get("shots.maps")
    if maps is None or maps.ndim != 4:
        return {}
    old = Maps.of(maps) if "shots.means" not in tensors else None
    return {"shots.patches": by_patch(maps)} | ({} if old is None else {"shots.means": old.means})


def head_of(tensors: Mapping[str, Tensor], ways: int, source: str) -> LinearHead | None:
    """The linear head in a file; None in one of a version before, for which it is fitted anew."""
    if "head.weight" not in tensors:
        return None
    kinds = {"centre": torch.float32, "weight": torch.float32, "bias": torch.float32, "blocks": torch.int64}
    parts = {name: tensors.get(f"head.{name}", torch.empty(0)) for name in kinds}
    channels = tensors["shots.means"].shape[-1]
    shapes = {"centre": (channels,), "weight": (ways, channels), "bias": (ways,)}
    for name, kind in kinds.items():
        if parts[name].dtype != kind or tuple(parts[name].shape) != shapes.get(name, tuple(parts[name].shape)):
            raise InputError(f"cannot read model file {source}: the tensor 'head.{name}' does not fit the pictures")
        if not parts[name].isfinite().all():
            raise InputError(f"cannot read model file {source}: the tensor 'head.{name}' holds NaN or infinite values")
    blocks = parts["blocks"].flatten().tolist()
    if min(blocks, default=0) < 1 or sum(blocks) != channels:
        raise InputError(f"cannot read model file {source}: the tensor 'head.blocks' does not fit the pictures")
    centre, weight, bias = (parts[name].clone() for name in ("centre", "weight", "bias"))       # aligned: equal sums
    return LinearHead(centre, weight.T, bias, blocks)


def within(numbers: Tensor, end: int) -> bool:
    """Whether all of these count from 0 to below `end`."""
    return len(numbers) > 0 and int(numbers.min()) >= 0 and int(numbers.max()) < end
