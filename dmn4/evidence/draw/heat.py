"""Heat maps on pictures: how much each place counts, what was kept and what was dropped."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

from ...images import Source
from ..explanation import Explanation
from .sheet import FAINT, Sheet, as_picture, save_picture

HEAT = np.array([(0, 0, 4), (60, 15, 110), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191)], float)
PALE = 0.4                                                    # how much white lies over what did not vote


def overlay(picture: Image.Image, heat: np.ndarray, strength: float = 0.75) -> Image.Image:
    """A heat map (h, w) in 0..1 over a greyed picture: dark where nothing was seen, bright where much was."""
    values = np.asarray(Image.fromarray(heat.astype(np.float32)).resize(picture.size, Image.Resampling.BICUBIC))
    values = values.clip(0, 1)
    colours = np.stack([np.interp(values, np.linspace(0, 1, len(HEAT)), HEAT[:, c]) for c in range(3)], axis=-1)
    grey = np.asarray(picture.convert("L"), dtype=float)[..., None]
    cover = strength * (0.35 + 0.65 * values[..., None])
    return Image.fromarray((grey * (1 - cover) + colours * cover).clip(0, 255).astype(np.uint8))


def veiled(picture: Image.Image, explanation: Explanation) -> Image.Image:
    """The picture with what voted in its own colours, framed, and the rest grey and pale, so that all of it is seen."""
    corners = explanation.boxes.numpy() * np.array([*picture.size, *picture.size])
    voted = Image.new("L", picture.size, 0)
    pen = ImageDraw.Draw(voted)
    for box in corners[explanation.kept.numpy()].round().tolist():
        pen.rectangle(box, fill=255)
    edge = max(3, 2 * round(max(picture.size) / 300) + 1)                                    # pixels; an odd number
    border = ImageChops.subtract(voted, voted.filter(ImageFilter.MinFilter(edge)))
    pale = Image.blend(picture.convert("L").convert("RGB"), Image.new("RGB", picture.size, "white"), PALE)
    shown = Image.composite(picture, pale, voted)
    return Image.composite(Image.new("RGB", picture.size, "white"), shown, border)


def draw_kept(explanation: Explanation, query_image: Source, path: str | Path | None = None) -> Image.Image:
    """The picture as DN4, MN4, DMN4 and the method itself see it, side by side: what votes in colour."""
    query = as_picture(query_image)
    wide, tall, gap = 300, round(300 * query.height / query.width), 20
    sheet = Sheet(gap + (wide + gap) * len(explanation.masks), tall + 2 * gap + 44)
    for column, rule in enumerate(explanation.masks):
        seen, left = explanation.under(rule), gap + column * (wide + gap)
        sheet.paste(veiled(query, seen), (left, gap, left + wide, gap + tall))
        sheet.text((left, gap + tall + 8), f"{rule}: {seen.verdict}", 16, room=wide, bold=True)
        sheet.text((left, gap + tall + 30), f"{int(seen.kept.sum())} of {len(seen.kept)} patches", 14, FAINT)
    picture = sheet.finished()
    if path is not None:
        save_picture(picture, path)
    return picture
