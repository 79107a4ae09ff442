"""Teaching and asking by HTTP, one function a request."""

import asyncio
import secrets
import shutil
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, File, Form, HTTPException, Query, Response, UploadFile
from fastapi.responses import FileResponse

from ... import __version__
from ...errors import InputError
from .. import answers, responses
from ..answers import RULES
from ..limits import check_labels, check_pairs, check_size, read_pictures
from ..responses import classifier_state
from ..sample import fruit_is_there, fruit_sample
from ..service import labels_text
from .dependencies import BINARY, PROBLEMS, By, Labels, Owned, Picture, Pictures, Readable, Serving, Teachable

router = APIRouter(prefix="/api", responses=PROBLEMS)
Numbered = Annotated[int | None, Query(description="the revision that picture numbers are of; 409 if it is another")]
HOUR = {"Cache-Control": "private, max-age=3600"}


@router.get("/about")
async def about(service: Serving, caller: By) -> responses.About:
    """The version, the backbone, the limits, which samples are there, and which classifiers came with the service."""
    return responses.About(version=__version__, backbone=service.backbone.name, rules=list(RULES),
                         limits=asdict(service.limits), samples=["fruit"] if fruit_is_there() else [],
                         hosted=sorted(service.hosted), token=caller.name, lasting=service.store.lasting)


@router.get("/classifiers")
async def list_classifiers(service: Serving, caller: By) -> list[responses.ClassifierState]:
    """All classifiers that are yours or were shared with you, the most recently used first."""
    return [classifier_state(known) for known in await service.all(caller)]


@router.post("/classifiers", status_code=201)
async def create_classifier(service: Serving, caller: By, labels: Labels, pictures: Pictures,
                            wait: bool = True) -> responses.ClassifierState:
    """Learn classes from a few pictures of each. With wait=false the answer comes at once, to be asked again."""
    names = check_labels(labels, service.limits)
    contents = await read_pictures(pictures, service.limits)
    check_pairs(names, contents)
    if len(set(names)) < 2:
        raise InputError("pictures of one class were sent; a classifier needs at least two classes")
    check_size(names, len(names), service.limits)
    known = await service.create(caller, f"learnt {labels_text(names)}", "learn", wait, len(names), pictures=contents,
                                 labels=names)
    return classifier_state(known)


@router.get("/classifiers/{classifier}")
async def get_classifier(known: Readable) -> responses.ClassifierState:
    """A classifier: its classes, or how far its learning is."""
    return classifier_state(known)


@router.delete("/classifiers/{classifier}", status_code=204)
async def delete_classifier(service: Serving, caller: By, known: Owned) -> None:
    """Delete a classifier and its pictures, with all revisions."""
    await service.delete(known, caller)


@router.post("/classifiers/{classifier}/shots", status_code=201)
async def add_shots(service: Serving, caller: By, known: Teachable, labels: Labels,
                    pictures: Pictures) -> responses.ClassifierState:
    """Add pictures of classes that are known, or of new ones."""
    names = check_labels(labels, service.limits)
    contents = await read_pictures(pictures, service.limits)
    check_pairs(names, contents)
    return classifier_state(await service.change(known, caller, f"added {labels_text(names)}", "add", pictures=contents,
                                                 labels=names))


@router.get("/classifiers/{classifier}/shots/{number}", response_class=Response,
         responses={200: {"content": {"image/jpeg": BINARY}}})
async def get_shot(service: Serving, known: Readable, number: int) -> Response:
    """One of the pictures learnt from, as JPEG."""
    content = await service.pool.run("shot", number=number, **await service.source(known))
    return Response(content, media_type="image/jpeg", headers=HOUR)


@router.put("/classifiers/{classifier}/shots/{number}")
async def relabel_shot(service: Serving, caller: By, known: Teachable, number: int, label: Annotated[str, Form()],
                       revision: Numbered = None) -> responses.ClassifierState:
    """Give one of the pictures learnt from another label, of a class that is known or of a new one."""
    name, = check_labels([label], service.limits)
    return classifier_state(await service.change(known, caller, f"picture {number} is {name}", "relabel", number=number,
                                                 label=name, only=revision))


@router.delete("/classifiers/{classifier}/shots/{number}")
async def remove_shot(service: Serving, caller: By, known: Teachable, number: int,
                      revision: Numbered = None) -> responses.ClassifierState:
    """Forget one of the pictures learnt from; those behind it move up by one."""
    return classifier_state(await service.change(known, caller, f"removed picture {number}", "relabel", number=number,
                                                 label=None, only=revision))


@router.post("/classifiers/{classifier}/ruled-out", status_code=201)
async def rule_out(service: Serving, caller: By, known: Teachable, labels: Labels,
                   pictures: Pictures) -> responses.ClassifierState:
    """Teach pictures as what they are not: each label is a class, or "none of these"."""
    names = check_labels(labels, service.limits)
    contents = await read_pictures(pictures, service.limits)
    check_pairs(names, contents)
    return classifier_state(await service.change(known, caller, f"ruled out {labels_text(names)}", "rule_out",
                                                 pictures=contents, labels=names))


@router.get("/classifiers/{classifier}/ruled-out")
async def list_ruled_out(service: Serving, known: Readable) -> list[str]:
    """What each picture that was ruled out is not: a class, or "none of these". Its place is its number."""
    names: list[str] = await service.pool.run("ruled_out", **await service.source(known))
    return names


@router.get("/classifiers/{classifier}/ruled-out/{number}", response_class=Response,
            responses={200: {"content": {"image/jpeg": BINARY}}})
