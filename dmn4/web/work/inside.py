"""The inside of a worker process: it does what it is sent, within its limits, and ends when nobody is left to tell."""

import json
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import psutil
import torch
from fastapi import HTTPException

from ...errors import InputError
from ..backbone import ChosenBackbone
from ..limits import MEGABYTE, Limits
from .problems import Gone, TooLarge, out_of_memory
from .tasks import Tasks

SPARE_SECONDS = 10                                            # after these the system ends work that nobody ended
Job = tuple[str, dict[str, Any]]                              # a method of Tasks, and its arguments


def work(connection: Connection, backbone: ChosenBackbone, limits: Limits, threads: int) -> None:
    """Serve jobs from the connection until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)              # Ctrl-C is for the service, which then ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(threads)
    with suppress(EOFError, OSError):
        try:
            tasks = Tasks(backbone, limits)
        except InputError as error:
            send(connection, {"problem": str(error)})
            return
        limit_memory(limits.worker_bytes)
        send(connection, {"ready": True})
        while do(connection, tasks, limits):
            pass


def do(connection: Connection, tasks: Tasks, limits: Limits) -> bool:
    """Do what is sent next; whether this process can go on afterwards."""
    jobs: Sequence[Job] = connection.recv()
    signal.setitimer(signal.ITIMER_REAL, limits.work_seconds + SPARE_SECONDS)        # the default action ends it
    going_on = True
    for number, outcome in enumerate(outcomes(connection, tasks, jobs)):
        if isinstance(outcome, Exception):
            status, message = problem_of(outcome, limits)
            going_on &= not out_of_memory(outcome)
            send(connection, {"job": number, "status": status, "problem": message, "last": not going_on})
        elif isinstance(outcome, bytes):
            send(connection, {"job": number, "bytes": True})
            connection.send_bytes(outcome)
        else:
            send(connection, {"job": number, "value": outcome})
    signal.setitimer(signal.ITIMER_REAL, 0)
    return going_on


def outcomes(connection: Connection, tasks: Tasks, jobs: Sequence[Job]) -> Iterator[Any]:
    """What comes out of each job: a value, bytes, or an error."""
    if jobs[0][0] == "answer":
        yield from tasks.answer([arguments for _, arguments in jobs])
        return
    for name, arguments in jobs:
        try:
            yield getattr(tasks, name)(lambda done: send(connection, {"done": done}), **arguments)
        except BrokenPipeError:                               # nobody is left to be told
            raise
        except Exception as error:
            yield error


def problem_of(error: Exception, limits: Limits) -> tuple[int, str]:
    """The status and the one line of an error; what nobody foresaw goes to the log."""
    if isinstance(error, InputError):
        return 422, str(error)
    if isinstance(error, TooLarge):
        return 413, str(error)
    if isinstance(error, Gone):
        return 404, str(error)
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if out_of_memory(error):
        return 413, f"this takes more than {limits.worker_bytes // MEGABYTE:,} MB of memory; send less"
    traceback.print_exception(error, file=sys.stderr)
    return 500, "the service made a mistake; its log says more"


def limit_memory(more: int) -> None:
    """Let this process have so many bytes more than it has now; where the system cannot, do nothing."""
    if psutil.LINUX:                                          # elsewhere the limit leaves out what is mapped
        import resource

        most = psutil.Process().memory_info().data + more
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def send(connection: Connection, message: dict[str, Any]) -> None:
    """Tell the service something. JSON, not a pickle: a worker that was taken over must not take over the service."""
    connection.send_bytes(json.dumps(message).encode())
