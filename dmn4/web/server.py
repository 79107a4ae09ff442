"""The service as a process: its address, its store, its end."""

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import InputError
from .app import create_app
from .backbone import USUAL, ChosenBackbone
from .guard import LOOPBACK
from .limits import Limits
from .monitoring import LOG
from .service import Service
from .store import Store

HEADER_SECONDS = 10.0                                         # for the headers of a request


class PatientProtocol(H11Protocol):
    """HTTP for clients that come to the point: a connection on which the headers of a request take long is closed."""

    patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self.wait_for_headers()

    def data_received(self, data: bytes) -> None:
        """Take what came; if that does not complete the headers of a request, wait for them."""
        super().data_received(data)
        if self.serves:
            self.stop_waiting()
        else:
            self.wait_for_headers()

    @property
    def serves(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def wait_for_headers(self) -> None:
        """Close the connection after a while, from the first byte that asks for nothing yet."""
        if self.patience is None:
            self.patience = self.loop.call_later(HEADER_SECONDS, self.lose_patience)

    def stop_waiting(self) -> None:
        """Whoever asks may wait for the answer."""
        if self.patience is not None:
            self.patience.cancel()
            self.patience = None

    def lose_patience(self) -> None:
        """Close the connection if no request came of it."""
        self.patience = None
        if not self.serves and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.stop_waiting()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """Requests and the learning behind them share the seconds that are left when it is told to end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: what learns and what answers have their last seconds at the same time."""
        self.service.begin_to_end()
        await super().shutdown(sockets)


def serve(models: Iterable[Path] = (), host: str = "127.0.0.1", port: int = 8000, backbone: str | None = None,
          weights: str | None = None, limits: Limits | None = None, tell: Callable[[str], None] = print, *,
          store: str | None = None, files: str | None = None, is_open: bool = False, log: Path | None = None) -> None:
    """Serve the page, the HTTP interface and the classifiers of these files until interrupted; `tell` hears where.

    Without a backbone it is the one that the first of the files was made with.
    """
    limits, models = limits or Limits(), list(models)
    chosen = ChosenBackbone.of_model(models[0]) if models and not backbone else ChosenBackbone(backbone or USUAL)
    weights = weights or chosen.weights
    end_alike()
    kept = Store(store, files, limits)
    try:
        check_access(kept, host, is_open)
        with listen(host, port) as listener:
            app = create_app(chosen.source, limits, LOOPBACK if is_loopback(host) else None, kept,
                             is_open or is_loopback(host), weights)
            service = app.state.service
            service.pool.start()                              # says what is wrong with the backbone before anybody asks
            hosted = [service.host(path) for path in models]
            log_access(log, store is not None)
            tell(f"dmn4 serves http://{shown(host)}:{listener.getsockname()[1]}  (stop with Ctrl-C)")
            for known in hosted:
                labels = known.revision.labels if known.revision else []
                tell(f"  {', '.join(labels[:5])}{' ...' * (len(labels) > 5)}: /api/classifiers/{known.id}")
            for line in notes(kept, store, host):
                tell(line)
            config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False,
                                    proxy_headers=False, http=PatientProtocol, timeout_graceful_shutdown=round(
                                        limits.drain_seconds + 1), h11_max_incomplete_event_size=limits.header_bytes)
            with suppress(KeyboardInterrupt):                 # how it is meant to end
                Server(config, service).run(sockets=[listener])
    finally:
        kept.close()


def end_alike() -> None:
    """Have SIGTERM end this process as Ctrl-C does, so that what is temporary is removed."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def notes(store: Store, place: str | None, host: str) -> Iterable[str]:
    """What who starts the service should know about it."""
    if place is None:
        yield "classifiers end with this process: --store FOLDER keeps them"
    if not store.tokens.exist() and not is_loopback(host):
        yield "anyone who reaches this address can use it and see every classifier: there are no tokens"


def check_access(store: Store, host: str, is_open: bool) -> None:
    """Refuse to let in everybody unless that was said."""
    if not is_open and not is_loopback(host) and not store.tokens.exist():
        raise InputError(f"{host} can be reached from other machines, and there are no tokens: make one with "
                         "`dmn4 token add NAME --store PLACE` and serve that store, or let everybody in with --open")


def log_access(path: Path | None, by_itself: bool) -> None:
    """A line of JSON for every request: to a file, or for a service with a store to stderr."""
    if path is None and not by_itself:
        return
    try:
        handler = logging.StreamHandler(sys.stderr) if path is None else logging.FileHandler(path)
    except OSError as error:
        raise InputError(f"cannot write the log {str(path)!r}: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one. An address that cannot be had is an InputError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen on {host!r}, port {port}: {error.strerror or error}; try --port 0") from None
    return listener


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def shown(host: str) -> str:
    """An address as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
