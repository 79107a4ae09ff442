"""The service as a process: its address, its threads, its end."""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import uvicorn

from ..errors import InputError
from .app import create_app
from .engine import Engine
from .guard import LOOPBACK
from .limits import Limits


def serve(models: Iterable[Path] = (), host: str = "127.0.0.1", port: int = 8000, backbone: str = "efficientnet_lite0",
          weights: str | None = None, limits: Limits | None = None, tell: Callable[[str], None] = print) -> None:
    """Serve the page, the HTTP interface and the classifiers of these files until interrupted; `tell` hears where."""
    limits = limits or Limits()
    listener = listen(host, port)
    try:
        app = create_app(Engine(backbone, weights), limits, LOOPBACK if is_loopback(host) else None)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, proxy_headers=False)
        hosted = [app.state.service.host(path) for path in models]
        tell(f"dmn4 serves http://{shown(host)}:{listener.getsockname()[1]}  (stop with Ctrl-C)")
        for entry in hosted:
            tell(f"  {', '.join(entry.learnt().classes_[:5])}{' ...' * (len(entry.learnt().classes_) > 5)}: "
                 f"/api/classifiers/{entry.id}")
        if not is_loopback(host):
            tell("anyone who reaches this address can use it and see every classifier: there are no accounts")
        with suppress(KeyboardInterrupt):                     # Ctrl-C is how it is meant to end
            uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()


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
