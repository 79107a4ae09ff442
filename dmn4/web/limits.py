"""What the service accepts: bytes, counts, pixels, seconds. Everything that comes from outside is measured here."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import HTTPException, UploadFile
from PIL import Image

from ..errors import InputError
from ..images.files import FORMATS

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """The most that the service takes; beyond it a request is refused with one line that names the limit."""

    request_bytes: int = 32 * MEGABYTE
    picture_bytes: int = 12 * MEGABYTE
    picture_pixels: int = 30_000_000
    pictures: int = 200                                       # in a request
    shots: int = 500                                          # in a classifier
    classes: int = 50
    label_letters: int = 60
    upload_seconds: float = 60.0                              # from the first byte of a request to its last
    work_seconds: float = 120.0                               # waiting for a worker included
    classifiers: int = 16                                     # the least recently used leaves
    requests: int = 64                                        # at the same time
    workers: int = 2                                          # that compute at the same time
    waiting: int = 32                                         # for a worker


async def read_pictures(uploads: Sequence[UploadFile], limits: Limits) -> list[bytes]:
    """The contents of uploaded pictures, each checked; their names are never looked at."""
    if len(uploads) > limits.pictures:
        raise HTTPException(413, f"{len(uploads)} pictures were sent at once; {limits.pictures} are the most")
    contents = []
    for number, upload in enumerate(uploads, start=1):
        if (upload.size or 0) > limits.picture_bytes:
            most = f"{limits.picture_bytes:,} are the most"
            raise HTTPException(413, f"picture {number} has {upload.size:,} bytes; {most}")
        contents.append(await upload.read())
        check_header(contents[-1], number, limits)
    return contents


def check_header(content: bytes, number: int, limits: Limits) -> None:
    """Refuse, before anything is decoded, what is no picture or has too many pixels."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            width, height = picture.size
    except Image.DecompressionBombError:
        raise HTTPException(413, f"picture {number} has more than {limits.picture_pixels:,} pixels") from None
    except Exception:                                         # decoders raise nearly every type there is
        raise InputError(f"picture {number} cannot be read: its content is none of {', '.join(FORMATS)}") from None
    if width * height > limits.picture_pixels:
        most = f"{limits.picture_pixels:,} pixels are the most"
        raise HTTPException(413, f"picture {number} has {width} x {height} pixels; {most}")


def check_labels(labels: Sequence[str], limits: Limits) -> list[str]:
    """Labels without blanks at their ends; an InputError names the first that is empty, too long or unprintable."""
    labels = [label.strip() for label in labels]
    for label in labels:
        if not label or len(label) > limits.label_letters or not label.isprintable():
            shown = ascii(label[: limits.label_letters])
            raise InputError(f"a label is 1 to {limits.label_letters} printable letters, not {shown}")
    return labels


def check_size(classes: int, shots: int, limits: Limits) -> None:
    """Refuse a classifier that would grow beyond the limits."""
    if classes > limits.classes:
        raise HTTPException(413, f"the classifier would have {classes} classes; {limits.classes} are the most")
    if shots > limits.shots:
        raise HTTPException(413, f"the classifier would hold {shots} pictures; {limits.shots} are the most")
