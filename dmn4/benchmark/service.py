"""A load test of the service: replicas on a store with tokens, every kind of request, beside the bare network.

An error is an answer of 400 or more other than 503, or none from any replica. Where a replica does not answer, a client
asks the next one, as a load balancer does: that is a request that was retried.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

from ..errors import InputError
from ..files import write_file
from .crowd import ANSWERS, MIX, Client, Outcome, drawn_pictures

COMMAND = [sys.executable, "-c", "from dmn4.cli import main; main()"]
ROUNDS = 5                                                    # of answers alone, between rounds of the bare network
ROUND_SECONDS = 6.0                                           # of answers; the bare network has half as long


@dataclass(frozen=True)
class Load:
    """What a load test found; seconds, and megabytes of resident memory of all replicas with their workers."""

    clients: int
    replicas: int
    load_average: float                                       # of the machine before the test
    floor: float                                              # pictures a second that the bare network embeds
    answers: float                                            # a second, when nothing else is asked
    ratio: float                                              # of the two; medians of rounds that take turns
    seconds: float
    requests: int
    errors: int
    wrong: int                                                # answers that were not what the same picture got alone
    refused: int                                              # 503: too busy, as promised
    retried: int                                              # asked again at another replica: the first was killed
    killed: int
    rate: float                                               # requests a second
    median: float
    p95: float
    p99: float
    memory_start: float                                       # medians of the first fifth of the time,
    memory_middle: float                                      # of the middle one,
    memory_end: float                                         # and of the last one

    @property
    def text(self) -> str:
        """The figures in a few lines."""
        return "\n".join([
            f"{self.replicas} replicas, {self.clients} clients, load average before {self.load_average:.1f} on "
            f"{os.cpu_count()} cores",
            f"answers alone: {self.answers:.1f} a second, {self.ratio:.2f} of the {self.floor:.1f} pictures a second "
            "that the bare network embeds",
            f"all kinds of requests for {self.seconds:.0f} s: {self.requests:,} requests, {self.errors} errors, "
            f"{self.wrong} wrong answers, {self.refused} refused, {self.retried} retried, {self.killed} replicas "
            "killed",
            f"{self.rate:.1f} requests a second; answered in {self.median * 1e3:.0f} ms (median), "
            f"{self.p95 * 1e3:.0f} ms (95 %), {self.p99 * 1e3:.0f} ms (99 %)",
            f"memory: {self.memory_start:.0f} MB, {self.memory_middle:.0f} MB half-way, {self.memory_end:.0f} MB at "
            "the end"])


def load_test(clients: int = 16, seconds: float = 60.0, backbone: str = "efficientnet_lite0",
              weights: str | None = None, out: Path = Path("out/benchmark-serve.json"),
              tell: Callable[[str], None] = print, *, replicas: int = 1, store: str | None = None,
              files: str | None = None, kill_every: float = 0.0) -> Load:
    """Start replicas of a service of its own, keep them busy, and write what was measured to `out`."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--store", store or str(Path(folder, "store")), *(["--files", files] if files else [])]
        token = made_token(place)
        options = [*place, "--log", str(Path(folder, "log")), "--backbone", backbone]
        options += [] if weights is None else ["--weights", weights]
        with ExitStack() as stack:
            services = [stack.enter_context(Replica(options)) for _ in range(replicas)]
            load = measure(services, token, clients, seconds, Floor(backbone, weights), kill_every)
    write_file(out, json.dumps(asdict(load), indent=2))
    tell(load.text)
    tell(f"written to {out}")
    return load


def made_token(place: list[str]) -> str:
    """A token for a store, made as an operator makes one."""
    name = f"load-{os.getpid()}-{int(time.time())}"
    made = subprocess.run([*COMMAND, "token", "add", name, *place], capture_output=True, text=True)
    if made.returncode:
        raise InputError(made.stderr.strip().removeprefix("dmn4: error: "))
    return made.stdout.strip()


