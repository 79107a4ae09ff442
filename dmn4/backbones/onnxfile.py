"""`onnx:FILE`: any ONNX network that gives maps or tokens, run by ONNX Runtime on the CPU.

Preprocessing is given by options or by a JSON file beside the network (dino.onnx, dino.json) with the same keys:
`image_size`, `mean`, `std` (on pixels scaled to 0..1), `layer`, the name of an output, and `compared`: how many of the
channels, the first ones, are matched, while the linear head reads all of them.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from dmn4.errors import InputError
from dmn4.files import check_regular, matching, read_json
from dmn4.files.schema import Colours, Name, Part, PictureSide

from .layout import Layout
from .onnxgraph import open_session, run
from .outside import MAP_SIZE, OutsideBackbone, prepare_as, refusing

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

TYPES = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16}


class Beside(Part):
    """What the JSON file beside a network may say."""

    image_size: PictureSide | None = None
    mean: Colours | None = None
    std: Colours | None = None
    layer: Name | None = None
    compared: Annotated[int, Field(ge=1, le=1 << 20)] | None = None


class OnnxFile(OutsideBackbone):
    """The network of an ONNX file, as a backbone."""

    def __init__(self, path: Path, image_size: int | None = None, mean: str | None = None, std: str | None = None,
                 layer: str | None = None, map_size: int = MAP_SIZE, compared: int | None = None) -> None:
        super().__init__()
        self.path, self.session, self.source = path, opened(path), str(path)
        given = {"image_size": image_size, "mean": mean, "std": std, "layer": layer, "compared": compared}
        facts = facts_beside(path) | {option: value for option, value in given.items() if value is not None}
        entry = self.session.get_inputs()[0]
        self.last = entry.shape[-1] == 3 and entry.shape[1] != 3              # colours last
        sides = entry.shape[1:3] if self.last else entry.shape[2:]
        self.side = sides[0] if isinstance(sides[0], int) and sides[0] == sides[1] else None
        prepare_as(self, {"image_size": self.side} | facts, map_size)
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.one = entry.shape[0] == 1                                        # takes a picture at a time
        self.output, self.layout = self.choose_output(facts.get("layer"))
        self.out_channels, self.compared = self.layout.channels, facts.get("compared", 0)
        if self.compared > self.out_channels:
            raise InputError(f"compared is {self.compared}, but the maps have {self.out_channels} channels")

    def choose_output(self, name: str | None) -> tuple[str, Layout]:
        """The output of this name, or the first that holds maps or tokens; and how to read it."""
        names = [output.name for output in self.session.get_outputs()]
        if name is not None and name not in names:
            raise InputError(f"{str(self.path)!r} has no output {name!r}; choose layer= of {', '.join(names)}")
        trial = torch.zeros(1, 3, self.image_size, self.image_size)
        with refusing(self.source, trial):
            outputs = dict(zip(names, self.run(trial, names), strict=True))
        several = [key for key, value in outputs.items() if value.ndim == 4 or (value.ndim == 3 and value.shape[1] > 3)]
        chosen = name or (several or names)[0]
        return chosen, Layout.of(outputs[chosen], f"output {chosen!r} of {str(self.path)!r}")

    def whole_maps(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        if self.side and (height, width) != (self.side, self.side):
            raise InputError(f"{str(self.path)!r} takes pictures of {self.side} x {self.side} pixels, not {height} x "
                             f"{width}: leave image_size out")
        parts = images.split(1 if self.one else len(images))
        output = torch.cat([self.run(part, [self.output])[0] for part in parts])
        return self.layout.maps(output, height, width).to(images)

    def run(self, images: Tensor, outputs: list[str]) -> list[Tensor]:
        """Some outputs of the network for a batch, as it wants its pictures."""
        pixels = images.permute(0, 2, 3, 1) if self.last else images
        wanted = TYPES[self.session.get_inputs()[0].type]
        return [output.float() for output in run(self.session, pixels.detach().cpu().to(wanted), outputs)]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"session": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.session = opened(self.path)


def opened(path: Path) -> "InferenceSession":
    """A session for the network in a file, or an InputError that says what the file is instead."""
    check_regular(path)
    try:
        session = open_session(str(path))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"cannot read {str(path)!r} as an ONNX network: {str(error)[-200:]}") from None
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in TYPES:
        signature = "; ".join(f"{entry.name} {entry.shape} {entry.type}" for entry in inputs)
        raise InputError(f"{str(path)!r} takes {signature}; a network of one input, pictures (B, 3, h, w), is needed")
    return session


def facts_beside(path: Path) -> dict[str, Any]:
    """What the JSON file beside a network says of its preprocessing; nothing if there is none."""
    beside = path.with_suffix(".json")
    facts = read_json(beside) if beside.is_file() else {}
    if not facts.keys() <= Beside.model_fields.keys():
        raise InputError(f"{str(beside)!r} may hold {', '.join(Beside.model_fields)}, nothing else")
    with matching(f"cannot read {str(beside)!r}"):
        return Beside.model_validate(facts).model_dump(exclude_none=True)
