"""The canonical form of a data set: decoded in the cache and, where wanted, as folders of PNG files."""

import re
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from dmn4.errors import InputError

from .cache import decoded
from .folders import ImageSet
from .layouts import open_dataset, recognise


def prepare(path: str | Path, size: int = 84, out: Path | None = None, **which: object) -> Iterator[ImageSet]:
    """Each split of the data at `path`, decoded into the cache; with `out` also written below out/split/class/."""
    layout = recognise(path)
    if out is not None and out.exists() and any(out.iterdir()):
        raise InputError(f"{str(out)!r} is not empty; choose a new folder")
    splits = [split for split in layout.readers if split != "all"] or ["all"]
    for split in splits:
        images = decoded(open_dataset(path, split, **which), size)
        if out is not None:
            write_folders(images, out if split == "all" else out / split)
        yield images


def write_folders(images: ImageSet, out: Path) -> None:
    """The pictures as out/class/0001.png; a folder appears under its name once it is complete."""
    for label, name in enumerate(images.classes):
        folder = out / re.sub(r"[/\\\\\0]", "_", name)
        draft = folder.with_name(f".{folder.name}.partial")
        draft.mkdir(parents=True, exist_ok=True)
        for number, row in enumerate((images.labels == label).nonzero()[0]):
            Image.fromarray(images.pixels[row]).save(draft / f"{number:05d}.png")
        draft.rename(folder)
