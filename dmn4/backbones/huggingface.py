"""`hf:NAME` or `hf:FOLDER`: a vision model of transformers that gives a map or patch tokens, as a backbone.

Weights are safetensors and no code of the repository is run. Size, mean and deviation come from the processor's own
file, read as JSON. A name is looked up in the cache of Hugging Face first, then downloaded; the commit is kept.
"""

import hashlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dmn4.errors import InputError
from dmn4.files import matching, read_json
from dmn4.files.schema import Colours, Name, PictureSide, Record

from .layout import Layout
from .outside import MAP_SIZE, OutsideBackbone, prepare_as, refusing, whole_number

MISSING = "transformers is not installed: pip install 'dmn4[hf]'"
WANTED = ("config.json", "preprocessor_config.json", "processor_config.json", "model*.safetensors")
UNSUPPORTED = {"siglip2": "its pictures come as patches with masks", "siglip2_vision_model":
               "its pictures come as patches with masks"}


Sides = PictureSide | dict[Name, PictureSide | None]


class Processor(Record):
    """What is read of how a processor prepares pictures."""

    size: Sides | None = None
    crop_size: Sides | None = None
    do_center_crop: bool | None = None
    do_normalize: bool | None = None
    image_mean: Colours | None = None
    image_std: Colours | None = None


class HuggingFaceModel(OutsideBackbone):
    """A vision model of a local folder; `layer` is the number of a hidden state, None the model's last output."""

    def __init__(self, folder: Path, layer: int | str | None = None, image_size: int | None = None,
                 map_size: int = MAP_SIZE) -> None:
        super().__init__()
        self.source, self.layer = str(folder), whole_number(layer)
        self.network = vision_part(folder)
        config = self.network.config
        prepare_as(self, {"image_size": getattr(config, "image_size", None)} | processor_facts(folder), map_size)
        self.image_size = image_size or self.image_size
        taken = inspect.signature(self.network.forward).parameters
        self.words: dict[str, Any] = {"interpolate_pos_encoding": True} if "interpolate_pos_encoding" in taken else {}
        self.sha256 = checksum_of_files(sorted(folder.glob("model*.safetensors")))
        self.layout = self.trial()
        self.out_channels = self.layout.channels

    @torch.inference_mode()
    def trial(self) -> Layout:
        """How the output is to be read, from one picture."""
        self.network.eval()
        picture = torch.zeros(1, 3, self.image_size, self.image_size)
        with refusing(self.source, picture):
            output = self.output(picture)
        return Layout.of(output, f"hidden state {self.layer} of {self.source!r}" if self.layer
                         is not None else repr(self.source))

    def output(self, images: Tensor) -> Tensor:
        """The last output, or the hidden state that was chosen: maps or tokens."""
        output = self.network(pixel_values=images, output_hidden_states=self.layer is not None, **self.words)
        if self.layer is None:
            last: Tensor = output.last_hidden_state
            return last
        states: tuple[Tensor, ...] = output.hidden_states
        if not -len(states) <= self.layer < len(states):
            raise InputError(f"{self.source!r} has {len(states)} hidden states: layer is a number from 0 to "
                             f"{len(states) - 1}, not {self.layer}")
        return states[self.layer]

    def whole_maps(self, images: Tensor) -> Tensor:
        return self.layout.maps(self.output(images), *images.shape[2:])


def local_folder(name: str, revision: str | None) -> tuple[Path, str | None]:
    """The folder of a model and its commit: the folder itself, the cache of Hugging Face, or what is downloaded."""
    if Path(name).is_dir():
        return Path(name).resolve(), None
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"there is no folder {name!r}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise InputError(MISSING) from None
    reasons = []
    for offline in (True, False):
        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=list(WANTED),
                                           local_files_only=offline))
        except Exception as error:                            # no network, no such name, no permission: many kinds
            reasons.append(str(error).strip().splitlines()[0])
        else:
            if (folder / "config.json").is_file() and any(folder.glob("model*.safetensors")):
                return folder, folder.name
            reasons.append("it holds no config.json with model.safetensors")
    wanted = name if revision is None else f"{name} --revision {revision}"
    raise InputError(f"{name!r} is neither a folder nor in the cache of Hugging Face, and cannot be downloaded "
                     f"({reasons[-1]}); where there is a network: hf download {wanted}")


def vision_part(folder: Path) -> nn.Module:
    """The model in a folder, or the part of it that looks at pictures."""
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError:
        raise InputError(MISSING) from None
    if not any(folder.glob("model*.safetensors")):
        raise InputError(f"no model*.safetensors in {str(folder)!r}; other kinds of weights are not opened")
    with quiet():
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            if config.model_type in UNSUPPORTED:
                raise InputError(f"{str(folder)!r} is a {config.model_type} model: {UNSUPPORTED[config.model_type]}, "
                                 "which is not supported")
            model = AutoModel.from_pretrained(folder, config=config, local_files_only=True, use_safetensors=True,
                                              trust_remote_code=False, dtype=torch.float32)
        except InputError:
            raise
        except Exception as error:                            # damaged, unknown kind, remote code: many kinds
            raise InputError(f"cannot open the model in {str(folder)!r}: {str(error).strip().splitlines()[0]}"
                             ) from None
    part: nn.Module = getattr(model, "vision_model", model)
    if "pixel_values" not in inspect.signature(part.forward).parameters:
        raise InputError(f"{str(folder)!r} is a {config.model_type} model, which does not look at pictures")
    return part


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, transformers prints neither progress nor remarks."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def processor_facts(folder: Path) -> dict[str, Any]:
    """Image size, mean and deviation as the files of the processor give them."""
    file = next((folder / name for name in WANTED[1:3] if (folder / name).is_file()), None)
    if file is None:
        warnings.warn(f"no preprocessor_config.json in {str(folder)!r}: ImageNet's mean and deviation are assumed",
                      stacklevel=2)
        return {}
    read = read_json(file)
    with matching(f"cannot read {str(file)!r}"):
        facts = Processor.model_validate(read.get("image_processor", read)).model_dump(exclude_unset=True)
    cropped = facts.get("do_center_crop", "crop_size" in facts) and facts.get("crop_size")
    plain = facts.get("do_normalize") is False                # pixels as they are, 0..1
    return {key: value for key, value in {
        "image_size": side_of(cropped or facts.get("size")), "mean": 0.0 if plain else facts.get("image_mean"),
        "std": 1.0 if plain else facts.get("image_std")}.items() if value is not None}


def side_of(size: Any) -> int | None:
    """One side of {"height": 224, "width": 224}, {"shortest_edge": 224} or 224."""
    if isinstance(size, Mapping):
        return size.get("shortest_edge") or size.get("height")
    return size if isinstance(size, int) else None


def checksum_of_files(paths: list[Path]) -> str:
    """Sha256 over the contents of files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()
