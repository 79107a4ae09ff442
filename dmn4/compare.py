"""Several methods, votes or runs on the same episodes: means, intervals, paired differences, a picture."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .checkpoints import write_file
from .contenders import Contender, find_trained
from .evaluate import Results
from .intervals import Accuracy, Difference, paired_difference


@dataclass(frozen=True)
class Row:
    """One contender beside the first one."""

    name: str
    accuracy: Accuracy
    difference: Difference | None        # to the first contender; None for itself


def compare(results: Results, formula: str = "t") -> list[Row]:
    """A row for every contender of an evaluation, in its order; the first one is what the others are compared with."""
    first, *others = results.values
    return [Row(first, results.accuracy(first, formula), None)] + [
        Row(name, results.accuracy(name, formula), paired_difference(results.values[name], results.values[first]))
        for name in others]


def parse_contenders(texts: Sequence[str], weights: str = "", backbone: str = "conv4") -> dict[str, Contender]:
    """Contenders written as [RUN@]METHOD[:option=value,...]; those without a run share `weights`.

    "runs/a@dmn4" and "runs/b@" (with the method it was trained with) compare two runs; "dmn4" and "dmn4:vote=rank" two
    votes on one backbone, embedded once.
    """
    found = {}
    for text in texts:
        run, at, method = text.rpartition("@")
        found[text] = (run if at else weights, method)
    trained = {run: find_trained(run, backbone) for run in {run for run, _ in found.values()}}
    return {text: trained[run].enter(method) for text, (run, method) in found.items()}


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| method | accuracy % | difference | p | tighter |", "|---|---|---|---|---|"]
    lines += [f"| {row.name} | {row.accuracy} | {' | '.join(cells(row.difference))} |" for row in rows]
    return "\n".join(lines) + "\n"


def cells(difference: Difference | None) -> tuple[str, str, str]:
    """Difference, p-value and how many times tighter the paired interval is, as words."""
    if difference is None:
        return "", "", ""
    return str(difference), f"{difference.p_value:.2g}", f"{difference.tighter:.1f} x"


def draw(rows: Sequence[Row], path: Path) -> None:
    """A picture: every contender's interval on the left, its paired difference to the first one on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.4 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows):
        for axes, value in ((left, row.accuracy), (right, row.difference)):
            if value:
                axes.errorbar(100 * value.mean, place, xerr=100 * value.half_width, fmt="o", capsize=3, color="C0")
    right.axvline(0, color="0.7", linewidth=1)
    left.set(xlabel="accuracy, %", yticks=range(len(rows)), yticklabels=[row.name for row in rows])
    left.invert_yaxis()
    right.set(xlabel=f"paired difference to {rows[0].name}, points")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    write_file(path, picture.getvalue())
