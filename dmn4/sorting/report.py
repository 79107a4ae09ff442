"""report.html: what is said of pictures, least sure first, with evidence and corrections, in one file for a browser."""

import base64
import io
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import torch
from PIL import Image

from ..classify.held_out import place_in_class
from ..classify.verdict import NONE, USUAL_SHARE, percent
from ..errors import InputError
from ..evidence.draw.evidence import bars
from ..evidence.draw.sheet import PALETTE, as_picture
from ..evidence.explain import explain_images
from ..evidence.explanation import Explanation, rounded
from ..files import write_file
from ..images import Source
from ..templates import render
from .cells import on_screen
from .comparison import Row, confusion, counted, folder_labels, mistakes_of
from .predictions import Prediction

if TYPE_CHECKING:
    from ..classify.plain import PlainClassifier

DOUBTFUL, SHOWN = 150, 5_000                                  # pictures with evidence; with a picture inside the page
SMALL, LARGE, SHOT = 112, 288, 112                            # longest sides: on a card, beside evidence, labelled ones
LINES, SUMS = 16, 5                                           # pairs and class sums of the evidence
LABELLED = 400                                                # labelled pictures on the page, if there are so many
MATRIX = 24                                                   # classes of a confusion matrix; of more, the mistakes
Watched = Callable[[Sequence[Any], str], Iterable[Any]]       # things to go through, words -> the same, with a bar


