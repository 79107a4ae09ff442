"""A classifier as one ONNX graph that runs anywhere: on a phone, in a browser, in C++.

The graph of a classifier takes one picture, bytes (1, side, side, 3), and gives what `judge` gives: `probabilities`
(1, N), `known` (1,) and `none_of_these` (1,); and `kept` (1, H, W), the patches that voted, where the method has any.
"""

from collections.abc import Iterable
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ..backbones.folding import folded
from ..backbones.onnxgraph import OPSET, exported, open_session
from ..errors import InputError
from ..files import write_file, write_json
from ..images import Source, Transform
from ..images.looks import read_pixels
from ..methods.base import compares_descriptors
from .export_network import check_exportable, check_square
from .plain import PlainClassifier
from .shortlist import Whole

CLOSE = 1e-4                                                  # how far probabilities may lie apart
PICTURES = 200                                                # checked after an export, at most


@dataclass(frozen=True)
class Agreement:
    """How an exported graph compares with the classifier it came from."""

    pictures: int
    same: int                                                 # with the same label, and the same "none of these"
    furthest: float                                           # two probabilities of a class

    def __str__(self) -> str:
        return (f"{self.same} of {self.pictures} verdicts as in PyTorch; probabilities differ by at most "
                f"{self.furthest:.1e}")


class Judge(nn.Module):
    """A classifier as a function of one picture's pixels."""

    def __init__(self, classifier: PlainClassifier) -> None:
        super().__init__()
        self.network, self.colours = folded(classifier.parts_.backbone), classifier.parts_.transform
        parts = classifier.parts_                             # constants of a graph have no gradients
        self.classifier = copy(classifier)
        self.classifier.parts_ = replace(parts, method=deepcopy(parts.method).requires_grad_(False))

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Bytes (1, side, side, 3) -> probabilities (1, N), known (1,), none of these (1,), kept (1, H, W)."""
        classifier = self.classifier
        maps = self.network(normalised(pixels, self.colours)).float()
        judgement = classifier.judge_maps(maps)
        answers = judgement.probabilities.float(), judgement.known.float(), judgement.none_of_these
        return (*answers, kept_places(classifier, maps)) if shows_patches(classifier) else answers


def normalised(pixels: Tensor, colours: Transform) -> Tensor:
    """Bytes (1, side, side, 3) as the network takes them, (1, 3, side, side)."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (colours.mean, colours.std))
    return (pixels.permute(0, 3, 1, 2).float() - 255 * mean) * (1 / (255 * std))


def shows_patches(classifier: PlainClassifier) -> bool:
    """Whether the method marks patches that vote."""
    return compares_descriptors(classifier.parts_.method)


def kept_places(classifier: PlainClassifier, maps: Tensor) -> Tensor:
    """The patches that voted: (1, C, H, W) -> bool (1, H, W)."""
    from ..methods.neighbors import search

    method, known = classifier.parts_.method, classifier.learnt_
    assert compares_descriptors(method)
    assert isinstance(known, Whole)                           # it compares all
    pool = known.learnt.derived
    kept = method.keep(search(method.describe(maps, pool), pool, True, method.answers))          # (1, M)
    return kept.view(1, *maps.shape[2:]) if not method.pyramid else kept[:, : maps[0, 0].numel()].view_as(maps[:, 0])


def export_classifier(classifier: PlainClassifier, path: Path, pictures: Iterable[Source] | None = None) -> Agreement:
    """Write the graph to `path`, and beside it a JSON file with the classes and the side of the picture.

    The graph is run on `pictures`, by default the labelled ones, and compared with the classifier.
    """
    check_exportable(classifier.parts_.backbone)
    classifier = classifier.comparing_all()                   # a graph reads no file
    side = check_square(classifier.parts_.transform)
    names = ["probabilities", "known", "none_of_these", "kept"][: 4 if shows_patches(classifier) else 3]
    pixels = torch.zeros(1, side, side, 3, dtype=torch.uint8)
    try:
        graph = exported(Judge(classifier), {"pixels": pixels}, names)
    except InputError:
        raise
    except Exception as error:                                # the exporter's own kinds, none of them public
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"a classifier with method {classifier.method!r} cannot be written as an ONNX graph "
                         f"({reason}); dmn4-linear, dmn4, mn4, dn4 and protonet can") from None
    write_file(path, graph)
    facts = {"classes": classifier.classes_.tolist(), "image_size": side, "outputs": names, "opset": OPSET}
    write_json(path.with_suffix(".json"), facts)
    sources = list(classifier.pictures_ if pictures is None else pictures)[:PICTURES]
    return compared(classifier, path, sources)


@torch.inference_mode()
def compared(classifier: PlainClassifier, path: Path, pictures: list[Source]) -> Agreement:
    """What the graph says of some pictures beside what the classifier says."""
    session, same, furthest = open_session(str(path)), 0, 0.0
    for picture in pictures:
        pixels = read_pixels([picture], classifier.parts_.transform)
        judgement = classifier.judge(pixels)
        answers = session.run(["probabilities", "none_of_these"], {"pixels": pixels.numpy()})
        probabilities, refused = (torch.from_numpy(each) for each in answers)
        same += bool((probabilities.argmax(1) == judgement.probabilities.argmax(1)).all()
                     and (refused == judgement.none_of_these).all())
        furthest = max(furthest, float((probabilities - judgement.probabilities).abs().max()))
    return Agreement(len(pictures), same, furthest)
