"""Model files taken apart, to be written again with something changed."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from dmn4.classify.modelfile import KEY


def taken_apart(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a model file, and its description as it stands there."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
        return tensors, json.loads(file.metadata()[KEY])