class Report:
    """The page in the making: it keeps little of each prediction, and no picture before it is written.

    Of pictures in folders named as classes, among `paths`, the true labels are shown too.
    """

    def __init__(self, classifier: "PlainClassifier", paths: Sequence[Path] = ()) -> None:
        self.classifier, self.rows = classifier, list[Row]()
        self.truths = folder_labels(paths, classifier.classes_)

    def add(self, prediction: Prediction, truth: Hashable | None = None) -> None:
        """Take one more picture, with its true label if that is known."""
        self.rows.append(Row.of(prediction, self.truths.get(prediction.name) if truth is None else truth))

    def write(self, path: Path, watched: Watched = lambda items, words: items,
              card: Mapping[str, Any] | None = None) -> None:
        """Write the page; `watched` shows progress, `card` are facts to add to the result card."""
        rows = sorted(self.rows, key=lambda row: -row.verdict.doubt if row.verdict else 1.0)      # the last: unreadable
        classes = [str(name) for name in self.classifier.classes_]
        places, base = {name: place for place, name in enumerate(classes)}, common_folder(rows)
        shown = [row_content(row, places, base, path) for row in rows]
        add_pictures(shown, rows, watched)
        evidence = add_evidence(shown, self.classifier, rows, places, watched)
        content = {"name": path.stem, "base": base, "none": NONE, "classes": classes, "rows": shown, **evidence,
                   "palette": ["#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE[:3]],
                   "shots": shots_content(self.classifier, shown)}
        title = f"{len(rows):,} picture{'' if len(rows) == 1 else 's'}, {len(classes):,} classes"
        matrix = confusion(rows, places)
        facts = card_of(self.classifier) | {name: str(value) for name, value in (card or {}).items()}
        write_file(path, render("report.html", title=title, facts=counted(rows, places), card=facts, content=content,
                                names=[*classes, NONE], matrix=matrix, mistakes=mistakes_of(matrix), most=MATRIX))


def write_report(path: str | Path, classifier: "PlainClassifier", predictions: Iterable[Prediction],
                 labels: Iterable[Hashable | None] | None = None, card: Mapping[str, Any] | None = None) -> None:
    """Write predictions of a fitted classifier as one page, beside the true labels if they are given.

    A label that the classifier does not know is a picture of none of its classes.
    """
    predictions, report = list(predictions), Report(classifier)
    truths = [None] * len(predictions) if labels is None else list(labels)
    if len(truths) != len(predictions):
        raise InputError(f"{len(truths)} labels were given for {len(predictions)} predictions; one each is needed")
    for prediction, truth in zip(predictions, truths, strict=True):
        report.add(prediction, truth)
    report.write(Path(path), card=card)


def common_folder(rows: Sequence[Row]) -> str | None:
    """The folder that holds all pictures that are files; None if none is."""
    paths = [row.path for row in rows if row.path]
    if not paths:
        return None
    try:
        return os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:                                        # on several drives
        return ""


def row_content(row: Row, places: Mapping[str, int], base: str | None, page: Path) -> dict[str, Any]:
    """What the page says of one picture; a class is its place among all, and none of these is -1."""
    path, verdict = row.path, row.verdict
    name = os.path.relpath(path, base) if path and base else path or row.shown_name
    content: dict[str, Any] = {"name": name, "file": link_to(path, page) if path else ""}
    if row.truth is not None:
        content |= {"truth": places.get(row.truth, -1), "is": row.truth}
    if verdict is None:
        return content | {"error": on_screen(row.error)}
    return content | {"said": -1 if verdict.label is None else places[str(verdict.label)],
                      "chance": verdict.chance, "others": verdict.others,
                      "likely": [[places[name], percent(chance)] for name, chance in row.likely],
                      "known": "" if verdict.known != verdict.known else percent(verdict.known)}


def link_to(path: str, page: Path) -> str:
    """The address of a file for the page, which may be moved together with it."""
    try:
        return quote(os.path.relpath(path, os.path.abspath(page.parent)).replace(os.sep, "/"))
    except ValueError:                                        # on another drive
        return Path(path).as_uri()


def embedded(image: Source, side: int) -> str:
    """A picture as a data address, its longest side at most `side` pixels; nothing if it is gone."""
    try:
        picture = as_picture(image, side)
    except InputError:
        return ""
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=70, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()


def add_pictures(shown: list[dict[str, Any]], rows: Sequence[Row], watched: Watched) -> None:
    """Put small pictures beside what is said of them; beyond some thousands the page shows the files themselves."""
    chosen = [place for place, row in enumerate(rows) if row.verdict][:SHOWN]
    with ThreadPoolExecutor(max_workers=4) as readers:
        pictures = readers.map(lambda place: embedded(rows[place].image, SMALL), chosen)
        for place, picture in zip(watched(chosen, "making small pictures"), pictures, strict=True):
            shown[place]["small"] = picture


# ------------------------------------------------------------------------------------------------------------ evidence

def add_evidence(shown: list[dict[str, Any]], classifier: "PlainClassifier", rows: Sequence[Row],
                 places: Mapping[str, int], watched: Watched) -> dict[str, Any]:
    """Put the evidence beside the most doubtful pictures -> where the patches of a picture lie."""
    boxes: dict[str, Any] = {}
    if classifier.parts_.method.compares_descriptors:
        chosen = [place for place, row in enumerate(shown) if row.get("small")][:DOUBTFUL]
        evidence = explain_images(classifier, (rows[place].image for place in chosen))
        for place, why in zip(watched(chosen, "finding evidence"), evidence, strict=True):
            shown[place] |= {"large": embedded(rows[place].image, LARGE), "why": evidence_content(why, places)}
            boxes = {"boxes": rounded(why.boxes), "supportBoxes": rounded(why.support_boxes)}
    return boxes


def evidence_content(why: Explanation, places: Mapping[str, int]) -> dict[str, Any]:
    """The evidence for one picture: the patches that voted, the strongest pairs, the largest class sums."""
    number = [places[name] for name in why.classes]
    order = why.scores.argsort(descending=True, stable=True).tolist()[:SUMS]
    full, hollow, words = bars(why)
    return {"voted": why.kept.nonzero()[:, 0].tolist(), "tally": why.tally, "words": words,
            "sums": [[number[label], len(why.pairs(label)), round(float(why.scores[label]), 2),
                      round(float(full[label]), 4), round(float(hollow[label]), 4)] for label in order],
            "pairs": [[pair.place, number[pair.label], pair.image, pair.partner, round(pair.tau, 4)]
                      for pair in why.pairs() if pair.image < len(why.support_labels)][:LINES]}


def shots_content(classifier: "PlainClassifier", shown: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Labelled pictures by number: those that evidence leads to, and the first few of each class."""
    wanted = {pair[2] for row in shown if "why" in row for pair in row["why"]["pairs"]}
    labels = classifier.shots_.labels[classifier.shots_.look == 0]
    few = max(2, LABELLED // len(classifier.classes_))
    wanted.update((place_in_class(labels) < few).nonzero()[:, 0].tolist())
    return {image: {"label": int(labels[image]), "picture": embedded(classifier.pictures_[image], SHOT)}
            for image in sorted(wanted)}


# --------------------------------------------------------------------------------------------------------- result card

def card_of(classifier: "PlainClassifier") -> dict[str, str]:
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
            "command": on_screen(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])),
            "written": time.strftime("%Y-%m-%d %H:%M:%S")}


def named(name: str, options: Mapping[str, Any]) -> str:
    """A name and its options in words."""
    return ", ".join([name, *(f"{option}={value}" for option, value in options.items())])
