"""Labels that a person gave: in a table, beside or in place of those of folders; and labels that rule a class out."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..classify.verdict import NONE
from ..data.exports import find_picture, read_labels
from ..data.folders import ImageSet, from_classes, shorten
from ..errors import InputError
from ..images import Source
from .cells import from_cell


def with_labels(images: ImageSet | None, table: Path) -> ImageSet:
    """The pictures of a set, if any, and of a table `image,label`; where both name a picture, the table decides.

    The table may be an export of a labelling tool. Files are looked for as named and beside it, also in its `images`
    and `data`. Rows without a label are left out.
    """
    pairs = [(from_cell(file), from_cell(label)) for file, label in read_labels(table)]
    given = {file: label for file, label in pairs if label}
    if not given:
        raise InputError(f"no row of {str(table)!r} has a label: fill in its column 'label'")
    places = {file: find_picture(file, table) for file in given}
    missing = [file for file, place in places.items() if place is None]
    if missing:
        raise InputError(f"{len(missing)} of the {len(given)} labelled pictures in {str(table)!r} are not there: "
                         f"{shorten(missing, 3)}")
    known = [] if images is None else [(Path(str(image)), images.classes[label])
                                       for image, label in zip(images.images, images.labels, strict=True)]
    new = [(place, given[file]) for file, place in places.items() if place is not None]
    label_of = {os.path.realpath(path): (path, label) for path, label in [*known, *new]}
    by_label: dict[str, list[Source]] = {label: [] for label in sorted({label for _, label in label_of.values()})}
    for path, label in label_of.values():
        by_label[label].append(path)
    return from_classes(by_label, table.stem if images is None else images.name)


class Taught(NamedTuple):
    """Pictures of classes, and those that are known not to be of one; None: of none of them."""

    images: ImageSet
    ruled_out: list[tuple[Source, str | None]]


def split(images: ImageSet) -> Taught:
    """Classes apart from labels that rule out: "none of these", and "not wren" beside a class "wren"."""
    meant = {name: meaning(name, images.classes) for name in images.classes}
    ruling = [label for label, name in enumerate(images.classes) if meant[name] != name]
    if not ruling:
        return Taught(images, [])
    apart = np.isin(images.labels, ruling)
    out = [(images.images[row], meant[images.classes[images.labels[row]]]) for row in np.flatnonzero(apart).tolist()]
    return Taught(images.of_classes([name for name in images.classes if meant[name] == name]), out)


def meaning(label: str, classes: tuple[str, ...]) -> str | None:
    """A class as it is; of a label that rules out, the class it speaks of, or None for all of them."""
    if label == NONE:
        return None
    other = label.removeprefix("not ")
    return other if other in classes else label
