"""What the service accepts: bytes, counts, pixels, seconds. The defaults follow the memory of the machine."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import psutil
from fastapi import HTTPException, UploadFile

from ..errors import InputError

MEGABYTE = 1_000_000
PICTURE_BYTES = 200_000                                       # of memory that a learnt picture takes while it is learnt


def workers_here() -> int:
    """One worker process for each core, but not more than eight."""
    return max(1, min(8, os.cpu_count() or 1))


def worker_bytes_here() -> int:
    """Half of the memory of this machine, shared out among the workers; at least a gigabyte each."""
    memory: int = psutil.virtual_memory().total
    return max(1_000 * MEGABYTE, memory // 2 // workers_here())


@dataclass(frozen=True)
class Limits:
    """The most that the service takes; beyond it a request is refused with one line that names the limit."""

    request_bytes: int = 32 * MEGABYTE
    header_bytes: int = 16_000
    picture_bytes: int = 12 * MEGABYTE
    picture_pixels: int = 30_000_000
    pictures: int = 200                                       # in a request
    shots: int = field(default_factory=lambda: worker_bytes_here() // PICTURE_BYTES)   # in a classifier
    classes: int = 1_000
    label_letters: int = 60
    upload_seconds: float = 60.0                              # from the first byte of a request to its last
    upload_rate: int = 10_000                                 # bytes a second that a body has to keep up
    work_seconds: float = 120.0                               # waiting for a worker included
    drain_seconds: float = 6.0                                # for what runs when the service is told to end
    classifiers: int = 16                                     # without a store; with one, of each token
    revisions: int = 20                                       # of a classifier
    owner_pictures: int = 100_000                             # of each token
    owner_bytes: int = 20_000 * MEGABYTE                      # of each token, all revisions together
    requests: int = 64                                        # at the same time
    client_requests: int = 32                                 # of one client at the same time
    workers: int = field(default_factory=workers_here)        # processes that compute
    worker_bytes: int = field(default_factory=worker_bytes_here)   # of memory, for each of them
    waiting: int = 32                                         # pieces of work that wait for a worker


async def read_pictures(uploads: Sequence[UploadFile], limits: Limits) -> list[bytes]:
    """The contents of uploaded pictures, measured but not opened; their names are never looked at."""
    if len(uploads) > limits.pictures:
        raise HTTPException(413, f"{len(uploads)} pictures were sent at once; {limits.pictures} are the most")
    for number, upload in enumerate(uploads, start=1):
        if (upload.size or 0) > limits.picture_bytes:
            most = f"{limits.picture_bytes:,} are the most"
            raise HTTPException(413, f"picture {number} has {upload.size:,} bytes; {most}")
    return [await upload.read() for upload in uploads]


def check_labels(labels: Sequence[str], limits: Limits) -> list[str]:
    """Labels without blanks at their ends; an InputError names the first that is empty, too long or unprintable."""
    labels = [label.strip() for label in labels]
    for label in labels:
        if not label or len(label) > limits.label_letters or not label.isprintable():
            shown = ascii(label[: limits.label_letters])
            raise InputError(f"a label is 1 to {limits.label_letters} printable letters, not {shown}")
    return labels


def check_pairs(labels: Sequence[str], pictures: Sequence[bytes]) -> None:
    """Refuse labels and pictures that are not as many."""
    if len(labels) != len(pictures):
        raise InputError(f"{len(labels)} labels were sent for {len(pictures)} pictures; one each is needed")


def check_size(classes: Iterable[str], shots: int, limits: Limits) -> None:
    """Refuse a classifier that would grow beyond the limits."""
    count = len(set(classes))
    if count > limits.classes:
        raise HTTPException(413, f"the classifier would have {count} classes; {limits.classes} are the most")
    if shots > limits.shots:
        raise HTTPException(413, f"the classifier would hold {shots} pictures; {limits.shots} are the most")
