"""Tables of labelled file names: CSV (`filename,label`) and JSON -> ImageSet."""

import csv
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dmn4.errors import InputError

from ..files import parse_json, read_text
from .folders import ImageSet, from_classes, shorten

FILE_COLUMNS = ("filename", "image_name", "file", "path", "image")
LABEL_COLUMNS = ("label", "class_name", "class")


def read_csv(path: str | Path, images: str | Path | None = None, name: str | None = None) -> ImageSet:
    """The pictures that a table with the columns `filename,label` names, classes in the order they first occur.

    Files are looked for in `images`, or beside the table. Missing ones are left out with a warning.
    """
    return gather(read_pairs(Path(path)), Path(path), images, name)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """File name and class of each row of a table."""
    try:
        rows = list(csv.reader(io.StringIO(read_text(path, "utf-8-sig"), newline=""), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"cannot read {str(path)!r} as a table: {error}") from None
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    file, label = _column(header, FILE_COLUMNS, path), _column(header, LABEL_COLUMNS, path)
    try:
        return [(row[file], row[label].strip()) for row in rows[1:] if row]
    except IndexError:
        raise InputError(f"{str(path)!r} has rows with fewer columns than its header {','.join(header)!r}") from None


@dataclass(frozen=True)
class FileList:
    """What a list of CloserLook holds; a label is a place in the names."""

    label_names: list[str]
    image_names: list[str]
    image_labels: list[Annotated[int, Field(ge=0)]]


def read_json(path: str | Path, images: str | Path | None = None, name: str | None = None) -> ImageSet:
    """The pictures of a list as CloserLook writes it: `label_names`, `image_names`, `image_labels`."""
    path = Path(path)
    table = parse_json(read_text(path, "utf-8-sig"), f"{str(path)!r} as a list of pictures", FileList)
    files, labels, names = table.image_names, table.image_labels, table.label_names
    if len(files) != len(labels) or max(labels, default=0) >= len(names):
        raise InputError(f"{str(path)!r} names {len(files)} files, {len(labels)} labels and {len(names)} classes, "
                         "which do not belong together")
    return gather([(file, names[label]) for file, label in zip(files, labels, strict=True)], path, images, name)


def gather(pairs: Sequence[tuple[str, str]], table: Path, images: str | Path | None, name: str | None) -> ImageSet:
    """The pictures of (file, class) pairs that can be found, class-major."""
    beside = [folder / part for folder in (table.parent, table.parent.parent) for part in ("images", "data", "")]
    folders = [Path(images)] if images else beside
    files: dict[str, list[Path]] = {label: [] for _, label in pairs}
    missing = []
    for file, label in pairs:
        place = _find(file, label, folders)
        if place is None:
            missing.append(file)
        else:
            files[label].append(place)
    if len(missing) == len(pairs):
        raise InputError(f"{str(table)!r} names {len(pairs)} files; none is in {str(folders[0])!r}: give images=")
    if missing:
        warnings.warn(f"{len(missing)} of the {len(pairs)} files in {str(table)!r} are missing: {shorten(missing, 3)}",
                      stacklevel=3)
    return from_classes({label: places for label, places in files.items() if places}, name or table.stem)


def _find(file: str, label: str, folders: Sequence[Path]) -> Path | None:
    """The file as named, in the folder of its class, or by its bare name, in one of the folders."""
    names = (Path(file), Path(label, file), Path(label, Path(file).name), Path(Path(file).name))
    return next((folder / name for folder in folders for name in names if os.path.isfile(folder / name)), None)


def _column(header: list[str], known: tuple[str, ...], path: Path) -> int:
    for name in known:
        if name in header:
            return header.index(name)
    raise InputError(f"{str(path)!r} needs a column {known[0]!r}; its first line is {','.join(header)!r}")
