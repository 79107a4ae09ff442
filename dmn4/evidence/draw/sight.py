"""What a backbone makes of two pictures, drawn: the colours of their patches, and which patches match."""

from pathlib import Path

from PIL import Image

from ..sight import Sight
from .sheet import FAINT, Box, Colour, Point, Sheet, save_picture

SIDE, GAP, HEAD, FOOT = 320, 40, 60, 56
THREADS = 40                                                  # more would hide the pictures


def draw_sight(sight: Sight, pictures: tuple[Image.Image, Image.Image], title: str,
               path: str | Path | None = None) -> Image.Image:
    """Above, the two pictures joined by their matches; below, the colours of their patches."""
    sheet = Sheet(2 * SIDE + 5 * GAP, HEAD + 2 * SIDE + 2 * GAP + FOOT)
    sheet.text((GAP, 18), title, 17, bold=True, room=sheet.size[0] - 2 * GAP)
    boxes = [corner(column, 0) for column in (0, 1)]
    for picture, box in zip(pictures, boxes, strict=True):
        sheet.paste(picture, box)
    height, width = sight.maps.shape[2:]
    for first, second in sight.matches[:THREADS]:
        colour = rgb(sight, first)
        start, end = middle(boxes[0], first, height, width), middle(boxes[1], second, height, width)
        sheet.thread(start, end, colour, 1.6)
        sheet.dot(start, 3.5, colour)
        sheet.dot(end, 3.5, colour)
    for column in (0, 1):
        patches = Image.fromarray((255 * sight.colours[column]).byte().numpy())
        sheet.paste(patches.resize((SIDE, SIDE), Image.Resampling.NEAREST), corner(column, 1))
    shown = min(THREADS, len(sight.matches))
    sheet.text((GAP, sheet.size[1] - FOOT), f"Above: {shown} of {len(sight.matches)} mutual nearest neighbours among "
               f"{sight.places} patches.", 14, FAINT)
    sheet.text((GAP, sheet.size[1] - FOOT + 22), "Below: equal colours stand for similar descriptors "
               "(three principal components).", 14, FAINT)
    finished = sheet.finished()
    if path is not None:
        save_picture(finished, path)
    return finished


def corner(column: int, row: int) -> Box:
    """The box of a picture on the sheet."""
    left, top = GAP + column * (SIDE + 3 * GAP), HEAD + row * (SIDE + GAP)
    return left, top, left + SIDE, top + SIDE


def middle(box: Box, place: int, height: int, width: int) -> Point:
    """The middle of a patch inside the box of its picture."""
    row, column = divmod(place, width)
    return box[0] + SIDE * (column + 0.5) / width, box[1] + SIDE * (row + 0.5) / height


def rgb(sight: Sight, place: int) -> Colour:
    """The colour of a patch of the first picture."""
    red, green, blue = (255 * sight.colours[0].flatten(0, 1)[place]).int().tolist()
    return red, green, blue
