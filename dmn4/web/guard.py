"""What stands before every request: for which host, by whom, how large, how slow, how many at once."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .authentication import Authentication
from .limits import Limits

LOOPBACK = ("127.0.0.1", "localhost", "::1")
POLICY = "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
SOON = {"Retry-After": "2"}
BODILESS = ("GET", "HEAD", "DELETE")                           # their bodies are not read


def problem(status: int, message: str) -> JSONResponse:
    """Every refusal looks like this."""
    headers = SOON if status in (429, 503) else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": message}, status, headers)


class Guard:
    """Refuses strange hosts, other sites, strangers, bodies that are too large or too slow, and more than can be held.

    `hosts` are the names under which the service may be called, None for any: a site that points its own name at a
    loopback address is refused. A page of another site can send a form without asking, so its Origin is refused too.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Collection[str] | None = LOOPBACK,
                 authentication: Authentication | None = None) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts
        self.authentication = authentication
        self.running = 0
        self.clients: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send = with_headers(send)
        refused = self.refuse(Headers(scope=scope)) or await self.authenticate(scope)
        client = client_of(scope)
        if refused is None and self.clients[client] >= self.limits.client_requests:
            refused = problem(429, f"{self.clients[client]} of your requests are being served; try again in a moment")
        if refused is not None:
            await refused(scope, receive, send)
            return
        self.running += 1
        self.clients[client] += 1
        try:
            await until_gone(self.app, scope, self.measured(receive), send)
        finally:
            self.running -= 1
            self.clients[client] -= 1
            self.clients += Counter()                         # forgets who is at zero

    def refuse(self, headers: Headers) -> JSONResponse | None:
        """The answer to a request that goes no further whoever makes it, or None."""
        host, origin, length = headers.get("host", ""), headers.get("origin"), headers.get("content-length", "0")
        if sum(len(name) + len(value) for name, value in headers.raw) > self.limits.header_bytes:
            return problem(431, f"the headers have more than {self.limits.header_bytes} bytes")
        if self.hosts is not None and hostname(host) not in self.hosts:
            return problem(403, "this service is not called by that name; use the address that `dmn4 serve` printed")
        if origin is not None and netloc(origin) != host:
            return problem(403, "requests from the pages of other sites are refused")
        if self.running >= self.limits.requests:
            return problem(503, f"{self.running} requests are being served; try again in a moment")
        if not length.isdecimal() or len(length) > 20 or int(length) > self.limits.request_bytes:
            return problem(413, f"the request has {length[:20]} bytes; {self.limits.request_bytes} are the most")
        return None

    async def authenticate(self, scope: Scope) -> JSONResponse | None:
        """The answer to a stranger, or None: then the scope says who makes the request."""
        try:
            if self.authentication is not None:
                scope.setdefault("state", {})["caller"] = await self.authentication.caller(scope)
            return None
        except HTTPException as error:
            return problem(error.status_code, str(error.detail))

    def measured(self, receive: Receive) -> Receive:
        """The same request, cut off when its body becomes too large, or does not keep up the least rate."""
        start, came, done = asyncio.get_running_loop().time(), 0, False

        async def next_part() -> Message:
            nonlocal came, done
            if done:
                return await receive()
            seconds = min(self.limits.upload_seconds, 5 + came / self.limits.upload_rate)
            try:
                async with asyncio.timeout_at(start + seconds):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the upload took over {seconds:g} seconds") from None
            came, done = came + len(message.get("body", b"")), not message.get("more_body", False)
            if came > self.limits.request_bytes:
                raise HTTPException(413, f"the request is larger than {self.limits.request_bytes} bytes")
            return message

        return next_part


async def until_gone(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application; once the client has gone away, what it does for this request is stopped."""
    read = asyncio.Event()
    if scope.get("method") in BODILESS:
        read.set()

    async def listen() -> Message:
        message = await receive()
        if not message.get("more_body", False):
            read.set()
        return message

    async def watch() -> None:
        await read.wait()
        with suppress(HTTPException):                         # a body that nobody asked for, and too large
            while (await receive())["type"] != "http.disconnect":
                pass

    answering, gone = asyncio.ensure_future(app(scope, listen, send)), asyncio.ensure_future(watch())
    try:
        await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
        await answering
    except asyncio.CancelledError:
        if not gone.done():                                   # the service itself is ending
            raise
    finally:
        answering.cancel()
        gone.cancel()


def client_of(scope: Scope) -> str:
    """What tells one client from another: the token, or else the address."""
    caller = scope.get("state", {}).get("caller")
    return caller.token.id if caller is not None and caller.token is not None else (scope.get("client") or ("",))[0]


def hostname(host: str) -> str | None:
    """The name in a Host header, without the port; None if it is none."""
    match = HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else None


def netloc(origin: str) -> str:
    """The host and port in an Origin header; nothing if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def with_headers(send: Send) -> Send:
    """Answers with the headers that keep browsers from trusting them too much."""
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return send_more
