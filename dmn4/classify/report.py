"""report.html: pictures, predictions, evidence, confusion matrix and result card in one file that needs no network."""

import base64
import io
import json
import platform
import shlex
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from ..errors import InputError
from ..evidence.draw.sheet import PALETTE, as_picture
from ..evidence.explain import Explanation, explain_images, rounded
from ..files import write_file
from ..images import Source, describe_source
from .verdict import NONE, USUAL_SHARE

SHOT, QUERY = 160, 256                                        # longest sides of embedded pictures
LINES = 16                                                    # pairs that a picture's evidence holds at most


def write_report(path: str | Path, classifier: Any, images: Sequence[Source], labels: Sequence[Hashable],
                 predictions: Sequence[Any], card: dict[str, Any] | None = None) -> None:
    """Write what a fitted FewShotClassifier says of pictures, beside their true labels, as one page.

    `predictions` are rows of `predict_each`; `card` are facts to add to the result card. A label that the classifier
    does not know is a picture of "none of these".
    """
    if not len(images) == len(labels) == len(predictions):
        raise InputError(f"{len(images)} pictures, {len(labels)} labels and {len(predictions)} predictions were given; "
                         "one label and one prediction for each picture are needed")
    page = files(__package__).joinpath("report_page.html").read_text(encoding="utf-8")
    content = report_content(classifier, images, labels, predictions, card or {})
    page = page.replace("{{title}}", escape(content["title"])).replace("{{content}}", as_script(content))
    write_file(Path(path), page)


def as_script(content: dict[str, Any]) -> str:
    """JSON that may stand inside a script element, whatever the names in it."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


def report_content(classifier: Any, images: Sequence[Source], labels: Sequence[Hashable], predictions: Sequence[Any],
                   card: dict[str, Any]) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    classes = [str(name) for name in classifier.classes_]
    rows = [picture_row(image, str(label), said, classes)
            for image, label, said in zip(images, labels, predictions, strict=True)]
    readable = [number for number, said in enumerate(predictions) if not said.error]
    boxes: dict[str, Any] = {}
    if classifier.parts_.method.compares_descriptors:
        for number, why in zip(readable, explain_images(classifier, [images[n] for n in readable]), strict=True):
            rows[number]["why"] = evidence_row(why)
            boxes = {"boxes": rounded(why.boxes), "supportBoxes": rounded(why.support_boxes), "rule": why.rule}
    shots = classifier.shots_.labels[classifier.shots_.look == 0].tolist()
    return {
        "title": f"{len(images)} pictures, {len(classes)} classes", "classes": classes, "rows": rows, **boxes,
        "shots": [{"label": label, "picture": embedded(picture, SHOT)}
                  for label, picture in zip(shots, classifier.pictures_, strict=True)],
        "confusion": confusion(rows, classes), "summary": summary(rows, classes),
        "card": card_of(classifier) | {name: str(value) for name, value in card.items()},
        "palette": ["#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE[:3]], "none": NONE,
    }


def picture_row(image: Source, truth: str, said: Any, classes: list[str]) -> dict[str, Any]:
    """One picture and what is said of it; a picture that cannot be read is its error."""
    name = describe_source(image).strip("'") if isinstance(image, str | Path) else ""
    if said.error:
        return {"name": name, "truth": truth, "error": said.error}
    picture = as_picture(image, QUERY)
    return {"name": name, "truth": truth, "known": truth in classes, "shape": round(picture.width / picture.height, 4),
            "label": NONE if said.label is None else str(said.label),
            "chances": [round(said.probabilities[one], 4) for one in classes],
            "belongs": None if said.known != said.known else round(said.known, 4), "picture": embedded(picture, QUERY)}


def evidence_row(why: Explanation) -> dict[str, Any]:
    """The evidence for one picture: kept places, the strongest pairs, class sums with and without selection."""
    return {"kept": why.kept.nonzero()[:, 0].tolist(), "places": len(why.kept), "verdict": why.headline,
            "dn4": why.dn4_verdict, "scores": rounded(why.scores), "before": rounded(why.scores_before),
            "counts": why.winner[why.kept].bincount(minlength=len(why.classes)).tolist(),
            "pairs": [[pair.place, pair.label, pair.image, pair.partner, round(pair.tau, 4), round(pair.cosine, 3)]
                      for pair in why.pairs() if pair.image < len(why.support_labels)][:LINES]}


def embedded(image: Source, side: int) -> str:
    """A picture as a data address, its longest side at most `side` pixels."""
    picture = as_picture(image)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()


def confusion(rows: list[dict[str, Any]], classes: list[str]) -> list[list[int]]:
    """How many pictures of each true class (and, last, of none of them) were given each class (and, last, none)."""
    counts = np.zeros((len(classes) + 1, len(classes) + 1), dtype=int)
    places = {name: place for place, name in enumerate(classes)}
    for row in rows:
        if "error" not in row:
            counts[places.get(row["truth"], -1), places.get(row["label"], -1)] += 1
    return counts.tolist()


def summary(rows: list[dict[str, Any]], classes: list[str]) -> list[dict[str, str]]:
    """The few numbers on top of the page."""
    readable = [row for row in rows if "error" not in row]
    known, strangers = [row for row in readable if row["known"]], [row for row in readable if not row["known"]]
    best = sum(classes[int(np.argmax(row["chances"]))] == row["truth"] for row in known)
    refused, noticed = (sum(row["label"] == NONE for row in some) for some in (known, strangers))
    facts = [(f"{best} of {len(known)}", "named rightly, if each has to be one of the classes", bool(known)),
             (f"{noticed} of {len(strangers)}", f"strangers noticed as {NONE}", bool(strangers)),
             (f"{refused} of {len(known)}", f"known ones taken for {NONE}", bool(known and (refused or strangers))),
             (str(len(rows) - len(readable)), "could not be read", len(readable) < len(rows))]
    return [{"number": number, "words": words} for number, words, told in facts if told]


def card_of(classifier: Any) -> dict[str, str]:
    """The result card: what made these numbers."""
    import dmn4

    about, calibration = classifier.parts_.about(), classifier.calibration_
    counts, backbone = classifier.shots_.counts.tolist(), about["backbone"]
    shots = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return {"method": named(about["method"], about["method_options"]),
            "backbone": named(backbone["name"], backbone["options"]),
            "weights": f"{backbone['weights'] or 'own'}, sha256 {backbone['sha256'][:16]}",
            "image size": str(classifier.parts_.transform.size), "classes": str(len(counts)), "shots": shots,
            NONE: calibration.promise(USUAL_SHARE), "dmn4": dmn4.__version__,
            "torch": torch.__version__, "python": platform.python_version(), "machine": platform.machine(),
            "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "written": time.strftime("%Y-%m-%d %H:%M:%S")}


def named(name: str, options: Mapping[str, Any]) -> str:
    """A name and its options in words."""
    return ", ".join([name, *(f"{option}={value}" for option, value in options.items())])
