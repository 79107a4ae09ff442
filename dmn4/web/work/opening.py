"""Opening what comes from outside: pictures and model files. Nothing in them is believed."""

import io
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ...classify.classifier import FewShotClassifier
from ...classify.description import Description, Labels
from ...classify.modelfile import read_modelfile
from ...errors import InputError
from ...images import Transform
from ...images.files import FORMATS
from ...images.looks import read_pixels
from ..limits import MEGABYTE, Limits, check_labels
from .problems import TooLarge

HEADER_BYTES = 8 * MEGABYTE                                   # of a model file: names, shapes, classes


def open_pictures(contents: Sequence[bytes], transform: Transform, limits: Limits) -> Iterator[Any]:
    """The pictures as arrays at the size the transform starts from, one after the other; each is checked first."""
    for number, content in enumerate(contents, start=1):
        check_header(content, number, limits)
        yield read_pixels([content], transform)[0].numpy()


def open_picture(content: bytes, transform: Transform, limits: Limits) -> Tensor:
    """One picture: bytes (1, h, w, 3)."""
    check_header(content, 1, limits)
    return read_pixels([content], transform)


def check_header(content: bytes, number: int, limits: Limits) -> None:
    """Refuse, before anything is decoded, what is no picture or has too many pixels."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            width, height = picture.size
    except Image.DecompressionBombError:
        raise TooLarge(f"picture {number} has more than {limits.picture_pixels:,} pixels") from None
    except Exception:                                         # decoders raise nearly every type there is
        raise InputError(f"picture {number} cannot be read: its content is none of {', '.join(FORMATS)}") from None
    if width * height > limits.picture_pixels:
        most = f"{limits.picture_pixels:,} pixels are the most"
        raise TooLarge(f"picture {number} has {width} x {height} pixels; {most}")


# -------------------------------------------------------------------------------------------------------- model files

def read_model(path: Path, limits: Limits) -> tuple[dict[str, Tensor], Description]:
    """Tensors, mapped, and description of a model file; what is in it is counted before anything is made of it."""
    with open(path, "rb") as file:
        if int.from_bytes(file.read(8), "little") > HEADER_BYTES:
            raise InputError(f"its header is larger than {HEADER_BYTES:,} bytes")
    tensors, about = read_modelfile(path)
    check_classes(about.classes, limits)
    shots, pictures = tensors["shots.labels"].shape, tensors["pictures.ends"].shape
    if len(shots) != 1 or len(pictures) != 1 or not 0 < pictures[0] <= shots[0]:
        raise InputError("its shots do not fit together")
    if pictures[0] > limits.shots:
        raise TooLarge(f"the classifier would hold {pictures[0]} pictures; {limits.shots} are the most")
    ruled_out = tensors.get("ruled_out.ends", torch.empty(0))
    if ruled_out.ndim != 1 or ("ruled_out.bytes" in tensors) != ("ruled_out.ends" in tensors):
        raise InputError("its pictures that are ruled out do not fit together")
    if len(ruled_out) > limits.shots:
        raise TooLarge(f"{len(ruled_out)} pictures in it are ruled out; {limits.shots} are the most")
    return tensors, about


def check_classes(classes: Labels, limits: Limits) -> None:
    """Refuse classes that are no short texts, before an array is made of them."""
    values = [value for value in classes.values if isinstance(value, str)]
    if len(values) != len(classes.values):
        raise InputError("its classes are not text")
    if len(values) > limits.classes:
        raise TooLarge(f"the classifier would have {len(values)} classes; {limits.classes} are the most")
    check_labels(values, limits)
    letters = re.fullmatch(r"<U(\d{1,9})", classes.type)
    if letters is None or int(letters[1]) > limits.label_letters or len(set(values)) != len(values):
        raise InputError("its classes do not fit together")


def check_thumbnails(ends: Tensor, joined: Tensor, transform: Transform) -> None:
    """Refuse pictures in a model file that are not as this service writes them: JPEG, of the size it looks at."""
    places = [0, *ends.tolist()]
    if any(end <= start for start, end in pairwise(places)) or places[-1] != len(joined):
        raise InputError("its pictures do not fit together")
    content, size = joined.numpy().data, as_pair(transform.stored_size)
    for start, end in pairwise(places):
        with Image.open(io.BytesIO(content[start:end]), formats=("JPEG",)) as picture:
            if picture.size != size:
                raise InputError(f"a picture in it has {picture.width} x {picture.height} pixels, not "
                                 f"{size[0]} x {size[1]} as all that this service learns from")


def as_pair(size: Any) -> tuple[int, int]:
    """A stored size as (width, height)."""
    return (size, size) if isinstance(size, int) else (size[1], size[0])


def check_contents(classifier: FewShotClassifier, transform: Transform) -> None:
    """Refuse a classifier whose tensors do not fit together or do not fit the backbone."""
    shots, pictures = classifier.shots_, classifier.pictures_
    if classifier.parts_.transform != transform:
        raise InputError("its pictures were prepared in another way than this service does")
    first = read_pixels(pictures[:1], transform)
    _, channels, *sides = classifier.embed(first).shape
    shape = (*sides, classifier.parts_.method.compared or channels)
    plain = shots.rows(shots.look == 0)
    fits = (shots.maps.sides == shape and shots.maps.means.shape[1] == channels
            and all(bool(maps.isfinite().all()) for maps in shots.maps.batches())
            and all(column.dtype == torch.int64 and column.shape == (len(shots.maps),)
                    for column in (shots.labels, shots.look, shots.image))
            and set(plain.labels.tolist()) == set(shots.labels.tolist()) == set(range(len(classifier.classes_)))
            and sorted(plain.image.tolist()) == sorted(set(shots.image.tolist())) == list(range(len(pictures)))
            and classifier.unlabelled_ is None and bool(classifier.judge(first).probabilities.isfinite().all()))
    if not fits:
        raise InputError("its shots do not fit together")