async def get_ruled_out(service: Serving, known: Readable, number: int) -> Response:
    """One of these pictures, as JPEG."""
    content = await service.pool.run("ruled_out_shot", number=number, **await service.source(known))
    return Response(content, media_type="image/jpeg", headers=HOUR)


@router.delete("/classifiers/{classifier}/ruled-out/{number}")
async def take_back(service: Serving, caller: By, known: Teachable, number: int,
                    revision: Numbered = None) -> responses.ClassifierState:
    """Unlearn one of these pictures; those behind it move up by one."""
    return classifier_state(await service.change(known, caller, f"took back ruled out picture {number}", "take_back",
                                                 number=number, only=revision))


@router.get("/classifiers/{classifier}/suspects")
async def list_suspects(service: Serving, known: Readable) -> list[answers.Suspect]:
    """The pictures learnt from that the others would name differently, worst first: labels that may be wrong."""
    suspects = await service.pool.run("suspects", **await service.source(known))
    return [answers.Suspect(**one) for one in suspects]


@router.get("/classifiers/{classifier}/curve")
async def get_curve(service: Serving, known: Readable) -> answers.Curve:
    """Have I labelled enough? Accuracy now and with more labelled pictures, by class, and which are confused."""
    return answers.Curve(**await service.pool.run("curve", **await service.source(known)))


@router.post("/classifiers/{classifier}/suggestions")
async def suggest(service: Serving, known: Readable, pictures: Pictures,
                  count: Annotated[int, Form(ge=1, le=200)] = 10) -> list[int]:
    """Which of these pictures to label next: their places, from 0, the most useful first."""
    contents = await read_pictures(pictures, service.limits)
    places: list[int] = await service.pool.run("suggest", pictures=contents, count=count, **await service.source(known))
    return places


@router.delete("/classifiers/{classifier}/classes/{label:path}")
async def forget_class(service: Serving, caller: By, known: Teachable, label: str) -> responses.ClassifierState:
    """Forget a class and its pictures."""
    await service.source(known)
    if known.revision and label not in known.revision.labels:
        raise HTTPException(404, "there is no such class")
    return classifier_state(await service.change(known, caller, f"forgot {label}", "forget", label=label))


@router.post("/classifiers/{classifier}/predictions", response_model=answers.Prediction)
async def predict(service: Serving, known: Readable, picture: Picture) -> Response:
    """The class of a picture, its probability, and whether it is none of these."""
    content, = await read_pictures([picture], service.limits)
    answer = await service.pool.run("answer", picture=content, why=False, rule=None, **await service.source(known))
    return Response(answer, media_type="application/json")


@router.post("/classifiers/{classifier}/explanations", response_model=answers.Explanation)
async def explain(service: Serving, known: Readable, picture: Picture, rule: answers.Rule | None = None) -> Response:
    """Which patches of a picture count, what they matched and how they vote: by the classifier's method, or a rule.

    The answer holds the prediction as well, so that a picture has to be sent once only.
    """
    content, = await read_pictures([picture], service.limits)
    answer = await service.pool.run("answer", picture=content, why=True, rule=rule, **await service.source(known))
    return Response(answer, media_type="application/json")


@router.get("/classifiers/{classifier}/model", response_class=Response,
         responses={200: {"content": {"application/octet-stream": BINARY}}})
async def download_model(service: Serving, known: Readable) -> Response:
    """The classifier as a *.dmn4 file, for `dmn4 predict` or for another service."""
    path = (await service.source(known))["path"]
    return FileResponse(path, media_type="application/octet-stream", filename="classifier.dmn4")


@router.post("/models", status_code=201)
async def upload_model(service: Serving, caller: By,
                       model: Annotated[UploadFile, File(description="a *.dmn4 file")]) -> responses.ClassifierState:
    """A classifier from a *.dmn4 file that was made with the same backbone."""
    path = service.store.files.scratch / secrets.token_hex(8)
    try:
        with open(path, "wb") as file:
            await asyncio.to_thread(shutil.copyfileobj, model.file, file)
        return classifier_state(await service.create(caller, "uploaded", "open_model", True, 0, path=path))
    finally:
        path.unlink(missing_ok=True)


@router.post("/samples/fruit", status_code=201)
async def create_from_fruit(service: Serving, caller: By, wait: bool = True) -> responses.ClassifierState:
    """A classifier of five kinds of fruit, five photographs each."""
    sample = await asyncio.to_thread(fruit_sample)
    known = await service.create(caller, "learnt the sample of fruit", "learn", wait, len(sample.labels),
                                 pictures=sample.pictures, labels=sample.labels)
    return classifier_state(known)


@router.get("/samples/fruit")
async def list_fruit() -> list[responses.Question]:
    """Further photographs of fruit to ask about; some are of no kind that the sample teaches."""
    sample = await asyncio.to_thread(fruit_sample)
    return [responses.Question(picture=f"/api/samples/fruit/{number}", answer=answer)
            for number, answer in enumerate(sample.answers)]


@router.get("/samples/fruit/{number}", response_class=Response, responses={200: {"content": {"image/jpeg": BINARY}}})
async def get_fruit(number: int) -> Response:
    """One of these photographs, as JPEG."""
    questions = (await asyncio.to_thread(fruit_sample)).questions
    if not 0 <= number < len(questions):
        raise HTTPException(404, f"there is no photograph {number}; the last one is {len(questions) - 1}")
    return Response(questions[number], media_type="image/jpeg", headers=HOUR)
