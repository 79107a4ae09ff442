"""Computing beside the event loop: a few threads, a short queue, and an end to waiting."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import HTTPException

from .limits import Limits

Result = TypeVar("Result")


class Workers:
    """Runs functions in a few threads; refuses more work than it will get round to."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.threads = ThreadPoolExecutor(limits.workers)
        self.places = threading.BoundedSemaphore(limits.workers + limits.waiting)

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """What the function returns; 503 if the queue is full, 504 if it takes too long."""
        if not self.places.acquire(blocking=False):
            raise HTTPException(503, "all workers are busy and the queue is full; try again in a moment")
        future = self.threads.submit(function, *arguments)
        future.add_done_callback(lambda _: self.places.release())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.work_seconds)
        except TimeoutError:
            raise HTTPException(504, f"not done after {self.limits.work_seconds:g} seconds; send less") from None

    def close(self) -> None:
        """Finish what runs, drop what waits; new threads are there if the application starts again."""
        self.threads.shutdown(cancel_futures=True)
        self.threads = ThreadPoolExecutor(self.limits.workers)
