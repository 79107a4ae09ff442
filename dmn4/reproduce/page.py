"""A table of the paper as Markdown and HTML: paper's number, measured number, difference, and what was missing."""

from collections.abc import Mapping
from pathlib import Path

from ..files import write_file
from ..templates import render
from .sheets import DATA, Cell, Found, Sheet


def write_page(path: Path, sheet: Sheet, found: Mapping[Cell, Found], budget: str, drawn: tuple[str, ...]) -> None:
    """Write the table to `path` (.md) and, beside it, as HTML; `drawn` names data that drawn pictures stood in for."""
    write_table(path, sheet.title, fill_grid(sheet, found, drawn), page_notes(sheet, found, budget, drawn))


def write_table(path: Path, title: str, grid: list[list[str]], notes: list[str]) -> None:
    """Write a title, a table whose first row is its header, and notes to `path` (.md) and, beside it, as HTML."""
    lines = ["| " + " | ".join(row) + " |" for row in grid]
    lines.insert(1, "|" + "---|" * len(grid[0]))
    write_file(path, "\n".join([f"# {title}", "", *lines, "", *(f"- {note}" for note in notes), ""]))
    write_file(path.with_suffix(".html"), render("measured.html", title=title, picture="", grid=grid, notes=notes))


def fill_grid(sheet: Sheet, found: Mapping[Cell, Found], drawn: tuple[str, ...] = ()) -> list[list[str]]:
    """The table with its header, every cell as text."""
    columns = list(dict.fromkeys(cell.column for cell in sheet.cells))
    rows = list(dict.fromkeys(cell.row for cell in sheet.cells))
    places = {(cell.row, cell.column): cell for cell in sheet.cells}
    return [["", *columns]] + [
        [row, *(cell_text(places.get((row, column)), found, drawn) for column in columns)] for row in rows]


def cell_text(cell: Cell | None, found: Mapping[Cell, Found], drawn: tuple[str, ...] = ()) -> str:
    """Paper's number, measured number with its interval, difference; a dash where there is none.

    What was measured on drawn pictures has no difference to what the paper measured on photographs.
    """
    if cell is None:
        return ""
    one, paper = found.get(cell, Found()), "-" if cell.paper is None else f"{cell.paper:.2f}"
    if one.accuracy is None:
        return f"{paper} → -"
    gap = "" if cell.paper is None or cell.plan.data in drawn else f" ({100 * one.accuracy.mean - cell.paper:+.2f})"
    return f"{paper} → {one.accuracy}{gap}"


def page_notes(sheet: Sheet, found: Mapping[Cell, Found], budget: str, drawn: tuple[str, ...]) -> list[str]:
    """What a reader has to know: how to read a cell, budget, stand-ins, missing data, result cards."""
    missing = dict.fromkeys(one.reason for one in found.values() if one.reason)
    cards = dict.fromkeys(one.card for one in found.values() if one.card)
    return [f"paper → measured ± half of the 95 % interval (difference); budget: {budget}",
            *filter(None, [sheet.note]), *(f"drawn pictures stand in for {DATA[name]}" for name in drawn), *missing,
            *(f"result card: {card}" for card in cards)]
