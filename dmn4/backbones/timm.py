"""`timm:NAME`: a model of timm with the weights it publishes, as a backbone. timm itself needs torchvision.

Beside a CPU build of torch the wheel of torchvision stops for want of operators that no picture classifier calls; they
are declared, and then it loads.
"""

import hashlib
import sys
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from dmn4.errors import InputError

from .layout import Layout
from .outside import MAP_SIZE, OutsideBackbone, prepare_as, refusing, whole_number

BOXES = "Tensor dets, Tensor scores, float iou_threshold"
OPERATORS = (f"nms({BOXES}) -> Tensor", f"qnms({BOXES}) -> Tensor",
             "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
             "int sampling_ratio, bool aligned) -> Tensor")
DECLARED: list[torch.library.Library] = []                    # what was declared lasts as long as its library
MISSING = "timm cannot be imported ({}): pip install 'dmn4[timm]', with a torchvision that fits your torch"


class TimmModel(OutsideBackbone):
    """A model of timm; `layer` is the number of an intermediate output, None what the model's own head would see."""

    def __init__(self, model: str, layer: int | str | None = None, image_size: int | None = None,
                 map_size: int = MAP_SIZE, pretrained: bool = True) -> None:
        super().__init__()
        self.layer, self.source = whole_number(layer), model
        self.network, facts = created(model, pretrained)
        prepare_as(self, facts | {"image_size": image_size or facts["image_size"]}, map_size)
        self.sha256 = checksum_of_tensors(self.network)
        self.layout = self.trial()
        self.out_channels = self.layout.channels

    @torch.inference_mode()
    def trial(self) -> Layout:
        """How the output is to be read, from one picture."""
        self.network.eval()
        picture = torch.zeros(1, 3, self.image_size, self.image_size)
        with refusing(self.source, picture):
            return Layout.of(self.output(picture), repr(self.source))

    def output(self, images: Tensor) -> Tensor:
        """What the head would see, or the intermediate output that was chosen: maps or tokens."""
        if self.layer is None:
            last: Tensor = self.network.forward_features(images)
            return last
        chosen: list[Tensor] = self.network.forward_intermediates(images, indices=[self.layer], intermediates_only=True)
        return chosen[0]

    def whole_maps(self, images: Tensor) -> Tensor:
        return self.layout.maps(self.output(images), *images.shape[2:])


def created(model: str, pretrained: bool) -> tuple[Any, dict[str, Any]]:
    """The model without its head, and its image size, mean and deviation."""
    timm = imported()
    for flexible in ({"dynamic_img_size": True}, {}):         # transformers of timm take it, other networks need not
        try:
            network = timm.create_model(model, pretrained=pretrained, num_classes=0, **flexible)
        except TypeError:
            continue
        except Exception as error:                            # no network, no such model: many kinds
            raise InputError(f"timm cannot make {model!r}: {str(error).strip().splitlines()[0]}") from None
        config = timm.data.resolve_model_data_config(network)
        return network, {"image_size": config["input_size"][-1], "mean": config["mean"], "std": config["std"]}
    raise InputError(f"timm cannot make {model!r} without its head")


def imported() -> ModuleType:
    """The package, with the operators declared that its torchvision may lack."""
    try:
        try:
            import timm
        except RuntimeError as error:                         # of a torchvision whose own operators cannot be loaded
            if "torchvision::" not in str(error) or DECLARED:
                raise
            for name in [name for name in sys.modules if name.split(".")[0] in ("timm", "torchvision")]:
                del sys.modules[name]                         # half imported
            DECLARED.append(torch.library.Library("torchvision", "DEF"))
            for operator in OPERATORS:
                DECLARED[0].define(operator)
            import timm
    except (ImportError, RuntimeError) as error:
        raise InputError(MISSING.format(str(error).splitlines()[0])) from None
    module: ModuleType = timm
    return module


def checksum_of_tensors(network: nn.Module) -> str:
    """Sha256 over all tensors of a network, in order."""
    digest = hashlib.sha256()
    for tensor in network.state_dict().values():
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()
