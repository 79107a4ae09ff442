"""The HTTP interface, one function a request."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, HTTPException, Request, Response, UploadFile

from .. import __version__
from ..classify.classifier import FewShotClassifier
from ..data.samples import fruit_file
from ..errors import InputError
from . import answers
from .answers import as_prediction, classifier_state
from .engine import RULES
from .limits import check_labels, check_size, read_pictures
from .sample import fruit_sample
from .service import Service
from .store import Entry

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": answers.Problem, "description": text} for status, text in {
        400: "the request cannot be read", 403: "another host or site", 404: "no such thing", 408: "too slow",
        409: "still learning, learning failed, or it stays", 413: "beyond a limit", 422: "a mistake in what was sent",
        500: "a mistake of the service", 503: "too busy, try again", 504: "took too long"}.items()}
BINARY = {"schema": {"type": "string", "format": "binary"}}

Labels = Annotated[list[str], Form(description="the class of each picture, in the same order")]
Pictures = Annotated[list[UploadFile], File(description="JPEG, PNG, WebP, BMP, GIF or TIFF")]
Picture = Annotated[UploadFile, File(description="JPEG, PNG, WebP, BMP, GIF or TIFF")]


async def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service: Service = request.app.state.service
    return service


Serving = Annotated[Service, Depends(service_of)]


async def entry_of(service: Serving, classifier: str) -> Entry:
    """The classifier that a path names."""
    return service.store.find(classifier)


Named = Annotated[Entry, Depends(entry_of)]
api = APIRouter(prefix="/api", responses=PROBLEMS)


@api.get("/about")
async def about(service: Serving) -> answers.About:
    """The version, the backbone, the limits, which samples are there, and which classifiers came with the service."""
    return answers.About(version=__version__, backbone=service.engine.backbone, rules=list(RULES),
                         limits=asdict(service.limits), samples=["fruit"] if fruit_file().is_file() else [],
                         hosted=sorted(entry.id for entry in service.store if entry.stays))


@api.get("/classifiers")
async def list_classifiers(service: Serving) -> list[answers.ClassifierState]:
    """All classifiers, the most recently used first."""
    return [classifier_state(entry) for entry in service.store]


@api.post("/classifiers", status_code=201)
async def create_classifier(service: Serving, labels: Labels, pictures: Pictures,
                            wait: bool = True) -> answers.ClassifierState:
    """Learn classes from a few pictures of each. With wait=false the answer comes at once, to be asked again."""
    names = check_labels(labels, service.limits)
    contents = await read_pictures(pictures, service.limits)
    check_pairs(names, contents)
    if len(set(names)) < 2:
        raise InputError("pictures of one class were sent; a classifier needs at least two classes")
    return classifier_state(await service.create(contents, names, wait))


@api.get("/classifiers/{classifier}")
async def get_classifier(entry: Named) -> answers.ClassifierState:
    """A classifier: its classes, or how far its learning is."""
    return classifier_state(entry)


@api.delete("/classifiers/{classifier}", status_code=204)
async def delete_classifier(service: Serving, entry: Named) -> None:
    """Delete a classifier and its pictures."""
    if entry.stays:
        raise HTTPException(409, "this classifier came with the service and stays as long as it runs")
    service.store.drop(entry)


@api.post("/classifiers/{classifier}/shots", status_code=201)
async def add_shots(service: Serving, entry: Named, labels: Labels, pictures: Pictures) -> answers.ClassifierState:
    """Add pictures of classes that are known, or of new ones."""
    entry.learnt()
    names = check_labels(labels, service.limits)
    contents = await read_pictures(pictures, service.limits)
    check_pairs(names, contents)

    def grow(images: Iterator[bytes]) -> FewShotClassifier:
        known = entry.learnt()                                # as the change before this one left it
        check_size(len({*known.classes_.tolist(), *names}), len(known.pictures_) + len(names), service.limits)
        return service.engine.add(known, images, names)

    return classifier_state(await service.change(entry, contents, grow))


@api.get("/classifiers/{classifier}/shots/{number}", response_class=Response,
         responses={200: {"content": {"image/jpeg": BINARY}}})
async def get_shot(entry: Named, number: int) -> Response:
    """One of the pictures learnt from, as JPEG."""
    pictures = entry.learnt().pictures_
    if not 0 <= number < len(pictures):
        raise HTTPException(404, f"there is no picture {number}; the last one is {len(pictures) - 1}")
    return Response(pictures[number], media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})


@api.delete("/classifiers/{classifier}/classes/{label:path}")
async def forget_class(service: Serving, entry: Named, label: str) -> answers.ClassifierState:
    """Forget a class and its pictures."""
    if label not in entry.learnt().classes_.tolist():
        raise HTTPException(404, "there is no such class")
    return classifier_state(await service.change(entry, [], lambda _: service.engine.forget(entry.learnt(), label)))


@api.post("/classifiers/{classifier}/predictions")
async def predict(service: Serving, entry: Named, picture: Picture) -> answers.Prediction:
    """The class of a picture, its probability, and whether it is none of these."""
    classifier = entry.learnt()
    content, = await read_pictures([picture], service.limits)
    judged = await service.workers.run(service.engine.judge, classifier, content)
    return as_prediction(classifier.classes_.tolist(), judged)


@api.post("/classifiers/{classifier}/explanations")
async def explain(service: Serving, entry: Named, picture: Picture,
                  rule: answers.Rule | None = None) -> answers.Explanation:
    """Which patches of a picture count, what they matched and how they vote: by the classifier's method, or a rule."""
    classifier = entry.learnt()
    content, = await read_pictures([picture], service.limits)
    found = await service.workers.run(service.engine.explain, classifier, content, rule)
    return answers.Explanation.model_validate(found.to_json())


