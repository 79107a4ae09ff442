"""Image files: find them, read them as arrays, refuse what is not an image."""

import hashlib
import io
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from dmn4.errors import InputError

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")            # no other decoder of Pillow is run
PIXEL_LIMIT = 89_478_485                                           # Pillow's own guard against decompression bombs
LARGE = 1 << 24                                                    # pixels, above which one is converted at a time
STRIP = 1 << 22                                                    # pixels of a large one converted at once
DECODED = 30 * PIXEL_LIMIT                                         # pixels that all scans of a JPEG may go through
SPARE = 2                                                          # times the size asked for, kept for a good scaling
MUCH = 1 << 20                                                     # bytes to read at once
DIGEST = 16                                                        # bytes of a picture's digest
SKIPPED_FOLDERS = ("__MACOSX", "@eaDir")                           # what archivers and network disks leave behind


@dataclass(frozen=True)
class Crop:
    """A part of the picture at `path`: left, top, right, bottom in pixels, cut off at the border."""

    path: Path
    box: tuple[float, float, float, float]


class Cut(NamedTuple):
    """A size (h, w) that a picture is scaled to cover, keeping its aspect; what juts out is cut off on both sides."""

    height: int
    width: int


_one_large = threading.Lock()                                      # threads that read would else need gigabytes
Size: TypeAlias = int | tuple[int, int] | Cut                      # a number is the side of a square
Source: TypeAlias = str | Path | bytes | np.ndarray | Image.Image | Crop


def find_images(folder: str | Path) -> list[Path]:
    """Paths of the image files in and below `folder`, sorted; hidden names are passed over.

    So are links that lead back to a folder already read, or up to one that holds `folder`: what lies beside it does
    not lie in it.
    """
    return sorted(path for path in _walk(Path(folder)) if path.suffix.lower() in SUFFIXES and path.is_file())


def _walk(folder: Path) -> Iterator[Path]:
    seen = {_identity(parent) for parent in Path(os.path.realpath(folder)).parents}
    for here, folders, files in os.walk(folder, followlinks=True, onerror=_warn_unlisted):
        identity = _identity(here)
        if identity in seen:
            folders.clear()
            continue
        seen.add(identity)
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        yield from (Path(here, name) for name in files if not is_hidden(name))


def _identity(folder: str | Path) -> tuple[int, int] | None:
    """What two names of one folder share; None if it was taken away in this moment."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _warn_unlisted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        warnings.warn(f"left out: cannot list the folder {str(error.filename)!r}: {error.strerror}",
                      stacklevel=4)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is passed over."""
    return name.startswith(".") or name in SKIPPED_FOLDERS


def describe_source(source: Source) -> str:
    """What a message calls this picture: its quoted path where it has one."""
    if isinstance(source, str | Path):
        return repr(str(source))
    if isinstance(source, Crop):
        return repr(str(source.path))
    return {bytes: "the bytes given", np.ndarray: "the array given"}.get(type(source), "the picture given")


def read_image(source: Source, size: Size | None = None) -> np.ndarray:
    """The picture as RGB bytes (h, w, 3), upright; transparent parts lie on white, 16 bits become 8.

    Of several frames the first counts. Where the picture is to be scaled to `size` (h, w, or the side of a square)
    anyway, a JPEG far larger is decoded at a half, a quarter or an eighth of its sides, never below twice that size:
    twelve megapixels take a quarter of the time. Any other picture of more than LARGE pixels is made smaller in the
    same way, a strip at a time. What cannot be read is an InputError that names the path.
    """
    name = describe_source(source)
    if isinstance(source, np.ndarray):
        source = _array_to_image(source)
    try:
        return _decode(source, size if size is None or isinstance(size, int) else max(size))
    except InputError as error:
        raise InputError(f"cannot read {name} as an image: {error}") from None
    except Image.DecompressionBombError:
        raise InputError(f"cannot read {name} as an image: more than {PIXEL_LIMIT:,} pixels; scale it down") from None
    except MemoryError:                                            # the picture may well be whole
        raise
    except Exception as error:                                     # decoders raise nearly every type there is
        raise InputError(f"cannot read {name} as an image: {_reason(error)}") from None


def _decode(source: str | Path | bytes | Image.Image | Crop, size: int | None = None) -> np.ndarray:
    if isinstance(source, Image.Image):
        return _pixels(source)
    if isinstance(source, Crop):
        return _cut(_decode(source.path), source.box)
    if not isinstance(source, bytes):
        _check_file(Path(source))
    with io.BytesIO(source) if isinstance(source, bytes) else Whole(source) as file, \
            Image.open(file, formats=FORMATS) as image:
        _check_scans(image, file)
        return _pixels(image, size, own=True)


class Whole(io.BufferedReader):
    """A file of which nothing is asked that is not there: room for what a part of it claims to hold is not made."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(io.FileIO(path))

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or as many as are left."""
        if size is not None and size > MUCH:
            size = min(size, max(0, os.fstat(self.fileno()).st_size - self.tell()))
        return super().read(size)


def _check_file(path: Path) -> None:
    """Refuse what is no ordinary file; to open a pipe would be to wait for ever."""
    if not path.is_file():
        raise InputError("it is a folder" if path.is_dir() else "it is not a file" if path.exists() else "no such file")


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"the content is none of {', '.join(FORMATS)}"
    if isinstance(error, PermissionError):
        return "permission denied"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "the file is truncated" if "truncated" in text.lower() else text