class Replica:
    """A service in a process of its own that can be killed and started again."""

    def __init__(self, options: list[str]) -> None:
        self.options = options
        self.process: subprocess.Popen[str] | None = None
        self.address = ""

    def __enter__(self) -> "Replica":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)

    def start(self) -> None:
        """Begin to serve, at a new address."""
        self.process = subprocess.Popen([*COMMAND, "serve", "--port", "0", *self.options], stdout=subprocess.PIPE,
                                        text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "http://" not in line:
            raise RuntimeError("the service did not start; what it printed says why")
        self.address = line.split()[2]

    def kill(self) -> None:
        """End it as a power cut would, and start it again."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.start()

    @property
    def memory(self) -> float:
        """Resident megabytes, its workers included."""
        return memory_with_children(self.process.pid) if self.process else 0.0


class Floor:
    """The bare network on all cores, in the batches that suit it."""

    def __init__(self, backbone: str, weights: str | None) -> None:
        import torch

        from ..classify.parts import assemble
        from ..images.looks import at_once

        parts = assemble("dmn4", backbone, weights)
        side = parts.transform.size
        self.network = parts.embedder
        self.batch = torch.zeros(at_once(torch.empty(1, 3, side, side)), 3, side, side)

    def __call__(self, seconds: float) -> float:
        """Pictures a second, in this time."""
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(os.cpu_count() or 1)
        start, done = time.perf_counter(), 0
        with torch.inference_mode():
            while time.perf_counter() - start < seconds:
                self.network(self.batch)
                done += len(self.batch)
        torch.set_num_threads(threads)
        return done / (time.perf_counter() - start)


def measure(services: "list[Replica]", token: str | None, clients: int, seconds: float,
            floor: Callable[[float], float], kill_every: float = 0.0) -> Load:
    """Keep services busy: in a few rounds with answers alone, then as long as asked with requests of all kinds."""
    before = psutil.getloadavg()[0]
    pictures, labels = drawn_pictures()
    first = Client(services, token, pictures, labels, seed=0)
    known = first.create()
    first.expect(known)
    crowd = [Client(services, token, pictures, labels, seed, known, first.expected) for seed in range(clients)]
    round_seconds = min(ROUND_SECONDS, seconds / ROUNDS)
    together(crowd, ANSWERS, round_seconds)                   # every worker of every replica has begun
    floor(round_seconds / 2)
    rounds = [(floor(round_seconds / 2), together(crowd, ANSWERS, round_seconds)) for _ in range(ROUNDS)]
    floors, answers = zip(*((bare, len(alone) / round_seconds) for bare, alone in rounds), strict=True)
    memory: list[float] = []
    with watching(lambda: sum(service.memory for service in services), memory), killing(services, kill_every) as killed:
        start = time.monotonic()
        outcomes = together(crowd, MIX, seconds)
        took = time.monotonic() - start
    statuses = [outcome.status for outcome in outcomes]
    times = np.array([outcome.seconds for outcome in outcomes])
    fifths = [float(np.median(part)) for part in np.array_split(memory, 5) if len(part)]
    return Load(
        clients=clients, replicas=len(services), load_average=before, floor=float(np.median(floors)),
        answers=float(np.median(answers)), ratio=float(np.median(np.divide(answers, floors))),
        seconds=took, requests=len(outcomes), refused=statuses.count(503), killed=len(killed),
        errors=sum(status >= 400 and status != 503 for status in statuses),
        wrong=sum(outcome.wrong for outcome in [*outcomes, *(outcome for _, alone in rounds for outcome in alone)]),
        retried=sum(outcome.retried for outcome in outcomes),
        rate=len(outcomes) / took, median=float(np.quantile(times, 0.5)), p95=float(np.quantile(times, 0.95)),
        p99=float(np.quantile(times, 0.99)), memory_start=fifths[0], memory_middle=fifths[len(fifths) // 2],
        memory_end=fifths[-1])


def together(crowd: list[Client], mix: dict[str, int], seconds: float) -> list[Outcome]:
    """What all clients met in this time."""
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(len(crowd)) as threads:
        return [outcome for part in threads.map(lambda client: client.run(mix, end), crowd) for outcome in part]


@contextmanager
def watching(look: Callable[[], float], memory: list[float]) -> Iterator[None]:
    """Note a number twice a second while the block runs, and at its ends."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.5):
            memory.append(look())

    memory.append(look())
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
        memory.append(look())


@contextmanager
def killing(services: "list[Replica]", every: float) -> Iterator[list[int]]:
    """Kill one replica after the other, if it is said how often; the numbers of those that were."""
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        start = time.monotonic()
        while every and not stop.wait(max(0.0, start + every * (len(killed) + 1) - time.monotonic())):
            killed.append(len(killed) % len(services))
            services[killed[-1]].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        stop.set()
        killer.join()


def memory_with_children(process: int) -> float:
    """Resident megabytes of a process and of all that it started; 0 if it is gone."""
    try:
        children = [child.pid for child in psutil.Process(process).children(True)]
    except psutil.NoSuchProcess:
        return 0.0
    return sum(memory_of(each) for each in [process, *children])


def memory_of(process: int) -> float:
    """Resident megabytes of a process that are its own, 0 where the system does not say.

    Of what processes share only Linux tells the part that is no file, and not through psutil.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1e3 for line in lines if line.startswith(("VmRSS", "RssShmem"))}
    return sizes.get("VmRSS", 0.0) - sizes.get("RssShmem", 0.0)
