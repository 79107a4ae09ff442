"""What lies at a path: anybody's folders and tables, or a benchmark as it circulates."""
from pathlib import Path

from dmn4.errors import InputError

from .folders import ImageSet, read_folder
from .tables import read_csv, read_json


def open_dataset(path: str | Path, split: str | None = None, **which: object) -> ImageSet:
    """The pictures at `path`, or those of one of its splits."""
    path = Path(path)
    if path.suffix == ".csv":
        return read_csv(path)
    if path.suffix == ".json":
        return read_json(path)
    if split and (path / split).is_dir():
        return read_folder(path / split, f"{path.name} {split}")
    if split:
        raise InputError(f"{str(path)!r} has no split {split!r}")
    return read_folder(path)
