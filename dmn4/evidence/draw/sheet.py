"""A sheet of paper for Pillow: smooth lines, text that fits its room, colours that everybody can tell apart."""

import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ...files import write_file
from ...images import Source, read_image

Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]                       # left, top, right, bottom
Point = tuple[float, float]

FINE = 2                                                      # pixels drawn for each one kept: smooth edges
INK, FAINT, RULE, PAPER = (28, 32, 38), (104, 112, 122), (216, 220, 226), (255, 255, 255)
PALETTE: tuple[Colour, ...] = (                               # Okabe and Ito: told apart by the colour-blind too
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (213, 94, 0), (86, 180, 233), (240, 228, 66))
OTHER: Colour = (140, 146, 154)


def class_colours(order: list[int]) -> dict[int, Colour]:
    """A colour for each class, the best first; grey for those beyond the palette."""
    return {label: PALETTE[place] if place < len(PALETTE) else OTHER for place, label in enumerate(order)}


def as_picture(source: Source, size: int | None = None) -> Image.Image:
    """A picture in any form as a Pillow image; `size`: the side of the square it will be scaled to, if it is known."""
    return Image.fromarray(read_image(source, size))


class Sheet:
    """A white sheet of width x height; coordinates are those of the finished picture."""

    def __init__(self, width: int, height: int) -> None:
        self.size = width, height
        self.image = Image.new("RGB", (width * FINE, height * FINE), PAPER)
        self.pen = ImageDraw.Draw(self.image, "RGBA")

    def paste(self, picture: Image.Image, box: Box, frame: Colour | None = None, width: float = 3) -> None:
        """A picture that fills the box, with a coloured frame around it if wanted."""
        left, top, right, bottom = (round(FINE * side) for side in box)
        self.image.paste(picture.resize((right - left, bottom - top), Image.Resampling.LANCZOS), (left, top))
        if frame:
            edge = round(FINE * width)
            self.pen.rectangle((left - edge, top - edge, right + edge - 1, bottom + edge - 1), None, frame, edge)

    def thread(self, start: Point, end: Point, colour: Colour, width: float) -> None:
        """A curve that leaves and arrives level, on a pale edge, so that it shows on any picture."""
        share = np.linspace(0, 1, 48)
        across = start[0] + (end[0] - start[0]) * share
        down = start[1] + (end[1] - start[1]) * (3 * share**2 - 2 * share**3)
        points = [(FINE * x, FINE * y) for x, y in zip(across.tolist(), down.tolist(), strict=True)]
        self.pen.line(points, fill=(*PAPER, 140), width=round(FINE * (width + 1.4)), joint="curve")
        self.pen.line(points, fill=colour, width=max(1, round(FINE * width)), joint="curve")

    def line(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """Straight lines from point to point."""
        places = [(FINE * x, FINE * y) for x, y in points]
        self.pen.line(places, fill=colour, width=max(1, round(FINE * width)), joint="curve")

    def line_across(self, top: float, left: float, right: float) -> None:
        """A thin level line."""
        self.line([(left, top), (right, top)], RULE, 1)

    def dot(self, centre: Point, radius: float, colour: Colour) -> None:
        """A dot on a pale edge."""
        for extent, fill in ((radius + 1, (*PAPER, 230)), (radius, (*colour, 255))):
            self.pen.ellipse([FINE * (number + sign * extent) for sign in (-1, 1) for number in centre], fill=fill)

    def bar(self, box: Box, colour: Colour, hollow: bool = False) -> None:
        """A filled bar, or its outline."""
        sides = [FINE * side for side in box]
        self.pen.rectangle(sides, fill=None if hollow else colour, outline=colour, width=FINE)

    def text(self, at: Point, words: str, size: float = 15, colour: Colour = INK, anchor: str = "la",
             room: float | None = None, bold: bool = False) -> float:
        """Words at a point on paper of their own, shortened to their room; returns how wide they came out."""
        letters = font(size, bold)
        words = shortened(words, letters, None if room is None else FINE * room)
        place = FINE * at[0], FINE * at[1]
        left, top, right, bottom = self.pen.textbbox(place, words, letters, anchor)
        self.pen.rectangle((left - 6, top - 4, right + 6, bottom + 4), (*PAPER, 215))
        self.pen.text(place, words, fill=colour, font=letters, anchor=anchor)
        return letters.getlength(words) / FINE

    def finished(self) -> Image.Image:
        """The sheet at its own size."""
        return self.image.resize(self.size, Image.Resampling.LANCZOS)


@cache
def font(size: float, bold: bool = False) -> ImageFont.FreeTypeFont:
    """A typeface of this size: DejaVu, which knows most alphabets, where it is installed, else Pillow's own."""
    try:
        return ImageFont.truetype(f"DejaVuSans{'-Bold' if bold else ''}.ttf", FINE * size)
    except OSError:
        typeface = ImageFont.load_default(FINE * size)
        assert isinstance(typeface, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
        return typeface


def shortened(words: str, letters: ImageFont.FreeTypeFont, room: float | None) -> str:
    """The words, or as many letters of them as fit the room, and an ellipsis."""
    words = " ".join(words.split())
    if room is None or letters.getlength(words) <= room:
        return words
    while words and letters.getlength(f"{words}…") > room:
        words = words[:-1]
    return f"{words.rstrip()}…"


def fitted(picture: Image.Image, box: Box) -> Box:
    """The largest box of the picture's own shape inside a box, centred."""
    left, top, right, bottom = box
    scale = min((right - left) / picture.width, (bottom - top) / picture.height)
    across, down = (right - left - scale * picture.width) / 2, (bottom - top - scale * picture.height) / 2
    return left + across, top + down, right - across, bottom - down


def inside(box: Box, share: np.ndarray) -> Box:
    """The part of a box that a box of shares (0..1) names."""
    left, top, right, bottom = box
    wide, tall = right - left, bottom - top
    return (left + wide * float(share[0]), top + tall * float(share[1]),
            left + wide * float(share[2]), top + tall * float(share[3]))


def centre(box: Box) -> Point:
    """The middle of a box."""
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def save_picture(picture: Image.Image, path: str | Path) -> None:
    """Put a picture at `path`, whole or not at all; the ending says in which format."""
    out = io.BytesIO()
    endings = Image.registered_extensions()
    picture.save(out, endings.get(Path(path).suffix.lower(), "PNG"))
    write_file(Path(path), out.getvalue())
