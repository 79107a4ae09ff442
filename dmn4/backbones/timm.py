"""`timm:NAME`: a model of timm with the weights it publishes, as a backbone. timm itself needs torchvision."""

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from dmn4.errors import InputError

from .layout import Layout
from .outside import OutsideBackbone, prepare_as, whole_number

MISSING = "timm cannot be imported ({}): pip install 'dmn4[timm]', with a torchvision that fits your torch"


class TimmModel(OutsideBackbone):
    """A model of timm; `layer` is the number of an intermediate output, None what the model's own head would see."""

    def __init__(self, model: str, layer: int | str | None = None, image_size: int | None = None,
                 pretrained: bool = True) -> None:
        super().__init__()
        self.layer, self.source = whole_number(layer), model
        self.network, facts = created(model, pretrained)
        prepare_as(self, facts | {"image_size": image_size or facts["image_size"]})
        self.sha256 = checksum_of_tensors(self.network)
        self.layout = self.trial()
        self.out_channels = self.layout.channels

    @torch.inference_mode()
    def trial(self) -> Layout:
        """How the output is to be read, from one picture."""
        self.network.eval()
        return Layout.of(self.output(torch.zeros(1, 3, self.image_size, self.image_size)), repr(self.source))

    def output(self, images: Tensor) -> Tensor:
        """What the head would see, or the intermediate output that was chosen: maps or tokens."""
        if self.layer is None:
            last: Tensor = self.network.forward_features(images)
            return last
        chosen: list[Tensor] = self.network.forward_intermediates(images, indices=[self.layer], intermediates_only=True)
        return chosen[0]

    def features(self, images: Tensor) -> Tensor:
        return self.layout.maps(self.output(images), *images.shape[2:])


def created(model: str, pretrained: bool) -> tuple[Any, dict[str, Any]]:
    """The model without its head, and its image size, mean and deviation."""
    try:
        import timm
    except (ImportError, RuntimeError) as error:              # RuntimeError: a torchvision built for another torch
        raise InputError(MISSING.format(str(error).splitlines()[0])) from None
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


def checksum_of_tensors(network: nn.Module) -> str:
    """Sha256 over all tensors of a network, in order."""
    found = hashlib.sha256()
    for tensor in network.state_dict().values():
        found.update(tensor.contiguous().numpy())
    return found.hexdigest()
