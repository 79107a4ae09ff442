"""A share of the blocks for every core, so that a block is made and read in one cache."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


def share_out(work: Callable[[Tensor, Tensor], Result], blocks: Sequence[Tensor], room: int) -> list[Result]:
    """`work` on every block and a room of so many numbers, which it may overwrite; without a graph, in order.

    On a CPU each of torch's threads takes whole blocks. Were all threads to join in on each of them, half of a product
    would lie in the other core's cache when it is read: a second thread would gain next to nothing.
    """
    threads = 1 if blocks[0].is_cuda else min(torch.get_num_threads(), len(blocks))
    rooms = [blocks[0].new_empty(room) for _ in range(threads)]
    inference = torch.is_inference_mode_enabled()      # each thread has a mode of its own

    def guarded(block: Tensor) -> Result:
        mine = rooms.pop()
        try:
            with torch.inference_mode(inference), torch.no_grad():
                return work(block, mine)
        finally:
            rooms.append(mine)

    return list(map(guarded, blocks) if threads == 1 else crew(torch.get_num_threads()).map(guarded, blocks))


@cache
def crew(threads: int) -> ThreadPoolExecutor:
    """So many threads that do their arithmetic alone."""
    pool, everyone = ThreadPoolExecutor(threads), Barrier(threads)

    def settle_in(_: int) -> None:
        torch.get_num_threads()         # torch fixes a thread's default at its first query, so query before overriding
        torch.set_num_threads(1)
        everyone.wait()                 # so that nobody settles in twice

    list(pool.map(settle_in, range(threads)))
    torch.set_num_threads(threads)      # new threads begin with what was set last, so set what was there before
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=crew.cache_clear)        # a fork has none of its parent's threads
