"""A worker process as the service holds it: started, asked, killed."""

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pickle import PicklingError
from typing import Any

from ...errors import InputError
from ..backbone import ChosenBackbone
from ..limits import Limits

CONTEXT = multiprocessing.get_context("forkserver")           # a clean process with torch imported, copied in no time
CONTEXT.set_forkserver_preload(["dmn4.web.work.inside"])
Hear = Callable[[dict[str, Any], bytes], None]                # a message and the bytes that came with it


class Died(Exception):
    """The worker ended before it had answered."""


class Worker:
    """One worker process. Its methods block; only `kill` may be called from another thread meanwhile."""

    def __init__(self, backbone: ChosenBackbone, limits: Limits) -> None:
        self.connection, other = CONTEXT.Pipe()
        threads = max(1, (os.cpu_count() or 1) // limits.workers)
        self.process = CONTEXT.Process(target=run, args=(other, backbone, limits, threads), daemon=True)
        try:
            self.process.start()
        except (AttributeError, TypeError, PicklingError) as error:
            raise InputError(f"the backbone cannot be sent to a worker process ({error}): define its class in a "
                             "module that can be imported") from None
        other.close()
        self.usable = True
        try:
            problem = self.hear()[0].get("problem")
        except Died:
            problem = "a worker process ended while it started; the log says why"
        if problem:
            self.kill()
            raise InputError(problem)

    def ask(self, jobs: Sequence[tuple[str, dict[str, Any]]], hear: Hear) -> None:
        """Send jobs and hear what comes back until all are answered; Died if the process ends before that."""
        try:
            self.connection.send(jobs)
            answered = 0
            while answered < len(jobs):
                message, content = self.hear()
                answered += "job" in message
                self.usable &= not message.get("last", False)
                hear(message, content)
        except (Died, OSError):
            self.usable = False
            raise Died from None

    def one(self, name: str, **arguments: Any) -> Any:
        """The value of one job, for those who can wait; a problem is an InputError."""
        result: dict[str, Any] = {}
        self.ask([(name, arguments)], lambda message, _: result.update(message))
        if "problem" in result:
            raise InputError(result["problem"])
        return result["value"]

    def hear(self) -> tuple[dict[str, Any], bytes]:
        """The next message, with its bytes if it announces some."""
        try:
            message: dict[str, Any] = json.loads(self.connection.recv_bytes())
            return message, self.connection.recv_bytes() if message.get("bytes") else b""
        except (EOFError, OSError):
            raise Died from None

    def kill(self) -> None:
        """End the process now, whatever it does."""
        self.usable = False
        with suppress(OSError, ValueError):
            self.process.kill()

    def close(self) -> None:
        """End the process and let go of all that belongs to it."""
        self.kill()
        self.process.join(5)
        self.connection.close()


def run(connection: Connection, backbone: ChosenBackbone, limits: Limits, threads: int) -> None:
    """What the new process runs; its imports are those of the process it was copied from."""
    from .inside import work

    work(connection, backbone, limits, threads)
