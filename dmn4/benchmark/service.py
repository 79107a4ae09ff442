"""A load test of the service on loopback: many clients, every kind of request, errors, speed and memory."""

import io
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from ..data.samples import draw_clutter
from ..files import write_file

MIX = {"predict": 55, "explain": 20, "look": 15, "grow": 4, "create": 4, "page": 2}      # requests in a hundred


@dataclass(frozen=True)
class Load:
    """What a load test found; seconds, and megabytes of resident memory of the server."""

    clients: int
    load_average: float                                       # of the machine before the test
    seconds: float
    requests: int
    errors: int
    refused: int                                              # 503: too busy, as promised
    rate: float                                               # requests a second
    median: float
    p95: float
    p99: float
    memory_start: float                                       # after the first tenth of the time
    memory_middle: float
    memory_end: float

    @property
    def text(self) -> str:
        """The figures in three lines."""
        return "\n".join([
            f"{self.clients} clients, {self.seconds:.0f} s, load average before {self.load_average:.1f} on "
            f"{os.cpu_count()} cores: {self.requests:,} requests, {self.errors} errors, "
            f"{self.refused} refused",
            f"{self.rate:.1f} requests a second; answered in {self.median * 1e3:.0f} ms (median), "
            f"{self.p95 * 1e3:.0f} ms (95 %), {self.p99 * 1e3:.0f} ms (99 %)",
            f"memory of the server: {self.memory_start:.0f} MB, {self.memory_middle:.0f} MB half-way, "
            f"{self.memory_end:.0f} MB at the end"])


def load_test(clients: int = 16, seconds: float = 60.0, backbone: str = "efficientnet_lite0",
              weights: str | None = None, out: Path = Path("out/benchmark-serve.json"),
              tell: Callable[[str], None] = print) -> Load:
    """Start a service of its own on a free port, keep it busy, and write what was measured to `out`."""
    with running(backbone, weights) as (process, address):
        found = measure(address, process.pid, clients, seconds)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, json.dumps(asdict(found), indent=2))
    tell(found.text)
    tell(f"written to {out}")
    return found


@contextmanager
def running(backbone: str, weights: str | None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service in a process of its own, and its address; it ends with the block."""
    command = [sys.executable, "-c", "from dmn4.cli import main; main()", "serve", "--port", "0"]
    command += ["--backbone", backbone] + ([] if weights is None else ["--weights", weights])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "http://" not in line:
            raise RuntimeError("the service did not start; what it printed says why")
        yield process, line.split()[2]
    finally:
        process.terminate()
        process.wait(timeout=30)


def measure(address: str, process: int, clients: int, seconds: float) -> Load:
    """Keep a service busy for a while; `process` is its number, to read its memory."""
    before = os.getloadavg()[0]
    pictures, labels = drawn_pictures()
    with httpx.Client(base_url=address, timeout=60) as first:
        known = create(first, pictures, labels).json()["id"]
    memory, stop = [memory_of(process)], threading.Event()
    watcher = threading.Thread(target=watch, args=(process, memory, stop))
    watcher.start()
    start = time.monotonic()
    with ThreadPoolExecutor(clients) as crowd:
        parts = list(crowd.map(lambda seed: one_client(address, known, pictures, labels, seed, start + seconds),
                               range(clients)))
    took = time.monotonic() - start
    stop.set()
    watcher.join()
    statuses = [status for part in parts for status, _ in part]
    times = np.array([spent for part in parts for _, spent in part])
    return Load(clients=clients, load_average=before, seconds=took, requests=len(statuses), refused=statuses.count(503),
                errors=sum(status >= 400 and status != 503 for status in statuses), rate=len(statuses) / took,
                median=float(np.quantile(times, 0.5)), p95=float(np.quantile(times, 0.95)),
                p99=float(np.quantile(times, 0.99)), memory_start=memory[len(memory) // 10],
                memory_middle=memory[len(memory) // 2], memory_end=memory[-1])


def one_client(address: str, known: str, pictures: list[bytes], labels: list[str], seed: int,
               end: float) -> list[tuple[int, float]]:
    """Status and seconds of every request that a client made until the end; 599 where none was answered."""
    chance = random.Random(seed)
    found = []
    with httpx.Client(base_url=address, timeout=60) as client:
        while time.monotonic() < end:
            kind, = chance.choices(list(MIX), list(MIX.values()))
            start = time.monotonic()
            try:
                status = request(client, kind, known, chance.randrange(len(pictures)), pictures, labels)
            except httpx.HTTPError:
                status = 599
            found.append((status, time.monotonic() - start))
    return found


def request(client: httpx.Client, kind: str, known: str, number: int, pictures: list[bytes], labels: list[str]) -> int:
    """Make a request of one kind; its status. A classifier that was made is asked, enlarged and deleted again."""
    if kind in ("predict", "explain"):
        path = f"/api/classifiers/{known}/{'predictions' if kind == 'predict' else 'explanations'}"
        return client.post(path, files={"picture": pictures[number]}).status_code
    if kind == "look":
        return client.get(f"/api/classifiers/{known}/shots/{number}").status_code
    if kind == "page":
        return client.get("/").status_code
    made = create(client, pictures, labels)
    if made.status_code != 201:
        return made.status_code
    own = f"/api/classifiers/{made.json()['id']}"
    if kind == "grow":
        grown = client.post(f"{own}/shots", data={"labels": [labels[number]]}, files={"pictures": pictures[number]})
        saved = client.get(f"{own}/model")
        if max(grown.status_code, saved.status_code) >= 400:
            return max(grown.status_code, saved.status_code)
    return client.delete(own).status_code


def create(client: httpx.Client, pictures: list[bytes], labels: list[str]) -> httpx.Response:
    """A new classifier."""
    return client.post("/api/classifiers", data={"labels": labels}, files=[("pictures", one) for one in pictures])


def drawn_pictures() -> tuple[list[bytes], list[str]]:
    """Two drawn pictures of each of three classes, as JPEG, with their labels."""
    drawn = draw_clutter(3, 2, size=224)
    return [jpeg(picture) for picture in drawn.pixels], [drawn.classes[label] for label in drawn.labels]


def jpeg(pixels: np.ndarray) -> bytes:
    """A picture as the bytes of a JPEG file: (h, w, 3)."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()


def watch(process: int, memory: list[float], stop: threading.Event) -> None:
    """Append the memory of a process twice a second."""
    while not stop.wait(0.5):
        memory.append(memory_of(process))


def memory_of(process: int) -> float:
    """Resident megabytes of a process, 0 where the system does not say."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS")), 0.0)
