"""What decoding once saves, and what a training batch costs beside a training step. Run as `dmn4 data benchmark`.

Times are processor times of this process, all threads together: other jobs on the machine change them little.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import torch
from PIL import Image
from torch import nn

from dmn4.images import TRANSFORMS, Transform, read_image, resize_image

from ..data.cache import cached_bytes, decoded
from ..data.folders import ImageSet
from ..data.layouts import open_dataset
from ..data.samples import draw_clutter

BATCH = 80                                                         # a 5-way 1-shot episode with 15 queries a class


def measure(path: str | Path, network: nn.Module, split: str | None = "train", repeats: int = 10) -> Iterator[str]:
    """One line for each figure: the cache, full-size sources, and each transform beside a step of `network`."""
    yield f"load {psutil.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {torch.get_num_threads()} threads of torch"
    images = open_dataset(path, split)
    start, seconds = time.perf_counter(), timed(lambda: decoded(images, 84, cache=False, progress=False), 1)
    yield (f"decode {images.name} once: {len(images):,} pictures in {seconds:.1f} s of processor time, "
           f"{time.perf_counter() - start:.1f} s on the clock")
    stored = decoded(images, 84)
    yield f"decoded pictures take {cached_bytes() / 1e6:,.0f} MB"
    yield _fetch(images, stored, 84, repeats)
    yield from _full_size(repeats)
    yield from _transforms(stored, network, repeats)


def timed(work: Callable[[], object], repeats: int) -> float:
    """The median processor seconds of a call, after one that is not counted."""
    if repeats > 1:
        work()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return float(np.median(seconds))


def _fetch(images: ImageSet, stored: ImageSet, size: int, repeats: int) -> str:
    """A random batch from the files beside the same batch from the map."""
    rows = np.random.default_rng(0).choice(len(stored), BATCH, replace=len(stored) < BATCH)
    each = timed(lambda: [resize_image(read_image(images.images[row]), size) for row in rows], repeats)
    once = timed(lambda: stored.pixels[rows], repeats)
    height, width = read_image(images.images[0]).shape[:2]
    return (f"{BATCH} pictures of {width} x {height}: decoded {1e3 * each:.1f} ms, from the map {1e3 * once:.2f} ms: "
            f"{each / once:.0f} x")


def _full_size(repeats: int) -> Iterator[str]:
    """The same for JPEG files of 500 x 375 pixels, the usual size in ImageNet."""
    drawn = draw_clutter(classes=2, per_class=4, size=500)
    with TemporaryDirectory() as folder:
        paths = [Path(folder, f"{row}.jpg") for row in range(len(drawn))]
        for path, pixels in zip(paths, drawn.pixels, strict=True):
            Image.fromarray(pixels[:375]).save(path, quality=90)
        images = ImageSet(paths * 10, np.tile(drawn.labels, 10), drawn.classes, "full size")
        yield _fetch(images, decoded(images, 84, cache=False, progress=False), 84, repeats)


def _transforms(stored: ImageSet, network: nn.Module, repeats: int) -> Iterator[str]:
    """What each training transform costs, from the map to the tensor, beside forward and backward of the network."""
    rows = np.random.default_rng(0).choice(len(stored), BATCH, replace=False)
    inputs = torch.rand(BATCH, 3, 84, 84)
    step = timed(lambda: network(inputs).square().mean().backward(), max(3, repeats // 3))
    yield f"training step, {BATCH} pictures: {1e3 * step:.0f} ms"
    for name, (train, _) in TRANSFORMS.items():
        if train.size == 84:
            batch = timed(partial(_batch, stored, rows, train), repeats)
            yield f"batch by {name}: {1e3 * batch:.1f} ms, {100 * batch / step:.1f} % of the step"


def _batch(stored: ImageSet, rows: np.ndarray, transform: Transform) -> torch.Tensor:
    return transform(torch.from_numpy(stored.pixels[rows]))
