"""A learning curve as text, as a table, as JSON and as a picture."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from PIL import Image

from ..classify.curve import ClassCurve, LearningCurve, Point
from ..classify.verdict import percent
from ..evidence.draw.sheet import FAINT, INK, PALETTE, Colour, Sheet, save_picture
from .cells import on_screen
from .predictions import number, plain_label

COLUMNS = ("what", "class", "other", "shots", "accuracy", "low", "high", "pictures")
NAMES = ("now", "twice as many", "four times")
SHOWN, MISTAKES = 20, 3                                       # classes on the screen and in the picture; names of each
WIDTH, HEIGHT, EDGE = 960, 330, 64                            # of the picture: sheet, plot, margin
HEAD, FOOT = 112, 26                                          # above the plot; a line of a class


def spread(point: Point) -> str:
    """An accuracy in words: "87 % (80 to 92)"."""
    return f"{percent(point.accuracy)} ({100 * point.low:.0f} to {100 * point.high:.0f})"


def advice(curve: LearningCurve) -> str:
    """How good it is and would be, in a sentence."""
    now, twice = curve.expected[:2]
    more = ("twice as many labelled ones would add less than one point." if curve.enough else
            f"with twice as many labelled ones it would be about {percent(twice.accuracy)}.")
    return f"About {percent(now.accuracy)} of new pictures are named rightly; {more}"


def next_step(curve: LearningCurve) -> str:
    """What to label next, in a sentence; nothing if all is well."""
    return "" if curve.enough or not curve.weakest else f"Label more of {', '.join(map(str, curve.weakest))} first."


def confused(class_curve: ClassCurve) -> str:
    """What pictures of a class were taken for, in words: "lemon (2), plum"."""
    named = [f"{label}{f' ({count})' if count > 1 else ''}" for label, count in class_curve.taken_for[:MISTAKES]]
    rest = len(class_curve.taken_for) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")


def shots_text(shots: float) -> str:
    """An average number of pictures: "5" or "4.6"."""
    return f"{shots:.1f}".removesuffix(".0")


def lines_of(curve: LearningCurve) -> Iterator[str]:
    """The curve as lines of text."""
    yield f"{curve.judged:,} labelled pictures were judged by the others, which were as many, or fewer:"
    yield f"{'pictures of a class':>20}   named rightly (95 % interval)"
    for point in curve.measured:
        yield f"{shots_text(point.shots):>20}   {spread(point)}"
    yield "expected of new pictures:"
    for name, point in zip(NAMES, curve.expected, strict=True):
        yield f"{shots_text(point.shots):>20}   {spread(point)}, {name}"
    few = curve.classes[:SHOWN]
    widest = max([len("class"), *(len(on_screen(str(class_curve.label))) for class_curve in few)])
    yield f"{'class':{widest}}  pictures  now                twice as many      taken for"
    for class_curve in few:
        yield (f"{on_screen(str(class_curve.label)):{widest}}  {class_curve.shots:8}  {spread(class_curve.now):17}  "
               f"{spread(class_curve.twice):17}  {on_screen(confused(class_curve))}").rstrip()
    if len(curve.classes) > SHOWN:
        yield f"and {len(curve.classes) - SHOWN:,} better classes"
    yield on_screen(f"{advice(curve)} {next_step(curve)}".rstrip())


def rows_of(curve: LearningCurve) -> Iterator[dict[str, str]]:
    """The curve as rows of a table: points measured and expected, classes, and which are confused how often."""
    for what, points in (("measured", curve.measured), ("expected", curve.expected)):
        for point in points:
            yield row(what, point, pictures=curve.judged)
    for class_curve in curve.classes:
        for what, point in (("class now", class_curve.now), ("class with twice as many", class_curve.twice)):
            yield row(what, point, class_curve.label, pictures=class_curve.judged)
    for class_curve in curve.classes:
        for other, count in class_curve.taken_for:
            yield row("taken for", None, class_curve.label, other, count)


def row(what: str, point: Point | None, label: Any = "", other: Any = "", pictures: int = 0) -> dict[str, str]:
    """One row of the table."""
    shares = ("", "", "", "") if point is None else (shots_text(point.shots), *map(number, (point.accuracy, point.low,
                                                                                           point.high)))
    return dict(zip(COLUMNS, (what, str(label), str(other), *shares, str(pictures)), strict=True))


def as_dict(curve: LearningCurve) -> dict[str, Any]:
    """The curve as JSON holds it, with every accuracy in words too."""
    return {"judged": curve.judged, "enough": curve.enough, "advice": advice(curve), "next": next_step(curve),
            "measured": [point_dict(point) for point in curve.measured],
            "expected": [point_dict(point) for point in curve.expected], "classes": [
        {"label": plain_label(class_curve.label), "shots": class_curve.shots, "judged": class_curve.judged,
         "now": point_dict(class_curve.now), "twice": point_dict(class_curve.twice), "confused": confused(class_curve),
         "taken_for": [{"label": plain_label(other), "pictures": count} for other, count in class_curve.taken_for]}
        for class_curve in curve.classes]}


def point_dict(point: Point) -> dict[str, Any]:
    """An accuracy as JSON holds it."""
    return asdict(point) | {"words": spread(point)}


# ------------------------------------------------------------------------------------------------------ as a picture

def draw_curve(curve: LearningCurve, path: Path | None = None) -> Image.Image:
    """Accuracy against labelled pictures of a class: measured as dots, expected as a line; below, the worst classes."""
    few = curve.classes[:SHOWN]
    sheet = Sheet(WIDTH, HEAD + HEIGHT + 92 + FOOT * len(few))
    sheet.text((EDGE, 22), "Have I labelled enough?", 20, bold=True)
    sheet.text((EDGE, 52), advice(curve), 13, FAINT, room=WIDTH - 2 * EDGE)
    sheet.text((EDGE, 72), next_step(curve), 13, FAINT, room=WIDTH - 2 * EDGE)
    draw_plot(sheet, curve, (EDGE, HEAD, WIDTH - EDGE, HEAD + HEIGHT))
    top, start, end = HEAD + HEIGHT + 78, 260, WIDTH - 400
    sheet.text((EDGE, top - 26), "The worst classes" if len(few) < len(curve.classes) else "Classes", 13, bold=True)
    for place, class_curve in enumerate(few):
        middle = top + FOOT * place + FOOT / 2
        sheet.text((start - 12, middle), str(class_curve.label), 13, anchor="rm", room=start - EDGE)
        for share, hollow in ((class_curve.twice.accuracy, True), (class_curve.now.accuracy, False)):
            sheet.bar((start, middle - 6, start + (end - start) * share, middle + 6), PALETTE[0], hollow=hollow)
        words = spread(class_curve.now) + (f", taken for {confused(class_curve)}" if class_curve.taken_for else "")
        sheet.text((end + 12, middle), words, 12, FAINT, "lm", WIDTH - end - 24)
    finished = sheet.finished()
    if path is not None:
        save_picture(finished, path)
    return finished


def draw_plot(sheet: Sheet, curve: LearningCurve, box: tuple[float, float, float, float]) -> None:
    """The axes, the points and their intervals."""
    left, top, right, bottom = box
    points = (*curve.measured, *curve.expected)
    first, last = (math.log(side([point.shots for point in points])) for side in (min, max))
    lowest = math.floor(5 * min(point.low for point in points)) / 5

    def place(shots: float, share: float) -> tuple[float, float]:
        across = (math.log(shots) - first) / (last - first)
        return left + 30 + (right - left - 60) * across, bottom - (bottom - top) * (share - lowest) / (1 - lowest)

    for tenth in range(round(10 * lowest), 11, 1 if lowest > 0.5 else 2):
        level = place(curve.expected[0].shots, tenth / 10)[1]
        sheet.line_across(level, left, right)
        sheet.text((left - 8, level), f"{10 * tenth} %", 12, FAINT, "rm")
    for series, colour in ((curve.measured, INK), (curve.expected, PALETTE[0])):
        draw_points(sheet, series, place, colour)
    for point in points[:len(curve.measured) - 1] + curve.expected:
        sheet.text((place(point.shots, lowest)[0], bottom + 8), shots_text(point.shots), 12, FAINT, "ma")
    sheet.text((left, bottom + 26), "labelled pictures of a class; black: measured with fewer, blue: expected now, "
               "with twice and four times as many; 95 % intervals", 12, FAINT, room=right - left)


def draw_points(sheet: Sheet, series: tuple[Point, ...], place: Any, colour: Colour) -> None:
    """Dots with their intervals, joined."""
    sheet.line([place(point.shots, point.accuracy) for point in series], colour, 1.6)
    for point in series:
        across, low = place(point.shots, point.low)
        sheet.bar((across - 0.7, place(point.shots, point.high)[1], across + 0.7, low), colour)
        sheet.dot(place(point.shots, point.accuracy), 4, colour)
