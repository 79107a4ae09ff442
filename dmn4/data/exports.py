"""Labels as labelling tools export them: Label Studio (JSON), FiftyOne (JSON), CVAT for images (XML); and tables."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from ..errors import InputError
from ..files import read_text
from ..images import SUFFIXES
from .tables import read_pairs

BESIDE = ("", "images", "data")                               # folders beside an export in which its pictures lie
UPLOADED = re.compile(r"^[0-9a-f]{8}-")                       # what Label Studio puts before the name of an upload


def read_labels(path: Path) -> list[tuple[str, str]]:
    """Picture and class of each labelled picture; of several classes of a picture the first."""
    if path.suffix.lower() == ".xml":
        return list(from_cvat(path))
    return list(from_json(path)) if path.suffix.lower() == ".json" else read_pairs(path)


def from_json(path: Path) -> Iterator[tuple[str, str]]:
    """The same of a list of tasks of Label Studio, or of the labels.json of a FiftyOneImageClassificationDataset."""
    try:
        content = json.loads(read_text(path, "utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot read {str(path)!r} as JSON: {error}") from None
    try:
        yield from from_fiftyone(content) if isinstance(content, dict) else from_label_studio(content)
    except (AttributeError, IndexError, KeyError, TypeError, StopIteration):
        raise InputError(f"{str(path)!r} is neither an export of Label Studio (JSON or JSON-MIN, with choices of an "
                         "image) nor a labels.json of FiftyOne") from None


def from_fiftyone(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """{"classes": [...], "labels": {picture: place, name, or null}}."""
    classes: list[str] = content.get("classes") or []
    for name, label in content["labels"].items():
        one = label[0] if isinstance(label, list) and label else label
        if one is not None and one != []:
            yield name, str(classes[one] if isinstance(one, int) else one)


def from_label_studio(tasks: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Tasks with the choices of the last annotation that was not cancelled; in JSON-MIN one is beside the image."""
    for task in tasks:
        data = task.get("data", task)
        image = data["image"] if "image" in data else next(
            (value for value in data.values() if isinstance(value, str) and Path(urlsplit(value).path).suffix), "")
        results = [result for one in task.get("annotations", []) if not one.get("was_cancelled")
                   for result in one["result"] if result["type"] == "choices"]
        choices = [result["value"]["choices"] for result in results] or [task.get("choice", [])]
        chosen = choices[-1]["choices"] if isinstance(choices[-1], dict) else choices[-1]
        if chosen:
            yield image, str(chosen if isinstance(chosen, str) else chosen[0])


def from_cvat(path: Path) -> Iterator[tuple[str, str]]:
    """<image name="a.jpg"><tag label="wren"/></image>."""
    text = read_text(path, "utf-8-sig")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError(f"{str(path)!r} declares entities, which no export of CVAT does")
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise InputError(f"cannot read {str(path)!r} as XML: {error}") from None
    images = list(root.iter("image"))
    if not images:
        raise InputError(f"{str(path)!r} names no images: export as 'CVAT for images'")
    for image in images:
        tag = image.find("tag")
        if tag is not None:
            yield image.get("name", ""), tag.get("label", "")


def find_picture(name: str, table: Path) -> Path | None:
    """Where a picture of a table or an export is: as named, or beside the file; None if it is in neither place.

    An address stands for the file of its name, also as Label Studio calls uploads; FiftyOne leaves out suffixes.
    """
    address = urlsplit(name)
    local = parse_qs(address.query).get("d", [""])[0]
    names = [name, local, unquote(address.path).lstrip("/"), Path(unquote(address.path)).name]
    names += [UPLOADED.sub("", names[-1])]
    folders = [Path(), *(table.parent / folder for folder in BESIDE)]
    places = (folder / (one + suffix) for one in dict.fromkeys(filter(None, names)) for folder in folders
              for suffix in ("", *SUFFIXES))
    return next((place for place in places if os.path.isfile(place)), None)
