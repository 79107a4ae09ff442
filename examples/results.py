"""The tables of docs/results.md and of the README, from the committed result cards.

    dmn4 compare data/cub dmn4 mn4 dn4 protonet --weights cub -o runs/cub-1shot        # measure: writes a card
    cp runs/cub-1shot/card.json docs/results/cub-1shot.json                             # publish the card
    python examples/results.py                                                          # write the tables anew

A page holds a table between `<!-- table: CARD -->` and `<!-- end -->`; `<!-- summary: CARD CARD -->` is the short form.
"""

import csv
import json
import re
from pathlib import Path
from typing import Any

from dmn4.intervals import Accuracy, Difference
from dmn4.reproduce.published import FINE_GRAINED, ODM, RANK, SOTA_CONV4

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "methods.md"]
BLOCK = re.compile(r"<!-- (table|summary): ([^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


def read_card(name: str) -> dict[str, Any]:
    """A committed card."""
    card: dict[str, Any] = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())
    return card


def papers_number(data: str, shots: int, method: str) -> float | None:
    """What the paper has for a method written as name:option=value, with Conv-4; None where it has nothing."""
    name, _, options = method.rpartition("@")[2].partition(":")
    column = shots == 5
    if options == "vote=rank" and name in RANK:
        return RANK[name]["rank"][2 * (data == "cub") + column]
    if name == "odm" and options.startswith("share=") and shots == 1:
        return dict(zip((0.3, 0.25, 0.2, 0.15), ODM[data], strict=False)).get(float(options.removeprefix("share=")))
    if options and not options.startswith("temperature="):
        return None
    return (SOTA_CONV4 if data == "miniimagenet" else FINE_GRAINED).get(name, (None, None))[column]


def data_of(card: dict[str, Any]) -> str:
    """Which of the paper's data sets a card is about."""
    return "miniimagenet" if "mini" in card["set"].lower() else "cub"


def table(name: str) -> str:
    """All that a card tells: accuracy, paired difference to the first row, what was kept, and the paper's number."""
    card = read_card(name)
    first = shown(card["compared_with"])
    lines = [f"| method | accuracy % | paper | difference to {first} | p | kept | near their class |", "|---" * 7 + "|"]
    for method, found in card["results"].items():
        gap = card["differences"].get(method)
        difference = Difference(**gap) if gap else None
        paper = papers_number(data_of(card), card["shots"], method) if card["set"].endswith("test") else None
        mark = " †" if card["contenders"][method].get("untrained") else ""
        kept = (f"{found['kept']:.1%}", f"{found['kept_true']:.1%}") if found.get("kept", 1) < 1 else ("", "")
        cells = [shown(method) + mark, accuracy(found), f"{paper:.2f}" if paper else "",
                 str(difference) if difference else "", chance(difference.p_value) if difference else "", *kept]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"{card['ways']}-way {card['shots']}-shot, {card['queries']} queries of each class, "
              f"{card['episodes']:,} episodes x {card['repeats']}; [card](results/{name}.json)"]
    return "\n".join(lines)


def chance(p_value: float) -> str:
    """A p-value in words."""
    return f"{p_value:.1g}" if p_value > 1e-20 else "< 1e-20"


def accuracy(found: dict[str, float]) -> str:
    """Mean and interval of one result."""
    return str(Accuracy(found["mean"], found["half_width_t"]))


def shown(method: str) -> str:
    """A contender without the folders above its run: "runs/cub-dn4@dn4" -> "dn4 (cub-dn4)"."""
    run, at, name = method.rpartition("@")
    return f"{name or 'as trained'} ({Path(run).name})" if at else name


def summary(names: list[str]) -> str:
    """One line a card for the README: DMN4 and its rivals beside the paper's."""
    wanted = ("protonet", "dn4", "mn4", "dmn4")
    lines = ["| Conv-4, 5 ways | " + " | ".join(wanted) + " |", "|---" * 5 + "|"]
    for name in names:
        card = read_card(name)
        cells = [f"{accuracy(card['results'][method])} ({papers_number(data_of(card), card['shots'], method)})"
                 for method in wanted]
        label = {"miniimagenet": "miniImageNet", "cub": "CUB"}[data_of(card)]
        lines.append(f"| {label}, {card['shots']} shot{'s' * (card['shots'] > 1)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def refresh(text: str) -> str:
    """A page with every table written anew from its card."""
    def written(found: re.Match[str]) -> str:
        kind, names = found[1], found[2].split()
        return f"<!-- {kind}: {found[2]} -->\n{table(*names) if kind == 'table' else summary(names)}\n<!-- end -->"
    return BLOCK.sub(written, text)


# ------------------------------------------------------------------------------------------- accuracy against CPU hours

STAGES = {"CUB": ("cub-pre", "cub-dmn4-t3"), "miniImageNet": ("mini-pre",)}          # logs, one stage after another


def hours(logs: tuple[str, ...]) -> list[tuple[float, float]]:
    """(CPU hours, validation accuracy) wherever a run looked at val; a stage begins where the one before it ended."""
    points, before = [], 0.0
    for name in logs:
        with open(ROOT / "docs" / "results" / f"log-{name}.csv") as file:
            rows = list(csv.DictReader(file))
        points += [((before + float(row["seconds"])) / 3600, float(row["val"])) for row in rows if row["val"]]
        before += float(rows[-1]["seconds"])
    return points


def draw_hours(path: Path) -> None:
    """The curve of accuracy against CPU hours, for both data sets."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, logs in STAGES.items():
        spent, found = zip(*hours(logs), strict=True)
        axes.plot(spent, [100 * one for one in found], marker="o", label=f"{label} val")
    axes.set(xlabel="hours on one CPU core", ylabel="dmn4, 5-way 1-shot, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(refresh(page.read_text()))
    draw_hours(ROOT / "docs" / "pictures" / "hours.jpg")
