"""Labelled pictures: root/class/image.jpg -> ImageSet."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from dmn4.errors import InputError
from dmn4.images import SUFFIXES, Source, find_images, is_hidden, read_image
from dmn4.images.files import blake, digest


@dataclass(frozen=True)
class ImageSet:
    """Pictures with labels. `images` are paths, bytes or crops to be read, or one array or memory map (n, h, w, 3)."""

    images: Sequence[Source] | np.ndarray
    labels: np.ndarray                                             # (n,)  int64, places in `classes`
    classes: tuple[str, ...]
    name: str = "images"
    digests: np.ndarray | None = None                              # (n, 16)  known once the pictures were decoded

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", np.asarray(self.labels, dtype=np.int64))
        assert len(self.images) == len(self.labels), "one label for each picture"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_decoded(self) -> bool:
        """Whether the pictures are one array (n, h, w, 3)."""
        return isinstance(self.images, np.ndarray)

    @property
    def pixels(self) -> np.ndarray:
        """The pictures as one array (n, h, w, 3); only of a set that is decoded."""
        assert isinstance(self.images, np.ndarray), f"{self.name} is not decoded; see dmn4.data.cache.decoded"
        return self.images

    @property
    def counts(self) -> np.ndarray:
        """Pictures of each class: (number of classes,)."""
        return np.bincount(self.labels, minlength=len(self.classes))

    def first_of_each_class(self, count: int) -> "ImageSet":
        """The first `count` pictures of every class (all of them for 0), in order."""
        if not count:
            return self
        order = np.argsort(self.labels, kind="stable")
        starts = np.searchsorted(self.labels[order], self.labels[order])      # where each picture's class begins
        return self.rows(np.sort(order[np.arange(len(self)) - starts < count]))

    def rows(self, rows: np.ndarray | Sequence[int]) -> "ImageSet":
        """The chosen pictures, in this order; all classes keep their labels. Neighbouring rows of a map stay a map."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        images: Sequence[Source] | np.ndarray
        if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
            images = self.images[rows[0] : rows[0] + len(rows)]
        elif isinstance(self.images, np.ndarray):
            images = self.images[rows]
        else:
            images = [self.images[row] for row in rows.tolist()]
        digests = None if self.digests is None else self.digests[rows]
        return replace(self, images=images, labels=self.labels[rows], digests=digests)

    def of_classes(self, classes: Iterable[str | int]) -> "ImageSet":
        """The pictures of these classes (names or labels), relabelled 0, 1, ... in the order given."""
        chosen = [self._label(name) for name in classes]
        new = np.full(len(self.classes), -1)
        new[chosen] = np.arange(len(chosen))
        part = self.rows(new[self.labels] >= 0)
        return replace(part, labels=new[part.labels], classes=tuple(self.classes[label] for label in chosen))

    def _label(self, name: str | int) -> int:
        if isinstance(name, str) and name not in self.classes:
            raise InputError(f"{self.name} has no class {name!r}; it has {shorten(self.classes)}")
        return self.classes.index(name) if isinstance(name, str) else int(name)

    @cached_property
    def duplicates(self) -> np.ndarray:
        """A number for each picture, the same for identical ones: (n,)."""
        digests = digest_all(self.images) if self.digests is None else self.digests
        return np.unique(digests, axis=0, return_inverse=True)[1].reshape(-1)

    @cached_property
    def fingerprint(self) -> str:
        """Twelve letters that tell this content from any other: pictures and which of them share a class.

        Names, order, file format and time do not matter; a changed pixel or a picture in another class does. Where
        `digests` are not known this reads every picture.
        """
        digests = digest_all(self.images) if self.digests is None else self.digests
        members: list[list[bytes]] = [[] for _ in self.classes]
        for label, row in zip(self.labels, digests, strict=True):
            members[label].append(row.tobytes())
        each = sorted(blake(b"".join(sorted(rows))) for rows in members)
        return blake(b"".join(each)).hex()[:12]


def digest_all(images: Sequence[Source] | np.ndarray) -> np.ndarray:
    """The digest of every picture, read in parallel: (n, 16)."""
    with ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(lambda image: digest(read_image(image)), images)))


def shorten(names: Sequence[str], most: int = 6) -> str:
    """The first few names, quoted, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


def class_folders(root: Path) -> list[Path]:
    """The folders directly below `root`, sorted, without the hidden ones."""
    return sorted(path for path in root.iterdir() if path.is_dir() and not is_hidden(path.name))


def read_folder(root: str | Path, name: str | None = None) -> ImageSet:
    """The pictures below root/class/, classes in alphabetical order."""
    root = existing_folder(root)
    folders = class_folders(root)
    if folders and {folder.name for folder in folders} <= {"train", "val", "test"}:
        raise InputError(f"{str(root)!r} holds the splits of a data set, not classes; choose {str(folders[0])!r}")
    files = {folder.name: find_images(folder) for folder in folders}
    for folder in folders:
        if not files[folder.name]:
            raise InputError(f"no images in {str(folder)!r} (looked for {' '.join(SUFFIXES)})")
    if len(folders) < 2:
        raise InputError(_too_few(root, folders))
    loose = sum(path.suffix.lower() in SUFFIXES for path in root.iterdir())
    if loose:
        warnings.warn(f"{loose} images directly in {str(root)!r} belong to no class and are left out", stacklevel=2)
    return from_classes(files, name or root.resolve().name)


def from_classes(sources: Mapping[str, Sequence[Source]], name: str) -> ImageSet:
    """The pictures of each class, class-major, classes in the order given."""
    labels = np.repeat(np.arange(len(sources)), [len(images) for images in sources.values()])
    return ImageSet([image for images in sources.values() for image in images], labels, tuple(sources), name)


def existing_folder(root: str | Path) -> Path:
    """`root` as a path, if it is a folder."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{str(root)!r} is not a folder" if root.exists() else f"there is no folder {str(root)!r}")
    return root


def _too_few(root: Path, folders: list[Path]) -> str:
    if folders:
        return f"{str(root)!r} holds one class folder ({folders[0].name!r}); a classifier needs at least two"
    loose = len(find_images(root))
    holding = f"{loose} images but no class folders" if loose else "neither images nor folders"
    return f"{str(root)!r} holds {holding}; expected {str(root)!r}/class/image.jpg, two classes or more"
