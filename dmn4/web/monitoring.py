"""What the operator sees: a number for every request, a line in the log, counters and times for Prometheus."""

import json
import logging
import re
import secrets
import time
from datetime import UTC, datetime
from typing import Any

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .service import Service

LOG = logging.getLogger("dmn4.access")
NUMBER = re.compile(r"[\w.-]{1,64}", re.ASCII)
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counters of one service."""

    def __init__(self, service: Service) -> None:
        self.service, self.registry = service, CollectorRegistry()
        self.requests = Counter("dmn4_requests", "Requests answered.", ("method", "route", "status"),
                                registry=self.registry)
        self.seconds = Histogram("dmn4_request_seconds", "Seconds from the first byte of a request to the last of its "
                                 "answer.", ("route",), buckets=BUCKETS, registry=self.registry)
        pool = service.pool
        self.gauge("dmn4_waiting", "Pieces of work that wait for a worker.", lambda: len(pool.waiting))
        self.gauge("dmn4_working", "Workers at work.", lambda: len(pool.running))
        self.gauge("dmn4_pictures_answered", "Pictures that went through the network for answers.",
                   lambda: pool.counts.pictures)
        self.gauge("dmn4_batches", "Batches in which they went.", lambda: pool.counts.batches)
        self.gauge("dmn4_workers_died", "Workers that did not survive their work.", lambda: pool.counts.killed)
        self.gauge("dmn4_learning", "Classifiers that are learning here.", lambda: len(service.learning))
        self.classifiers = Gauge("dmn4_classifiers", "Classifiers in the store.", registry=self.registry)
        self.memory = Gauge("dmn4_memory_bytes", "Resident memory of the service and of its workers together.",
                            ("process",), registry=self.registry)

    def gauge(self, name: str, text: str, value: Any) -> None:
        """A number that is looked up when it is asked for."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def text(self, classifiers: int) -> bytes:
        """All of them as Prometheus reads them."""
        self.classifiers.set(classifiers)
        workers = [worker.process.pid for worker in self.service.pool.workers()]
        self.memory.labels("service").set(resident())
        self.memory.labels("workers").set(sum(resident(number) for number in workers))
        return generate_latest(self.registry)


class Monitoring:
    """Numbers requests, measures and logs them; the outermost layer."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        number = given if NUMBER.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request"] = number
        start, status, size = time.perf_counter(), 499, 0     # 499: the client went away before it was answered

        async def count(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = number
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, count)
        finally:
            self.note(scope, status, size, time.perf_counter() - start)

    def note(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Count a request that was answered and log it."""
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD") else "other"
        self.metrics.requests.labels(method, route, status).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if LOG.isEnabledFor(logging.INFO):
            caller = scope["state"].get("caller")
            LOG.info(json.dumps({
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"), "request": scope["state"]["request"],
                "address": (scope.get("client") or ("",))[0], "token": caller.name if caller else None,
                "method": scope["method"], "path": scope["path"], "status": status, "bytes": size,
                "ms": round(seconds * 1e3, 1)}))


def resident(process: int | None = None) -> int:
    """Resident bytes of a process, or of this one; 0 if it is gone or the system does not say."""
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0
