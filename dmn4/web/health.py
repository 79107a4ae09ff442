"""What machines ask: is the process alive, can it be sent requests, and its counters."""

import asyncio

from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST

from . import answers
from .asking import PROBLEMS, By, Serving
from .watch import Metrics

health = APIRouter(responses=PROBLEMS)


@health.get("/healthz")
async def healthz() -> answers.Health:
    """The process is alive."""
    return answers.Health(status="alive")


@health.get("/readyz")
async def readyz(service: Serving) -> answers.Health:
    """The service can be sent requests: its store answers, and it is not ending."""
    if service.ending:
        raise HTTPException(503, "the service is ending")
    if not await asyncio.to_thread(service.store.alive):
        raise HTTPException(503, "the store does not answer")
    return answers.Health(status="ready")


def add_metrics(metrics: Metrics) -> APIRouter:
    """The route of these metrics."""
    router = APIRouter(responses=PROBLEMS)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def get_metrics(service: Serving, caller: By) -> Response:
        """Counters and times for Prometheus; for admins."""
        if not caller.admin:
            raise HTTPException(403, "metrics are for tokens that were made with --admin")
        count = await asyncio.to_thread(service.store.classifiers.count)
        return Response(metrics.text(count), media_type=CONTENT_TYPE_LATEST)

    return router
