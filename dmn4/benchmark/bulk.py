"""Many pictures: the rate of `predict_many` beside the bare network and beside decoding, and its memory."""

import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from PIL import Image
from rich.console import Console

from ..bulk.local import cores, processes
from ..bulk.predict import predict_many
from ..bulk.reading import seen_of
from ..bulk.units import Piece, Unit
from ..bulk.worker import Task, worker_of
from ..classify.classifier import FewShotClassifier
from ..data.samples import draw_clutter
from ..files import write_file
from .race import report

DIFFERENT = 12                                                # pictures that are drawn; more are links to these
GRAIN = 6.0                                                   # of a sensor: it makes files as large as a phone's
BATCH = 30                                                    # ready tensors at a time: five times what a CPU takes


@dataclass
class Rates:
    """Pictures a second of every round, on all cores."""

    network: list[float] = field(default_factory=list)        # batches of ready tensors
    unpacking: list[float] = field(default_factory=list)      # JPEGs at an eighth of their sides, by libjpeg alone
    decoding: list[float] = field(default_factory=list)       # files to the bytes that the network takes
    bulk: list[float] = field(default_factory=list)           # predict_many, its start not counted

    @property
    def floors(self) -> list[float]:
        """Pictures a second of each round, if nothing but the network and the unpacking of JPEGs took time.

        At an eighth of its sides a JPEG needs no transform: what is left is to read its Huffman codes, one by one.
        """
        return [1 / (1 / network + 1 / unpack) for network, unpack in zip(self.network, self.unpacking, strict=True)]

    @property
    def ratio(self) -> float:
        """How often the floor's rate is that of predict_many: the median of all rounds."""
        return statistics.median(floor / rate for floor, rate in zip(self.floors, self.bulk, strict=True))

    @property
    def text(self) -> str:
        """The medians in words."""
        network, unpacking, decoding, bulk, floor = map(
            statistics.median, (self.network, self.unpacking, self.decoding, self.bulk, self.floors))
        return (f"pictures a second: bare network {network:.1f}, unpacking JPEGs alone {unpacking:.1f}, both in turn "
                f"{floor:.1f} (the floor); decoding for the network {decoding:.1f}; predict_many {bulk:.1f}: "
                f"{1 / self.ratio:.2f} of the floor, {bulk / network:.2f} of the bare network")


