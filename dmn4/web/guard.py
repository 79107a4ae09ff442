"""What stands before every request: whose it is, how large, how slow, how many at once."""

import asyncio
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import Limits

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def problem(status: int, message: str) -> JSONResponse:
    """Every refusal looks like this."""
    return JSONResponse({"error": message}, status, {"Retry-After": "2"} if status == 503 else None)


class Guard:
    """Refuses strange hosts, other sites, bodies that are too large or too slow, and more requests than can be held.

    `hosts` are the names under which the service may be called, None for any: a site that points its own name at a
    loopback address is refused. A page of another site can send a form without asking, so its Origin is refused too.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Collection[str] | None = LOOPBACK) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self.refuse(Headers(scope=scope))
        self.running += 1
        try:
            await (refused or self.app)(scope, self.measured(receive), with_headers(send))
        finally:
            self.running -= 1

    def refuse(self, headers: Headers) -> JSONResponse | None:
        """The answer to a request that goes no further, or None."""
        host, origin, length = headers.get("host", ""), headers.get("origin"), headers.get("content-length", "0")
        if self.hosts is not None and hostname(host) not in self.hosts:
            return problem(403, "this service is not called by that name; use the address that `dmn4 serve` printed")
        if origin is not None and netloc(origin) != host:
            return problem(403, "requests from the pages of other sites are refused")
        if self.running >= self.limits.requests:
            return problem(503, f"{self.running} requests are being served; try again in a moment")
        if not length.isdecimal() or int(length) > self.limits.request_bytes:
            return problem(413, f"the request has {length[:20]} bytes; {self.limits.request_bytes} are the most")
        return None

    def measured(self, receive: Receive) -> Receive:
        """The same request, cut off when its body becomes too large or takes too long."""
        end = time.monotonic() + self.limits.upload_seconds
        left, done = self.limits.request_bytes, False

        async def next_part() -> Message:
            nonlocal left, done
            if done:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
            except TimeoutError:
                raise HTTPException(408, f"the upload took over {self.limits.upload_seconds:g} seconds") from None
            left, done = left - len(message.get("body", b"")), not message.get("more_body", False)
            if left < 0:
                raise HTTPException(413, f"the request is larger than {self.limits.request_bytes} bytes")
            return message

        return next_part


def hostname(host: str) -> str | None:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


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
