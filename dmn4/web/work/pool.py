"""Work that waits for worker processes: a short queue, pictures answered together, an end to all of it."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException

from ...errors import InputError
from ..backbone import ChosenBackbone
from ..limits import MEGABYTE, Limits
from .process import Died, Worker

TOGETHER = 8                                                  # pictures that go through the network at once
GRACE = 0.5                                                   # seconds that work goes on when nobody wants it any more
Tell = Callable[[int], None]
LOG = logging.getLogger("dmn4")


@dataclass(eq=False)
class Piece:
    """A piece of work and who waits for it."""

    name: str
    arguments: dict[str, Any]
    future: asyncio.Future[Any]
    tell: Tell | None = None
    alone: bool = False                                       # it was there when a worker died
    worker: Worker | None = None                              # that is at it

    @property
    def quick(self) -> bool:
        """Whether it is an answer, which several pictures can be given together."""
        return self.name == "answer"


@dataclass
class Counts:
    """What a pool has done so far."""

    pictures: int = 0
    batches: int = 0
    killed: int = 0


@dataclass(eq=False)
class Pool:
    """Worker processes, started when they are needed. Only the event loop touches it, but for `start`."""

    backbone: ChosenBackbone
    limits: Limits
    waiting: deque[Piece] = field(default_factory=deque)
    idle: list[Worker] = field(default_factory=list)
    running: list[list[Piece]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    closed: bool = False

    def __post_init__(self) -> None:
        self.threads = ThreadPoolExecutor(self.limits.workers, "dmn4-worker")
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self) -> Worker:
        """A worker, waiting for work; what is wrong with the backbone is an InputError."""
        if not self.idle:
            self.idle.append(Worker(self.backbone, self.limits))
        return self.idle[-1]

    async def run(self, name: str, tell: Tell | None = None, **arguments: Any) -> Any:
        """What a job of Tasks returns; 503 if the queue is full, 504 once it was stopped for taking too long."""
        free = self.limits.workers - len(self.running)
        if self.closed or len(self.waiting) >= self.limits.waiting + free:
            raise HTTPException(503, "all workers are busy and the queue is full; try again in a moment")
        piece = Piece(name, arguments, asyncio.get_running_loop().create_future(), tell)
        self.waiting.append(piece)
        self.hand_out()
        try:
            async with asyncio.timeout(self.limits.work_seconds):
                return await piece.future
        except TimeoutError:
            self.stop(piece)
            raise HTTPException(504, f"not done after {self.limits.work_seconds:g} seconds; send less") from None
        finally:
            self.forsake(piece)

    # ------------------------------------------------------------------------------------------------- handing out

    def hand_out(self) -> None:
        """Give what waits to the workers that are free."""
        while not self.closed and len(self.running) < self.limits.workers and (batch := self.next_batch()):
            self.running.append(batch)
            task = asyncio.get_running_loop().create_task(self.work_on(batch))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def next_batch(self) -> list[Piece]:
        """What a worker does next: pictures for a few answers, or one longer piece, for which not all workers are."""
        room = max(1, self.limits.workers - 1) - sum(not batch[0].quick for batch in self.running)
        first = next((piece for piece in self.waiting if piece.quick or room > 0), None)
        if first is None:
            return []
        batch = [first]
        if first.quick and not first.alone:
            others = [piece for piece in self.waiting if piece.quick and not piece.alone and piece is not first]
            share = -(-(len(others) + 1) // (self.limits.workers - len(self.running)))
            batch += others[: min(TOGETHER, share) - 1]
        for piece in batch:
            self.waiting.remove(piece)
        return batch

    async def work_on(self, batch: list[Piece]) -> None:
        """Have a worker do these; if it dies, what was not to blame is done again, each piece alone."""
        loop = asyncio.get_running_loop()
        worker: Worker | None = None
        try:
            worker = self.idle.pop() if self.idle else await loop.run_in_executor(
                self.threads, Worker, self.backbone, self.limits)
            for piece in batch:
                piece.worker = worker
            jobs = [(piece.name, piece.arguments) for piece in batch]
            hear = heard_by(batch, loop)
            self.counts.batches += batch[0].quick
            self.counts.pictures += len(batch) * batch[0].quick
            if any(not piece.future.done() for piece in batch):
                await loop.run_in_executor(self.threads, worker.ask, jobs, hear)
            await asyncio.sleep(0)                            # what was heard last is settled first
        except Died:
            self.counts.killed += 1
        except InputError as error:
            settle_all(batch, HTTPException(500, str(error)))
        except Exception:
            LOG.exception("a piece of work could not be handed out")
            settle_all(batch, HTTPException(500, "the service made a mistake; its log says more"))
        finally:
            self.running.remove(batch)
            self.put_back(worker)
            self.try_again(batch)
            self.hand_out()

    def put_back(self, worker: Worker | None) -> None:
        """Keep a worker for what comes next, or let go of it."""
        if worker is not None and worker.usable and not self.closed:
            self.idle.append(worker)
        elif worker is not None:
            self.threads.submit(worker.close) if not self.closed else worker.close()

    def try_again(self, batch: list[Piece]) -> None:
        """Queue anew what a dead worker left, unless it is to blame: it was alone."""
        left = [piece for piece in batch if not piece.future.done()]
        for piece in reversed(left):
            piece.worker = None
            if self.closed:
                piece.future.set_exception(HTTPException(503, "the service is ending; try again in a moment"))
            elif len(batch) == 1:
                most = f"{self.limits.worker_bytes // MEGABYTE:,} MB of memory"
                piece.future.set_exception(HTTPException(413, f"a worker did not survive this: it takes over {most}, "
                                                              "or breaks a decoder"))
            else:
                piece.alone = True
                self.waiting.appendleft(piece)

    # ---------------------------------------------------------------------------------------------------- stopping

    def stop(self, piece: Piece) -> None:
        """Kill the worker that is at a piece, so that the work has stopped."""
        if piece.worker is not None and any(piece in batch for batch in self.running):
            piece.worker.kill()

    def forsake(self, piece: Piece) -> None:
        """Nobody waits for a piece any more: it is not begun, and if it runs it is stopped, an answer in a moment."""
        if piece in self.waiting:
            self.waiting.remove(piece)
        batch = next((batch for batch in self.running if piece in batch), None)
        if batch is None or not all(other.future.done() for other in batch):
            return
        if piece.future.cancelled():
            asyncio.get_running_loop().call_later(GRACE if piece.quick else 0, self.stop, piece)

    async def drain(self, end: float) -> None:
        """Let what runs come to its end until then, on the clock of the loop, and stop it; nothing new is begun."""
        while self.tasks and asyncio.get_running_loop().time() < end:
            await asyncio.wait(set(self.tasks), timeout=max(0.0, end - asyncio.get_running_loop().time()))
        self.close()
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=1.0)

    def close(self) -> None:
        """End all workers now."""
        self.closed = True
        settle_all(list(self.waiting), HTTPException(503, "the service is ending; try again in a moment"))
        self.waiting.clear()
        for worker in self.workers():
            worker.kill()
        for worker in self.idle:
            worker.close()
        self.idle.clear()
        self.threads.shutdown(wait=False)

    def workers(self) -> list[Worker]:
        """All that are alive."""
        return [*self.idle, *{piece.worker for batch in self.running for piece in batch if piece.worker is not None}]


def heard_by(batch: list[Piece], loop: asyncio.AbstractEventLoop) -> Callable[[dict[str, Any], bytes], None]:
    """Passes on what a worker says, from its thread to the event loop."""
    def hear(message: dict[str, Any], content: bytes) -> None:
        loop.call_soon_threadsafe(settle, batch, message, content)

    return hear


def settle(batch: list[Piece], message: dict[str, Any], content: bytes) -> None:
    """Give what a worker said to who waits for it."""
    piece = batch[message.get("job", 0)]
    if "done" in message:
        if piece.tell is not None:
            piece.tell(message["done"])
    elif piece.future.done():
        return
    elif "problem" in message:
        status, text = message["status"], message["problem"]
        piece.future.set_exception(InputError(text) if status == 422 else HTTPException(status, text))
    else:
        piece.future.set_result(content if message.get("bytes") else message["value"])


def settle_all(pieces: list[Piece], error: Exception) -> None:
    """Tell everybody who still waits for one of these."""
    for piece in pieces:
        if not piece.future.done():
            piece.future.set_exception(error)