@api.get("/classifiers/{classifier}/model", response_class=Response,
         responses={200: {"content": {"application/octet-stream": BINARY}}})
async def download_model(service: Serving, entry: Named) -> Response:
    """The classifier as a *.dmn4 file, for `dmn4 predict` or for another service."""
    content = await service.workers.run(service.engine.model_file, entry.learnt())
    return Response(content, media_type="application/octet-stream",
                    headers={"Content-Disposition": 'attachment; filename="classifier.dmn4"'})


@api.post("/models", status_code=201)
async def upload_model(service: Serving, model: Annotated[UploadFile, File(description="a *.dmn4 file")],
                       ) -> answers.ClassifierState:
    """A classifier from a *.dmn4 file that was made with the same backbone."""
    classifier = await service.workers.run(service.engine.open_model, await model.read())
    check_labels(classifier.classes_.tolist(), service.limits)
    check_size(len(classifier.classes_), len(classifier.pictures_), service.limits)
    return classifier_state(service.store.add(Entry(classifier=classifier)))


@api.post("/samples/fruit", status_code=201)
async def create_from_fruit(service: Serving, wait: bool = True) -> answers.ClassifierState:
    """A classifier of five kinds of fruit, five photographs each."""
    sample = await service.workers.run(fruit_sample)
    return classifier_state(await service.create(sample.pictures, sample.labels, wait))


@api.get("/samples/fruit")
async def list_fruit(service: Serving) -> list[answers.Question]:
    """Further photographs of fruit to ask about; some are of no kind that the sample teaches."""
    sample = await service.workers.run(fruit_sample)
    return [answers.Question(picture=f"/api/samples/fruit/{number}", answer=answer)
            for number, answer in enumerate(sample.answers)]


@api.get("/samples/fruit/{number}", response_class=Response, responses={200: {"content": {"image/jpeg": BINARY}}})
async def get_fruit(service: Serving, number: int) -> Response:
    """One of these photographs, as JPEG."""
    questions = (await service.workers.run(fruit_sample)).questions
    if not 0 <= number < len(questions):
        raise HTTPException(404, f"there is no photograph {number}; the last one is {len(questions) - 1}")
    return Response(questions[number], media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})


def check_pairs(labels: list[str], pictures: list[bytes]) -> None:
    """Refuse labels and pictures that are not as many."""
    if len(labels) != len(pictures):
        raise InputError(f"{len(labels)} labels were sent for {len(pictures)} pictures; one each is needed")
