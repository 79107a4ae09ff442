"""Receptive fields of what was kept, drawn as the supplement does ("Visualization of Selected Descriptors")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from ...images import Source
from ..explanation import Explanation
from ..receptive import heat, receptive_fields
from .heat import overlay
from .sheet import FAINT, PALETTE, Box, Sheet, as_picture, save_picture

TRUE = PALETTE[2]                                             # green, as in the supplement
SIDE, GAP, EDGE, LABEL = 96, 8, 22, 126                       # of a picture, between two, around all, of the row names


@dataclass(frozen=True, eq=False)
class Task:
    """A query and one support picture a class, with the heat maps of what was kept."""

    query_image: Source
    support_images: Sequence[Source]     # N
    classes: Sequence[str]               # N
    truth: int                           # label of the query
    query: Tensor                        # (h, w)     m_q: the kept descriptors
    support: Tensor                      # (N, h, w)  m_s_c: their partners in each class
    back: Tensor                         # (N, h, w)  m_q~_c: what the partners of a class choose back


def field_maps(backbone: nn.Module, support: Tensor, query: Tensor, explanation: Explanation) -> dict[str, Tensor]:
    """m_q, m_s_c and m_q~_c of a one-shot task: (N, 3, h, w), (3, h, w) -> `query`, `support`, `back` of a Task."""
    pairs = [explanation.pairs(label) for label in range(len(explanation.classes))]
    places = [torch.tensor([pair.place for pair in group], dtype=torch.long) for group in pairs]
    partners = [torch.tensor([pair.partner for pair in group], dtype=torch.long) for group in pairs]
    fields = receptive_fields(backbone, query, torch.cat(places)).split([len(group) for group in places])
    return {
        "query": heat(torch.cat(fields)),
        "support": torch.stack([heat(receptive_fields(backbone, image, group))
                                for image, group in zip(support, partners, strict=True)]),
        "back": torch.stack([heat(group) for group in fields]),
    }


def draw_receptive(panes: Mapping[str, Sequence[Task]], path: str | Path | None = None) -> Image.Image:
    """One pane a data set, its tasks below each other; in each the true class is framed in green."""
    tasks = max(len(tasks_of_set) for tasks_of_set in panes.values())
    ways = max(len(task.classes) for tasks_of_set in panes.values() for task in tasks_of_set)
    wide, tall = LABEL + (ways + 1) * (SIDE + GAP) + 2 * GAP, 3 * (SIDE + GAP) + 44
    sheet = Sheet(2 * EDGE + len(panes) * (wide + EDGE) - EDGE, 2 * EDGE + 34 + tasks * tall)
    for column, (name, tasks_of_set) in enumerate(panes.items()):
        left = EDGE + column * (wide + EDGE)
        sheet.text((left, EDGE), name, 18, bold=True)
        for row, task in enumerate(tasks_of_set):
            draw_task(sheet, task, left, EDGE + 44 + row * tall)
    picture = sheet.finished()
    if path is not None:
        save_picture(picture, path)
    return picture


def draw_task(sheet: Sheet, task: Task, left: float, top: float) -> None:
    """Three rows: the pictures, the fields of kept descriptors and of their partners, the fields chosen back."""
    for row, words in enumerate((("picture", ""), ("kept, and", "their partners"), ("chosen back", "in the query"))):
        middle = top + 18 + row * (SIDE + GAP) + SIDE / 2
        for line, part in enumerate(words):
            sheet.text((left, middle + 18 * (line - bool(words[1]) / 2)), part, 13, FAINT, "lm")
    query = as_picture(task.query_image)
    start = left + LABEL
    sheet.text((start + SIDE / 2, top), "query", 13, FAINT, "ma")
    sheet.paste(query, cell(start, top, 0, 0))
    sheet.paste(overlay(query, task.query.numpy()), cell(start, top, 0, 1))
    for label, source in enumerate(task.support_images):
        picture, true = as_picture(source), label == task.truth
        x = start + 2 * GAP
        sheet.text((x + (label + 1) * (SIDE + GAP) + SIDE / 2, top), task.classes[label], 13, TRUE if true else FAINT,
                   "ma", room=SIDE, bold=true)
        shown = picture, overlay(picture, task.support[label].numpy()), overlay(query, task.back[label].numpy())
        for row, pane in enumerate(shown):
            sheet.paste(pane, cell(x, top, label + 1, row), TRUE if true else None)


def cell(left: float, top: float, column: int, row: int) -> Box:
    """Where a picture of a task lies."""
    x, y = left + column * (SIDE + GAP), top + 18 + row * (SIDE + GAP)
    return x, y, x + SIDE, y + SIDE
