"""Several methods, votes or runs on the same episodes: means, intervals, paired differences, a picture."""

import io
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..files import write_file, write_json
from ..methods import METHODS
from ..training.cards import read_card
from .contenders import Contender, load_trained
from .evaluate import Results
from .intervals import Accuracy, Difference, paired_difference


@dataclass(frozen=True)
class Row:
    """One contender beside the first one."""

    name: str
    accuracy: Accuracy
    difference: Difference | None        # to the first contender; None for itself
    is_untrained: bool = False           # it holds layers that are noise

    @property
    def label(self) -> str:
        """The name, marked if its layers were not trained."""
        return f"{self.name} {UNTRAINED}" if self.is_untrained else self.name


UNTRAINED = "†"
FOOTNOTE = f"{UNTRAINED} holds layers that were not trained"
IN_ALL = {"deepemd": "deepemd:side=5"}   # how "all" writes a method that is too slow as it comes


def compare(results: Results, formula: str = "t", untrained: Collection[str] = ()) -> list[Row]:
    """A row for every contender of an evaluation, in its order; the first one is what the others are compared with."""
    first = next(iter(results.values))
    return [Row(name, results.accuracy(name, formula),
                None if name == first else paired_difference(values, results.values[first]), name in untrained)
            for name, values in results.values.items()]


def footnote(rows: Sequence[Row]) -> str:
    """What the mark behind a name means, if any row has it."""
    return FOOTNOTE if any(row.is_untrained for row in rows) else ""


def spread_all(texts: Sequence[str]) -> list[str]:
    """The contenders with the word `all` replaced by every supervised method that is not named."""
    named = {text.rpartition("@")[2].split(":")[0] for text in texts}
    rest = [IN_ALL.get(name, name) for name, kind in METHODS.items() if name not in named and not kind.takes_unlabelled]
    return [name for text in texts for name in (rest if text == "all" else [text])]


def parse_contenders(texts: Sequence[str], weights: str = "", backbone: str = "") -> dict[str, Contender]:
    """Contenders written as [RUN@]METHOD[:option=value,...] or `all`; those without a run share `weights`.

    "runs/a@dmn4" and "runs/b@" (with the method it was trained with) compare two runs; "dmn4" and "dmn4:vote=rank" two
    votes on one backbone, embedded once.
    """
    contenders = {}
    for text in spread_all(texts):
        run, at, method = text.rpartition("@")
        contenders[text] = (run if at else weights, method)
    trained = {run: load_trained(run, backbone) for run in {run for run, _ in contenders.values()}}
    return {text: trained[run].with_method(method) for text, (run, method) in contenders.items()}


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| method | accuracy % | difference | p | tighter |", "|---|---|---|---|---|"]
    lines += [f"| {row.label} | {row.accuracy} | {' | '.join(cells(row.difference))} |" for row in rows]
    lines += ["", footnote(rows)] if footnote(rows) else []
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
    left.set(xlabel="accuracy, %", yticks=range(len(rows)), yticklabels=[row.label for row in rows])
    left.invert_yaxis()
    right.set(xlabel=f"paired difference to {rows[0].name}, points")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    write_file(path, picture.getvalue())


def save(rows: Sequence[Row], folder: Path) -> None:
    """Write the comparison beside the result card of its evaluation, and the paired differences into that card."""
    write_file(folder / "compare.md", markdown(rows))
    draw(rows, folder / "compare.png")
    differences = {row.name: asdict(row.difference) for row in rows if row.difference}
    card = read_card(folder / "card.json")
    write_json(folder / "card.json", card | {"compared_with": rows[0].name, "differences": differences})
