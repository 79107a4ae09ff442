"""One picture that says why: the query beside its support, lines between partners, the class sums."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ...images import Source
from ..explanation import Explanation, Pair
from .heat import veiled
from .sheet import (
    FAINT,
    OTHER,
    Box,
    Colour,
    Point,
    Sheet,
    as_picture,
    centre,
    class_colours,
    fitted,
    inside,
    save_picture,
)

WIDTH, EDGE = 1240, 28                                        # of the sheet, and its margin
SHOT, GAP = 154, 12                                           # side of a support picture, and between two
ROWS, COLUMNS, LINES, SUMS = 3, 3, 18, 6                      # classes, shots of each, lines and sums that are shown
TOP, ROW, FOOT = 108, SHOT + 44, 34                           # height of the heading, of a class, of one of the sums
QUERY = ROWS * ROW - 18                                       # side of the query


class Shown(NamedTuple):
    """A support picture on the sheet."""

    image: int
    label: int
    box: Box


def draw_explanation(explanation: Explanation, query_image: Source, support_images: Sequence[Source],
                     path: str | Path | None = None) -> Image.Image:
    """The evidence on the pictures: partners joined by lines, thick where the lead tau is large, and the class sums.

    `support_images` are in the order of the labels that were learnt. With a `path` the picture is also written there.
    """
    order = explanation.scores.argsort(descending=True, stable=True).tolist()
    colours = class_colours(order[:ROWS])
    query = as_picture(query_image)
    sheet = Sheet(WIDTH, TOP + QUERY + 2 * EDGE + 46 + FOOT * min(len(order), SUMS))
    room = fitted(query, (EDGE, TOP, EDGE + QUERY, TOP + QUERY))
    left = (EDGE, TOP, EDGE + room[2] - room[0], TOP + room[3] - room[1])
    sheet.paste(veiled(query, explanation), left)
    shots = explanation.counts[order[:ROWS]].clamp(2, COLUMNS).max()
    start = WIDTH - EDGE - int(shots) * (SHOT + GAP) + GAP                                   # of the support pictures
    shown = place_support(sheet, explanation, support_images, order[:ROWS], start)
    draw_pairs(sheet, explanation, left, shown, colours)
    head(sheet, explanation, colours[order[0]])
    name_rows(sheet, explanation, order[:ROWS], colours, start)
    draw_sums(sheet, explanation, order[:SUMS], colours, TOP + QUERY + EDGE)
    picture = sheet.finished()
    if path is not None:
        save_picture(picture, path)
    return picture


def head(sheet: Sheet, explanation: Explanation, colour: Colour) -> None:
    """The verdict, and what was counted for it."""
    sheet.bar((EDGE, 26, EDGE + 7, 60), colour)
    sheet.text((EDGE + 20, 22), explanation.headline, 28, room=WIDTH - 2 * EDGE - 20, bold=True)
    rule = explanation.rule[0].upper() + explanation.rule[1:]
    sheet.text((EDGE, 72), f"{explanation.tally} {rule}.", 15, FAINT, room=WIDTH - 2 * EDGE)


def place_support(sheet: Sheet, explanation: Explanation, pictures: Sequence[Source], order: list[int],
                  start: float) -> list[Shown]:
    """The most chosen support pictures of the best classes, a class a row; returns where they lie."""
    shown = []
    for row, label in enumerate(order):
        for column, image in enumerate(most_chosen(explanation, label, len(pictures))[:COLUMNS]):
            left, top = start + column * (SHOT + GAP), TOP + row * ROW + 26
            picture = as_picture(pictures[image])
            box = fitted(picture, (left, top, left + SHOT, top + SHOT))
            sheet.paste(picture, box)
            shown.append(Shown(image, label, box))
    return shown


def name_rows(sheet: Sheet, explanation: Explanation, order: list[int], colours: dict[int, Colour],
              start: float) -> None:
    """The name of each class above its pictures, and how many patches are nearest to it."""
    for row, label in enumerate(order):
        y, count, room = TOP + row * ROW, len(explanation.pairs(label)), WIDTH - EDGE - start - 112
        sheet.dot((start + 7, y + 10), 6, colours[label])
        wide = sheet.text((start + 22, y + 1), explanation.classes[label], 16, room=room, bold=True)
        sheet.text((start + 34 + wide, y + 3), f"{count} patch{'' if count == 1 else 'es'}", 14, FAINT)


def most_chosen(explanation: Explanation, label: int, pictures: int) -> list[int]:
    """The support pictures of a class, those with the most partners first."""
    of_class = [image for image in (explanation.support_labels == label).nonzero()[:, 0].tolist() if image < pictures]
    counts = {image: sum(pair.tau for pair in explanation.pairs(label) if pair.image == image) for image in of_class}
    return sorted(of_class, key=lambda image: -counts[image])


def draw_pairs(sheet: Sheet, explanation: Explanation, query: Box, shown: list[Shown],
               colours: dict[int, Colour]) -> None:
    """A dot on every kept place; lines to the partners of those with the largest leads, the largest on top."""
    boxes, pairs = {pane.image: pane.box for pane in shown}, explanation.pairs()
    largest = max([pair.tau for pair in pairs], default=1.0) or 1.0
    for pair in reversed(pairs):
        colour = colours.get(pair.label, OTHER)
        sheet.dot(spot(query, explanation.boxes, pair.place), 1 + 4 * pair.tau / largest, colour)
    for pair in reversed([pair for pair in pairs if pair.image in boxes][:LINES]):
        draw_pair(sheet, explanation, pair, query, boxes[pair.image], colours[pair.label], pair.tau / largest)


def draw_pair(sheet: Sheet, explanation: Explanation, pair: Pair, query: Box, support: Box, colour: Colour,
              weight: float) -> None:
    """One line with its two ends; `weight` 0..1 is its thickness."""
    start, end = spot(query, explanation.boxes, pair.place), spot(support, explanation.support_boxes, pair.partner)
    sheet.thread(start, end, colour, 1.2 + 3.2 * weight)
    for point in (start, end):
        sheet.dot(point, 2 + 3 * weight, colour)


def spot(box: Box, boxes: Tensor, place: int) -> Point:
    """Where the middle of a place lies on the sheet."""
    return centre(inside(box, boxes[place].numpy()))


def draw_sums(sheet: Sheet, explanation: Explanation, order: list[int], colours: dict[int, Colour], top: float) -> None:
    """The class sums, a class a row, as a full and a hollow bar."""
    after, before, words = bars(explanation)
    longest = max(float(after.max()), float(before.max())) or 1.0
    left, right = EDGE + 200, WIDTH - EDGE - 90
    sheet.line_across(top, EDGE, WIDTH - EDGE)
    wide = sheet.text((EDGE, top + 14), "Class sums", 15, bold=True)
    sheet.text((EDGE + wide + 12, top + 15), f"measured from the weakest class: {words}", 14, FAINT)
    sheet.text((WIDTH - EDGE, top + 15), "sum", 14, FAINT, "ra")
    for row, label in enumerate(order):
        y, colour = top + 46 + row * FOOT, colours.get(label, OTHER)
        sheet.text((left - 14, y + 12), explanation.classes[label], 15, anchor="rm", room=180)
        sheet.bar((left, y, left + (right - left) * after[label] / longest, y + 13), colour)
        sheet.bar((left, y + 16, left + (right - left) * before[label] / longest, y + 24), colour, hollow=True)
        sheet.text((WIDTH - EDGE, y + 12), f"{float(explanation.scores[label]):z.2f}", 15, anchor="rm")


def bars(explanation: Explanation) -> tuple[np.ndarray, np.ndarray, str]:
    """The lengths of the full and of the hollow bar of each class (N,), and what they are, in words.

    Beside a linear head the two parts of the score are shown, otherwise what the choice of patches changes.
    """
    if explanation.shares is not None:
        share = torch.ones(1)
        return (mean_lead(explanation.scores, share), mean_lead(explanation.head, share),
                "full, patches and the picture as a whole; hollow, the picture as a whole alone")
    return (mean_lead(explanation.scores, explanation.kept),
            mean_lead(explanation.scores_before, explanation.masks["dn4"]),
            "full, mean vote of the patches that voted; hollow, of all patches")


def mean_lead(scores: Tensor, mask: Tensor) -> np.ndarray:
    """Class sums divided by how many places counted, measured from the smallest: (N,), bool (M,) -> (N,)."""
    means = (scores / mask.sum().clamp(min=1)).double().numpy()
    lead: np.ndarray = means - means.min()
    return lead
