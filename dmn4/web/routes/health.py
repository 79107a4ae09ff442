"""What machines ask: is the process alive, can it be sent requests, and its counters."""

import asyncio

from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST

from .. import responses
from ..monitoring import Metrics
from .dependencies import PROBLEMS, By, Serving

router = APIRouter(responses=PROBLEMS)


@router.get("/healthz")
async def healthz() -> responses.Health:
    """The process is alive."""
    return responses.Health(status="alive")


@router.get("/readyz")
async def readyz(service: Serving) -> responses.Health:
    """The service can be sent requests: its store answers, and it is not ending."""
    if service.deadline is not None:
        raise HTTPException(503, "the service is ending")
    if not await asyncio.to_thread(service.store.alive):
        raise HTTPException(503, "the store does not answer")
    return responses.Health(status="ready")


def add_metrics(metrics: Metrics) -> APIRouter:
    """The route of these metrics."""
    metered = APIRouter(responses=PROBLEMS)

    @metered.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def get_metrics(service: Serving, caller: By) -> Response:
        """Counters and times for Prometheus; for admins."""
        if not caller.admin:
            raise HTTPException(403, "metrics are for tokens that were made with --admin")
        count = await asyncio.to_thread(service.store.classifiers.count)
        return Response(metrics.text(count), media_type=CONTENT_TYPE_LATEST)

    return metered
