"""A table of the paper as Markdown and HTML: paper's number, measured number, difference, and what was missing."""

from collections.abc import Mapping
from pathlib import Path

from ..files import write_file
from ..templates import render
from .sheets import DATA, Cell, Measured, Sheet


def write_page(path: Path, sheet: Sheet, measured: Mapping[Cell, Measured], budget: str,
               drawn: tuple[str, ...]) -> None:
    """Write the table to `path` (.md) and, beside it, as HTML; `drawn` names data that drawn pictures stood in for."""
    write_table(path, sheet.title, fill_grid(sheet, measured, drawn), page_notes(sheet, measured, budget, drawn))


def write_table(path: Path, title: str, grid: list[list[str]], notes: list[str]) -> None:
    """Write a title, a table whose first row is its header, and notes to `path` (.md) and, beside it, as HTML."""
    lines = ["| " + " | ".join(row) + " |" for row in grid]
    lines.insert(1, "|" + "---|" * len(grid[0]))
    write_file(path, "\n".join([f"# {title}", "", *lines, "", *(f"- {note}" for note in notes), ""]))
    write_file(path.with_suffix(".html"), render("measured.html", title=title, picture="", grid=grid, notes=notes))


def fill_grid(sheet: Sheet, measured: Mapping[Cell, Measured], drawn: tuple[str, ...] = ()) -> list[list[str]]:
    """The table with its header, every cell as text."""
    columns = list(dict.fromkeys(cell.column for cell in sheet.cells))
    rows = list(dict.fromkeys(cell.row for cell in sheet.cells))
    places = {(cell.row, cell.column): cell for cell in sheet.cells}
    return [["", *columns]] + [
        [row, *(cell_text(places.get((row, column)), measured, drawn) for column in columns)] for row in rows]


def cell_text(cell: Cell | None, measured: Mapping[Cell, Measured], drawn: tuple[str, ...] = ()) -> str:
    """Paper's number, measured number with its interval, difference; a dash where there is none.

    What was measured on drawn pictures has no difference to what the paper measured on photographs.
    """
    if cell is None:
        return ""
    accuracy, paper = measured.get(cell, Measured()).accuracy, "-" if cell.paper is None else f"{cell.paper:.2f}"
    if accuracy is None:
        return f"{paper} → -"
    gap = "" if cell.paper is None or cell.plan.data in drawn else f" ({100 * accuracy.mean - cell.paper:+.2f})"
    return f"{paper} → {accuracy}{gap}"


def page_notes(sheet: Sheet, measured: Mapping[Cell, Measured], budget: str, drawn: tuple[str, ...]) -> list[str]:
    """What a reader has to know: how to read a cell, budget, stand-ins, missing data, result cards."""
    missing = dict.fromkeys(measurement.reason for measurement in measured.values() if measurement.reason)
    cards = dict.fromkeys(measurement.card for measurement in measured.values() if measurement.card)
    return [f"paper → measured ± half of the 95 % interval (difference); budget: {budget}",
            *filter(None, [sheet.note]), *(f"drawn pictures stand in for {DATA[name]}" for name in drawn), *missing,
            *(f"result card: {card}" for card in cards)]
