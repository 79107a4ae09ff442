"""Labels from a table that a person filled in: of pictures without a folder, and in place of the folder's."""

import os
from pathlib import Path

from ..classify.verdict import NONE
from ..data.folders import ImageSet, from_classes, shorten
from ..data.tables import read_pairs
from ..errors import InputError
from ..images import Source
from .cells import from_cell


def with_labels(images: ImageSet | None, table: Path) -> ImageSet:
    """The pictures of a set, if any, and of a table `image,label`; where both name a picture, the table decides.

    Files are looked for as named and beside the table. Rows without a label are left out; a picture that is none of
    these is left out of the set too.
    """
    pairs = [(from_cell(file), from_cell(label)) for file, label in read_pairs(table)]
    given = {file: label for file, label in pairs if label}
    if not given:
        raise InputError(f"no row of {str(table)!r} has a label: fill in its column 'label'")
    places = {file: find(file, table) for file in given}
    missing = [file for file, place in places.items() if place is None]
    if missing:
        raise InputError(f"{len(missing)} of the {len(given)} labelled pictures in {str(table)!r} are not there: "
                         f"{shorten(missing, 3)}")
    known = [] if images is None else [(Path(str(image)), images.classes[label])
                                       for image, label in zip(images.images, images.labels, strict=True)]
    new = [(place, given[file]) for file, place in places.items() if place is not None]
    label_of = {os.path.realpath(path): (path, label) for path, label in [*known, *new]}
    kept = [(path, label) for path, label in label_of.values() if label != NONE]
    found: dict[str, list[Source]] = {label: [] for label in sorted({label for _, label in kept})}
    for path, label in kept:
        found[label].append(path)
    return from_classes(found, table.stem if images is None else images.name)


def find(file: str, table: Path) -> Path | None:
    """Where a picture is: as named, or beside the table; None if it is in neither place."""
    return next((path for path in (Path(file), table.parent / file) if path.is_file()), None)
