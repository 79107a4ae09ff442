"""Revisions, sharing, the session of the page and the audit log by HTTP."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Form, HTTPException, Request, Response

from .. import responses
from ..authentication import COOKIE, token_in
from ..responses import as_change, classifier_state
from ..store import Classifier
from .dependencies import PROBLEMS, By, Owned, Readable, Serving, Teachable

router = APIRouter(prefix="/api", responses=PROBLEMS)
MONTH = 30 * 24 * 3600


@router.get("/classifiers/{classifier}/revisions")
async def list_revisions(service: Serving, known: Readable) -> list[responses.Change]:
    """The changes of a classifier that can be gone back to, the newest first."""
    if known.revision and known.hosted:
        return [as_change(known.revision)]
    return [as_change(change) for change in await asyncio.to_thread(service.store.classifiers.revisions, known.id)]


@router.post("/classifiers/{classifier}/revisions/{number}", status_code=201)
async def go_back(service: Serving, caller: By, known: Teachable, number: int) -> responses.ClassifierState:
    """Go back to a revision: the classifier answers as it did then. That is a change as well, and can be undone."""
    check_own(known)
    await asyncio.to_thread(service.store.restore, known, number, caller)
    return classifier_state(await service.find(known.id, caller))


@router.get("/classifiers/{classifier}/shares")
async def list_shares(service: Serving, known: Owned) -> list[responses.Share]:
    """The tokens that may use a classifier beside its owner's."""
    shared = await asyncio.to_thread(service.store.classifiers.shared_with, known.id)
    return [responses.Share(token=name, may="teach" if teach else "read") for name, teach in shared]


@router.put("/classifiers/{classifier}/shares/{token}")
async def share(service: Serving, caller: By, known: Owned, token: str,
                may: Annotated[Literal["read", "teach"], Form()] = "read") -> responses.Share:
    """Let another token ask a classifier, or ask and teach it."""
    check_own(known)
    await asyncio.to_thread(service.store.classifiers.share, known.id, token, may == "teach")
    await asyncio.to_thread(service.store.note, f"shared with {token} to {may}", caller, known.id)
    return responses.Share(token=token, may=may)


@router.delete("/classifiers/{classifier}/shares/{token}", status_code=204)
async def unshare(service: Serving, caller: By, known: Owned, token: str) -> None:
    """Take a classifier back from another token."""
    check_own(known)
    await asyncio.to_thread(service.store.classifiers.share, known.id, token, None)
    await asyncio.to_thread(service.store.note, f"no longer shared with {token}", caller, known.id)


@router.post("/session")
async def begin_session(request: Request, caller: By, response: Response) -> responses.Session:
    """Keep the token of this request in a cookie that scripts cannot read; the page does this once."""
    token = token_in(request.headers)
    if token is not None and caller.token is not None:
        secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        response.set_cookie(COOKIE, token, max_age=MONTH, httponly=True, samesite="strict", secure=secure)
    return responses.Session(token=caller.name, admin=caller.admin)


@router.delete("/session", status_code=204)
async def end_session(response: Response) -> None:
    """Forget the token in the cookie."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


@router.get("/audit")
async def audit_log(service: Serving, caller: By) -> list[responses.Event]:
    """Who changed what, when, from where: the newest thousand changes, for admins."""
    if not caller.admin:
        raise HTTPException(403, "the audit log is for tokens that were made with --admin")
    return [responses.Event(**line) for line in await asyncio.to_thread(service.store.log)]


def check_own(known: Classifier) -> None:
    """Refuse to change what came with the service."""
    if known.hosted:
        raise HTTPException(409, "this classifier came with the service and stays as it is")
