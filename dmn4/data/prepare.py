"""The canonical form of a data set: decoded in the cache and, where wanted, as folders of PNG files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from PIL import Image

from dmn4.errors import InputError, choose

from ..files import read_json, write_json
from ..images import is_hidden
from ..images.files import Size
from .cache import decoded
from .folders import ImageSet
from .layouts import open_dataset, recognise

MARK = ".dmn4-prepared.json"


def prepare(path: str | Path, size: Size = 84, out: Path | None = None, only: Sequence[str] = (),
            **which: object) -> Iterator[ImageSet]:
    """Each split of the data at `path`, decoded into the cache; with `out` also written below out/split/class/.

    `only`: of all splits these. Interrupted, the same call goes on where it stopped.
    """
    layout = recognise(path)
    splits = [split for split in layout.readers if split != "all"] or ["all"]
    splits = [choose("split", split, splits) for split in only] or splits
    mark = None
    if out is not None:
        assert isinstance(size, int), "the folders hold squares"
        mark = claim(out, size)
    for split in splits:
        images = decoded(open_dataset(path, split, **which), size)
        if out is not None and mark is not None:
            if mark.fingerprints.setdefault(split, images.fingerprint) != images.fingerprint:
                raise InputError(f"{str(out)!r} holds other pictures of the split {split!r}; choose a new folder")
            write_json(out / MARK, asdict(mark))
            write_folders(images, out if split == "all" else out / split)
        yield images


@dataclass(frozen=True)
class Mark:
    """What tells that a folder was written here, and from what."""

    size: int
    fingerprints: dict[str, str] = field(default_factory=dict)


def claim(out: Path, size: int) -> Mark:
    """Take a folder that is empty, or that an earlier call with this size began to fill."""
    mark = read_json(out / MARK, Mark) if (out / MARK).is_file() else Mark(size)
    is_new = not out.is_dir() or all(is_hidden(path.name) for path in out.iterdir())
    if mark.size != size or not (is_new or (out / MARK).is_file()):
        raise InputError(f"{str(out)!r} is not empty; choose a new folder")
    write_json(out / MARK, asdict(mark))
    return mark


def write_folders(images: ImageSet, out: Path) -> None:
    """The pictures as out/class/0001.png; a folder has its name once it is complete, and is then left alone."""
    names = [re.sub(r"[/\\\\\0]|^\.|^$", "_", name) for name in images.classes]    # what begins with . is passed over
    if len(set(names)) < len(names):
        raise InputError(f"two classes of {images.name} would have the same folder in {str(out)!r}")
    for label, name in enumerate(names):
        folder = out / name
        if folder.is_dir():
            continue
        draft = out / f".{label}.partial"                     # short: the name itself may be as long as can be
        draft.mkdir(parents=True, exist_ok=True)
        for number, row in enumerate((images.labels == label).nonzero()[0]):
            Image.fromarray(images.pixels[row]).save(draft / f"{number:05d}.png")
        draft.rename(folder)
