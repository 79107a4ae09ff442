"""What the functions of the interface are given: the service, who asks, the classifier that a path names."""

from typing import Annotated, Any

from fastapi import Depends, File, Form, Request, UploadFile

from .. import responses
from ..service import Service
from ..store import Access, Caller, Classifier

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": responses.Problem, "description": text} for status, text in {
        400: "the request cannot be read", 401: "a token is needed", 403: "another host or site, or not yours",
        404: "no such thing", 408: "too slow", 409: "still learning, failed, or it stays", 413: "beyond a limit",
        422: "a mistake in what was sent", 429: "too many requests at once, try again", 431: "headers beyond a limit",
        500: "a mistake of the service", 503: "too busy, try again", 504: "took too long and was stopped"}.items()}
BINARY = {"schema": {"type": "string", "format": "binary"}}

Labels = Annotated[list[str], Form(description="the class of each picture, in the same order")]
Pictures = Annotated[list[UploadFile], File(description="JPEG, PNG, WebP, BMP, GIF or TIFF")]
Picture = Annotated[UploadFile, File(description="JPEG, PNG, WebP, BMP, GIF or TIFF")]


async def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service: Service = request.app.state.service
    return service


async def caller_of(request: Request) -> Caller:
    """Who makes a request, as the token told."""
    caller: Caller = request.state.caller
    return caller


Serving = Annotated[Service, Depends(service_of)]
By = Annotated[Caller, Depends(caller_of)]


async def readable(service: Serving, caller: By, classifier: str) -> Classifier:
    """The classifier that a path names, to be asked."""
    return await service.find(classifier, caller)


async def teachable(service: Serving, caller: By, classifier: str) -> Classifier:
    """The classifier that a path names, to be taught."""
    return await service.find(classifier, caller, Access.TEACH)


async def owned(service: Serving, caller: By, classifier: str) -> Classifier:
    """The classifier that a path names, for its owner."""
    return await service.find(classifier, caller, Access.OWN)


Readable = Annotated[Classifier, Depends(readable)]
Teachable = Annotated[Classifier, Depends(teachable)]
Owned = Annotated[Classifier, Depends(owned)]