def benchmark_bulk(megapixels: float = 12, pictures: int = 240, rounds: int = 3, memory_pictures: int = 20_000,
                   out: Path = Path("out/benchmark-bulk.json")) -> None:
    """Time `predict_many` on JPEGs of this size, and watch its memory over many small ones; figures go to `out`."""
    console, workers = Console(), cores()
    about = report(console) | {"workers": workers, "megapixels": megapixels, "pictures": pictures}
    with tempfile.TemporaryDirectory() as folder:
        task = Task.of_file(small_classifier(Path(folder, "model.dmn4")))
        large = drawn(Path(folder, "large"), megapixels, pictures)
        about["megabytes"] = round(sum(path.stat().st_size for path in large) / len(large) / 1e6, 2)
        console.print(f"{pictures} JPEGs of {megapixels:g} megapixels and {about['megabytes']} MB, {workers} workers")
        rates = Rates()
        for number in range(rounds):
            rates.network.append(rate(bare_network, task, [None] * max(workers, pictures // BATCH), BATCH, workers))
            shares = [large[n::workers] for n in range(workers)]
            rates.unpacking.append(rate(unpack, task, shares, None, workers))
            rates.decoding.append(rate(decode, task, shares, None, workers))
            rates.bulk.append(bulk_rate(task, large, Path(folder, str(number)), workers))
        console.print(rates.text)
        about["core_ms"] = {kind: round(core_ms(task, paths[:DIFFERENT]), 1) for kind, paths in
                            (("whole", large), ("small", drawn(Path(folder, "stored"), 0.05, DIFFERENT)))}
        console.print(f"a picture takes {about['core_ms']['whole']} core milliseconds, one of 0.05 megapixels "
                      f"{about['core_ms']['small']}")
        memory = memory_levels(task, drawn(Path(folder, "small"), 0.05, memory_pictures), Path(folder, "rows"), workers)
    start = next((level for level in memory if level[0] >= 1000), memory[0])
    console.print("memory of all processes: " + ", ".join(f"{held:.0f} MB after {rows:,} pictures" for rows, held in
                  (start, memory[-1])) + f", {max(held for _, held in memory):.0f} MB at most")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, json.dumps(about | {"rates": asdict(rates), "memory": memory}, indent=2))
    console.print(f"written to {out}")


def small_classifier(path: Path) -> Path:
    """The model file of a classifier of ten drawn classes, with the usual network."""
    classes = draw_clutter(10, 5, size=224)
    names = [classes.classes[label] for label in classes.labels]
    FewShotClassifier().fit(list(classes.images), names).save(path)
    return path


def drawn(folder: Path, megapixels: float, count: int) -> list[Path]:
    """JPEG files of this size, as a camera writes them; every twelfth is a link to the same picture."""
    folder.mkdir()
    rng, width = np.random.default_rng(0), round((megapixels * 1e6 * 4 / 3) ** 0.5)
    for number, picture in enumerate(draw_clutter(4, DIFFERENT // 4, size=512).images):
        image = Image.fromarray(np.asarray(picture)).resize((width, width * 3 // 4), Image.Resampling.BICUBIC)
        grain = rng.normal(0, GRAIN, (image.height, image.width, 1)).astype(np.float32)
        content = io.BytesIO()
        Image.fromarray((np.asarray(image) + grain).clip(0, 255).astype(np.uint8)).save(content, "JPEG", quality=90)
        (folder / f"{number:06}.jpg").write_bytes(content.getvalue())
    for number in range(DIFFERENT, count):
        os.link(folder / f"{number % DIFFERENT:06}.jpg", folder / f"{number:06}.jpg")
    return sorted(folder.iterdir())[:count]


# ---------------------------------------------------------------------------------------------------------------- rates

def rate(work: Callable[[Task, Any], None], task: Task, shares: list[Any], each: int | None, workers: int) -> float:
    """Pictures a second of all workers together; each share is `each` pictures, or as many as it has items."""
    pool = processes(workers)
    list(pool.map(warm, [task] * 4 * workers))                # nothing is timed before all processes are there
    start = time.perf_counter()
    list(pool.map(work, [task] * len(shares), shares))
    return sum(each or len(share) for share in shares) / (time.perf_counter() - start)


def warm(task: Task) -> None:
    """Load the classifier of this process and run it once."""
    worker = worker_of(task)
    worker.classifier.embed(torch.zeros(BATCH, 224, 224, 3, dtype=torch.uint8))
    time.sleep(0.2)                                           # so that every process gets its turn


def bare_network(task: Task, share: None) -> None:
    """The network on a batch of ready tensors."""
    worker_of(task).classifier.embed(torch.zeros(BATCH, 224, 224, 3, dtype=torch.uint8))


def unpack(task: Task, share: Iterable[Path]) -> None:
    """JPEGs at an eighth of their sides: the least that libjpeg can do with a whole file."""
    for path in share:
        with Image.open(path) as image:
            image.draft(None, (1, 1))
            image.load()


def decode(task: Task, share: Iterable[Path]) -> None:
    """Files as the network's preprocessing takes them, and nothing more."""
    size = worker_of(task).classifier.parts_.transform.stored_size
    for path in share:
        seen_of(path.name, path, size)


def bulk_rate(task: Task, pictures: list[Path], out: Path, workers: int) -> float:
    """Pictures a second of a run, in the processes that are there already."""
    done = predict_many(task.model, pictures, out, workers=workers)
    return done.count / done.seconds


def core_ms(task: Task, pictures: list[Path]) -> float:
    """Processor milliseconds of a picture from file to row; a busy machine changes them little."""
    unit = Unit(0, [Piece(str(path)) for path in pictures], {}, "")
    worker = worker_of(task)
    worker(unit)
    start = time.process_time()
    worker(unit)
    return 1e3 * (time.process_time() - start) / len(pictures)


# --------------------------------------------------------------------------------------------------------------- memory

def memory_levels(task: Task, pictures: list[Path], out: Path, workers: int) -> list[tuple[int, float]]:
    """Rows written and megabytes of all processes at that moment, over a run of many pictures."""
    levels: list[tuple[int, float]] = []
    predict_many(task.model, pictures, out, workers=workers, rows_per_part=250,
                 seen=lambda rows, total: levels.append((rows, family_memory())))
    return levels


def family_memory() -> float:
    """Megabytes of this process and of all below it, shared pages counted once in all; 0 where nobody says."""
    me = psutil.Process()
    return sum(proportional(process) for process in [me, *me.children(recursive=True)]) / 1e6


def proportional(process: psutil.Process) -> int:
    """Resident bytes of a process, each page divided by the processes that share it; 0 if it is gone."""
    try:
        return int(getattr(process.memory_full_info(), "pss", 0))
    except psutil.Error:
        return 0
