"""Heat maps on pictures: how much each place counts, what was kept and what was dropped."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from ...images import Source
from ..explain import Explanation
from .sheet import FAINT, Sheet, as_picture, save_picture

HEAT = np.array([(0, 0, 4), (60, 15, 110), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191)], float)
DARK = (24, 28, 40)


def overlay(picture: Image.Image, heat: np.ndarray, strength: float = 0.75) -> Image.Image:
    """A heat map (h, w) in 0..1 over a greyed picture: dark where nothing was seen, bright where much was."""
    values = np.asarray(Image.fromarray(heat.astype(np.float32)).resize(picture.size, Image.Resampling.BICUBIC))
    values = values.clip(0, 1)
    colours = np.stack([np.interp(values, np.linspace(0, 1, len(HEAT)), HEAT[:, c]) for c in range(3)], axis=-1)
    grey = np.asarray(picture.convert("L"), dtype=float)[..., None]
    cover = strength * (0.35 + 0.65 * values[..., None])
    return Image.fromarray((grey * (1 - cover) + colours * cover).clip(0, 255).astype(np.uint8))


def veiled(picture: Image.Image, explanation: Explanation, veil: float = 0.85) -> Image.Image:
    """The picture with its kept places lit and the dropped ones in the dark, soft at the edges."""
    corners = explanation.boxes.numpy() * np.array([*picture.size, *picture.size])
    light = Image.new("L", picture.size, 0)
    pen = ImageDraw.Draw(light)
    for box in corners[explanation.kept.numpy()].round().tolist():
        pen.rectangle(box, fill=255)
    light = light.filter(ImageFilter.GaussianBlur(0.06 * float(corners[0, 2] - corners[0, 0])))
    dark = Image.blend(picture.convert("L").convert("RGB"), Image.new("RGB", picture.size, DARK), 0.6)
    return Image.composite(picture, Image.blend(picture, dark, veil), light)


def draw_kept(explanation: Explanation, query_image: Source, path: str | Path | None = None) -> Image.Image:
    """The picture as DN4, MN4, DMN4 and the method itself see it, side by side: kept places lit."""
    query = as_picture(query_image)
    wide, tall, gap = 300, round(300 * query.height / query.width), 20
    sheet = Sheet(gap + (wide + gap) * len(explanation.masks), tall + 2 * gap + 44)
    for column, rule in enumerate(explanation.masks):
        seen, left = explanation.under(rule), gap + column * (wide + gap)
        sheet.paste(veiled(query, seen), (left, gap, left + wide, gap + tall))
        sheet.text((left, gap + tall + 8), f"{rule}: {seen.verdict}", 16, room=wide, bold=True)
        sheet.text((left, gap + tall + 30), f"{int(seen.kept.sum())} of {len(seen.kept)} places", 14, FAINT)
    picture = sheet.finished()
    if path is not None:
        save_picture(picture, path)
    return picture
