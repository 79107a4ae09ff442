"""A backbone alone as an ONNX graph: normalised pictures in, maps out; in floats, or in whole numbers of 8 bits."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones.folding import folded
from ..backbones.onnxgraph import exported, in_bytes, open_session, run
from ..backbones.outside import OutsideBackbone
from ..errors import InputError
from ..files import write_file, write_json
from ..images import Transform, find_images
from ..images.looks import read_pixels
from .parts import assemble

SCALED = 100                                                  # pictures that a network in bytes is scaled to, at most


class Describe(nn.Module):
    """A backbone as a function of normalised pictures, (B, 3, h, w) -> (B, C, H, W)."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.network = folded(backbone)

    def forward(self, images: Tensor) -> Tensor:
        maps: Tensor = self.network(images)
        return maps


def export_backbone(name: str, path: Path, weights: str | None = None, layer: str | None = None,
                    image_size: int | None = None, int8: Path | None = None) -> tuple[dict[str, Any], float | None]:
    """Write the graph of a backbone alone, normalised pictures in, maps out; and beside it how to prepare pictures.

    `onnx:PATH` is then the same backbone. `int8`: a folder of pictures; the network then works in whole numbers of 8
    bits, scaled to the values it meets in them. Returns what the JSON file says, and for int8 the mean cosine of a
    descriptor before and after.
    """
    parts = assemble("dmn4-linear", name, weights, layer, image_size)
    check_exportable(parts.backbone)
    side = check_square(parts.transform)
    images = torch.zeros(1, 3, side, side)
    graph, alike = exported(Describe(parts.backbone), {"images": images}, ["maps"], ["images", "maps"]), None
    if int8 is not None:
        graph, alike = scaled_to(graph, int8, parts.transform)
    write_file(path, graph)
    facts: dict[str, Any] = {"image_size": side, "mean": list(parts.transform.mean), "std": list(parts.transform.std)}
    if parts.method.compared:
        facts["compared"] = parts.method.compared
    write_json(path.with_suffix(".json"), facts)
    return facts, alike


@torch.inference_mode()
def scaled_to(graph: bytes, folder: Path, transform: Transform) -> tuple[bytes, float]:
    """The graph in whole numbers, scaled by every other picture of a folder; the rest tell how alike it is."""
    files = find_images(folder)
    if len(files) < 2:
        raise InputError(f"int8 takes pictures to find its scales: {str(folder)!r} holds {len(files)}, about "
                         f"{SCALED} are best")
    chosen = [files[place] for place in torch.linspace(0, len(files) - 1, min(2 * SCALED, len(files))).long()]
    seen = [transform(read_pixels([picture], transform)) for picture in chosen]
    smaller = in_bytes(graph, seen[::2])
    before, after = (torch.cat([run(session, each)[0] for each in seen[1::2]])
                     for session in map(open_session, (graph, smaller)))
    return smaller, float(F.cosine_similarity(before, after).mean())


def check_exportable(backbone: nn.Module) -> None:
    """Refuse a backbone that is no PyTorch network."""
    if isinstance(backbone, OutsideBackbone) and not list(backbone.parameters()):
        raise InputError(f"the backbone {backbone.name!r} is an ONNX file already, which cannot be written anew; run "
                         "it in front of a classifier, or choose another backbone")


def check_square(transform: Transform) -> int:
    """The side of the pictures; an InputError where pictures are more than scaled before the network sees them."""
    side = transform.size
    if transform.resize != (side, side):
        raise InputError(f"this backbone's pictures are cropped to {side} pixels, which a graph does not do; choose a "
                         "backbone whose pictures are only scaled")
    return side
