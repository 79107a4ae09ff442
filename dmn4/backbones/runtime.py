"""A frozen network as it looks at pictures: in ONNX Runtime where that is installed and faster, else in PyTorch."""

import contextlib
import hashlib
import inspect
import os
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dmn4.data.cache import cache_folder
from dmn4.errors import InputError, choose
from dmn4.files import write_file

from .base import Backbone, check_images
from .efficientnet import EfficientNetLite
from .folding import folded
from .onnxgraph import MISSING, OPSET, exported, installed, open_session, run
from .outside import OutsideBackbone

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

# PyTorch's time over ONNX Runtime's, one core, six pictures: EfficientNet-Lite0 1.4 to 2.8, WRN-28-10 and Conv-4 1.1,
# ResNet-12 0.95. Only the first is worth another runtime.
FASTER = (EfficientNetLite,)
RUNTIMES = ("onnx", "torch")                                  # what $DMN4_RUNTIME may name; else the faster one
GRAPHS = 12                                                   # files kept in the cache folder


def frozen(backbone: nn.Module) -> nn.Module:
    """What embeds pictures in place of this backbone: the same maps up to rounding."""
    named = os.environ.get("DMN4_RUNTIME")
    runtime = choose("DMN4_RUNTIME", named, RUNTIMES) if named else None
    if runtime == "onnx" and not installed():
        raise InputError(f"DMN4_RUNTIME is 'onnx', but {MISSING}")
    if isinstance(backbone, FASTER) and installed() and runtime != "torch":
        return InOnnx(backbone)
    return backbone if isinstance(backbone, OutsideBackbone) else folded(backbone)


class InOnnx(nn.Module):
    """A backbone in ONNX Runtime: one graph for each size of picture, exported once and kept in the cache folder.

    Off the CPU, and where gradients are recorded, the folded PyTorch network answers.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.network = folded(backbone)
        self.minimum, self.out_channels = backbone.minimum, backbone.out_channels
        self.sessions: dict[tuple[int, int, int], InferenceSession | None] = {}   # by height, width and threads

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps of a batch: (B, 3, h, w) -> (B, C, H, W)."""
        if images.device.type != "cpu" or torch.is_grad_enabled():
            maps: Tensor = self.network(images)
            return maps
        check_images(images, self.minimum)
        session = self.session(*images.shape[2:])
        return self.network(images) if session is None else run(session, images.float())[0]

    def session(self, height: int, width: int) -> "InferenceSession | None":
        """The session for pictures of this size and torch's threads of the moment; None if it cannot be made."""
        place = height, width, torch.get_num_threads()
        if place not in self.sessions:
            try:
                self.sessions[place] = open_session(self.graph(height, width))
            except Exception as error:                        # of a torch or a runtime that is not the tested one
                with contextlib.suppress(OSError):
                    self.path(height, width).unlink()         # if it was damaged, it is written anew next time
                warnings.warn(f"ONNX Runtime cannot run the backbone, so PyTorch does, more slowly: {error}",
                              stacklevel=2)
                self.sessions[place] = None
        return self.sessions[place]

    def graph(self, height: int, width: int) -> bytes:
        """The ONNX graph for pictures of this size, from the cache folder or exported now."""
        path = self.path(height, width)
        with contextlib.suppress(OSError):
            return path.read_bytes()
        content = exported(self.network, {"images": torch.zeros(1, 3, height, width)}, ["maps"], ["images", "maps"])
        with contextlib.suppress(InputError, OSError):        # without a cache it takes a moment longer, that is all
            write_file(path, content)
            tidy(path.parent)
        return content

    def path(self, height: int, width: int) -> Path:
        """The place of a graph in the cache folder."""
        return cache_folder() / "onnx" / f"{self.key}-{height}x{width}.onnx"

    @cached_property
    def key(self) -> str:
        """A checksum of all that a graph depends on: the weights, the code of the network, the exporter."""
        network = self.network
        key = hashlib.sha256(f"{torch.__version__} {OPSET} {getattr(network, 'options', {})}".encode())
        key.update(Path(inspect.getfile(type(network))).read_bytes())
        for tensor in network.state_dict().values():
            key.update(tensor.contiguous().numpy())
        return key.hexdigest()[:32]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"sessions": {}}               # a copy, or another process, opens its own


def tidy(folder: Path) -> None:
    """Keep the newest graphs."""
    graphs = sorted(folder.glob("*.onnx"), key=lambda path: path.stat().st_mtime)
    for path in graphs[:-GRAPHS]:
        path.unlink(missing_ok=True)