def _check_scans(image: Image.Image, file: io.BufferedIOBase) -> None:
    """Refuse a JPEG that goes through its pixels again and again: a hundred bytes are enough for one more scan."""
    if not image.info.get("progressive"):
        return
    place = file.seek(0)
    scans = file.read().count(b"\xff\xda")
    file.seek(place)
    if scans * image.width * image.height > DECODED:
        raise InputError(f"it goes {scans:,} times through its {image.width} x {image.height} pixels; save it anew")


def _pixels(image: Image.Image, size: int | None = None, own: bool = False) -> np.ndarray:
    """An open picture as RGB bytes (h, w, 3), with at least SPARE times the size asked for if it has as much.

    The caller's own picture is left as it is.
    """
    width, height = image.size
    if width * height > PIXEL_LIMIT:
        raise InputError(f"{width} x {height} pixels are more than {PIXEL_LIMIT:,}; scale it down")
    if min(width, height) < 2:
        raise InputError(f"{width} x {height} pixels show nothing")
    if size is not None:
        image.draft(None, (SPARE * size, SPARE * size))  # does nothing unless it is a JPEG
    large = image.width * image.height > LARGE
    with _one_large if large else nullcontext():
        image = ImageOps.exif_transpose(image, in_place=True) or image if own else ImageOps.exif_transpose(image)
        return _in_strips(image, size) if large else np.array(_to_rgb(image))


def _in_strips(image: Image.Image, size: int | None) -> np.ndarray:
    """A large picture as RGB bytes, each side divided by up to 8 if it is so much larger than SPARE times the size.

    No second copy of it is made on the way.
    """
    width, height = image.size
    across, down = (1 if size is None else min(8, max(1, side // (SPARE * size))) for side in image.size)
    top, rows = _brightest(image), max(1, STRIP // (width * down)) * down
    pixels = np.empty((-(-height // down), -(-width // across), 3), np.uint8)
    for start in range(0, height, rows):
        strip = _to_rgb(image.crop((0, start, width, min(start + rows, height))), top).reduce((across, down))
        pixels[start // down : start // down + strip.height] = np.asarray(strip)
    return pixels


def _to_rgb(image: Image.Image, top: float | None = None) -> Image.Image:
    """Eight-bit RGB of a picture in any mode; `top` is the brightest value of the whole that it is a strip of."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith(("I", "F")):                          # Pillow's own conversion would clip these at 255
        return _narrow(np.asarray(image, dtype=np.float32), _brightest(image) if top is None else top)
    if "A" in image.mode or "transparency" in image.info:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _brightest(image: Image.Image) -> float | None:
    """The value that is white: of 16 bits the largest there is; where the width is not known the picture tells it."""
    if image.mode.startswith("I;16"):
        return 65535.0
    if image.mode not in ("I", "F"):
        return None
    top = image.getextrema()[1]
    return top if isinstance(top, float | int) else None           # a pair for each of several bands: not these modes


def _narrow(values: np.ndarray, top: float | None) -> Image.Image:
    """Grey values of up to `top` as eight-bit RGB: (h, w)."""
    scale = 255.0 / 65535.0 if top is None or not top <= 255 else 255.0 if top <= 1 else 1.0
    return Image.fromarray(np.nan_to_num(values * scale).round().clip(0, 255).astype(np.uint8)).convert("RGB")


def _array_to_image(array: np.ndarray) -> Image.Image:
    if array.dtype != np.uint8:
        raise InputError(f"an image array holds uint8 values 0 to 255, not {array.dtype}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        raise InputError(f"an image array has shape (h, w, 3), not {array.shape}")
    return Image.fromarray(np.ascontiguousarray(array))


def _cut(pixels: np.ndarray, box: tuple[float, float, float, float]) -> np.ndarray:
    height, width = pixels.shape[:2]
    left, top, right, bottom = (round(side) for side in box)
    part = pixels[max(top, 0):min(bottom, height), max(left, 0):min(right, width)]
    if 0 in part.shape:
        raise InputError(f"its box {box} lies outside its {width} x {height} pixels")
    return part


def resize_image(image: np.ndarray, size: Size) -> np.ndarray:
    """The picture scaled to exactly `size`, whatever its aspect, unless the size is a Cut: (h, w, 3) bytes."""
    if isinstance(size, Cut):
        return cut_image(image, size)
    height, width = (size, size) if isinstance(size, int) else size
    if image.shape[:2] == (height, width):
        return image
    return np.array(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def cut_image(image: np.ndarray, size: Cut) -> np.ndarray:
    """The middle of a picture that was scaled to cover `size`: (h, w, 3) bytes."""
    scale = max(wanted / length for wanted, length in zip(size, image.shape[:2], strict=True))
    height, width = (max(wanted, int(length * scale)) for wanted, length in zip(size, image.shape[:2], strict=True))
    top, left = (height - size.height) // 2, (width - size.width) // 2
    scaled = resize_image(image, (height, width))
    return np.ascontiguousarray(scaled[top : top + size.height, left : left + size.width])


def digest(pixels: np.ndarray) -> np.ndarray:
    """Sixteen bytes that identify a decoded picture: (h, w, 3) -> (16,)."""
    shape = np.array(pixels.shape, dtype="<i4").tobytes()
    return np.frombuffer(blake(shape + pixels.tobytes()), dtype=np.uint8)


def blake(content: bytes) -> bytes:
    """Sixteen bytes that identify a content."""
    return hashlib.blake2b(content, digest_size=DIGEST).digest()
