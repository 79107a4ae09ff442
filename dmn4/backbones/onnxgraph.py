"""ONNX graphs: written from a PyTorch module, opened as a session of ONNX Runtime, run on tensors."""

import contextlib
import importlib.util
import io
import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dmn4.errors import InputError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

OPSET = 18
MISSING = "ONNX Runtime is not installed: pip install 'dmn4[onnx]'"


def installed() -> bool:
    """Whether graphs can be written and run here."""
    return all(importlib.util.find_spec(package) for package in ("onnxruntime", "onnx"))


def exported(network: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str],
             batched: Sequence[str] = ()) -> bytes:
    """The ONNX file of a module, traced on these inputs; the first dimension of what is `batched` stays free.

    The exporter that traces needs 0.3 s for EfficientNet-Lite0, the one that compiles 9 s and a package more; both
    graphs take the same time to run.
    """
    if not installed():
        raise InputError(MISSING)
    with (warnings.catch_warnings(), torch.no_grad(), tempfile.TemporaryDirectory() as folder,
          contextlib.redirect_stdout(io.StringIO())):         # where a failing export prints the whole graph
        warnings.simplefilter("ignore")                       # of its age, and of sizes that it takes for constants
        path = Path(folder, "network.onnx")
        torch.onnx.export(network.eval(), tuple(inputs.values()), path, dynamo=False, opset_version=OPSET,
                          input_names=list(inputs), output_names=list(outputs),
                          dynamic_axes={name: {0: "pictures"} for name in batched})
        return path.read_bytes()


def in_bytes(graph: bytes, pictures: Iterable[Tensor]) -> bytes:
    """The same network in whole numbers of 8 bits, scaled to the values it meets in some pictures (1, 3, h, w) each.

    Convolutions then multiply bytes: a quarter of the size. Inputs and outputs stay as they are.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    class Pictures(CalibrationDataReader):  # type: ignore[misc]
        """What the library reads pictures from."""

        def __init__(self, name: str) -> None:
            self.left: Iterator[Tensor] = iter(pictures)
            self.name = name

        def get_next(self) -> dict[str, object] | None:
            images = next(self.left, None)
            return None if images is None else {self.name: images.contiguous().numpy()}

    name = open_session(graph).get_inputs()[0].name
    logging.disable(logging.WARNING)                          # it asks for a preparation that changes nothing here
    try:
        with tempfile.TemporaryDirectory() as folder:
            before, after = Path(folder, "float.onnx"), Path(folder, "bytes.onnx")
            before.write_bytes(graph)
            quantize_static(before, after, Pictures(name), per_channel=True, activation_type=QuantType.QUInt8,
                            weight_type=QuantType.QInt8)
            return after.read_bytes()
    finally:
        logging.disable(logging.NOTSET)


def open_session(graph: bytes | str) -> "InferenceSession":
    """A session for the content of an ONNX file, or for a path; it uses as many threads as torch does."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError(MISSING)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3                            # errors alone
    # A thread that waits for work gives its core away.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def run(session: "InferenceSession", images: Tensor, outputs: Sequence[str] | None = None) -> list[Tensor]:
    """What a session gives for a batch (B, 3, h, w): its outputs, all or those named."""
    name = session.get_inputs()[0].name
    return [torch.from_numpy(values) for values in session.run(outputs, {name: images.contiguous().numpy()})]
