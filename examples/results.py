"""The tables of the README and of docs/, from the committed result cards.

    dmn4 compare data/cub dmn4 mn4 dn4 protonet --weights cub -o runs/cub-1shot        # measure: writes a card
    cp runs/cub-1shot/card.json docs/results/cub-1shot.json                             # publish the card
    python examples/results.py                                                          # rewrite the tables

A page holds a table between `<!-- table: CARD -->` and `<!-- end -->`; `KINDS` lists the other forms.
"""

import csv
import json
import os
import re
import statistics
from pathlib import Path
from typing import Any

from dmn4 import build_backbone
from dmn4.evaluation.intervals import Accuracy, Difference
from dmn4.files import read_json
from dmn4.recipes import parse_options
from dmn4.reproduce.published import FINE_GRAINED, ODM, RANK, SOTA_CONV4
from dmn4.training import cards
from dmn4.training.pretrain import count_places

ROOT = Path(__file__).parents[1]
KINDS_OF = {"fruit": 14, "leaves": 10, "textures": 10, "groceries": 81, "birds": 50}     # classes of the photographs
LABELS = {"miniimagenet": "miniImageNet", "cub": "CUB"}
BLOCK = re.compile(r"<!-- (\w+): ([^>]*?) -->\n.*?<!-- end -->", re.DOTALL)
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
                           *sorted((ROOT / "docs").glob("*/*.md"))) if BLOCK.search(page.read_text())]


def read_card(name: str) -> dict[str, Any]:
    """A committed card."""
    path = ROOT / "docs" / "results" / f"{name}.json"
    return read_json(path) if name.startswith("benchmark-") else cards.read_card(path)


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
    first = shown(card, card["compared_with"])
    lines = [f"| method | accuracy % | paper | difference from {first} | p | kept | nearest is true class |",
             "|---" * 7 + "|"]
    for method, found in card["results"].items():
        gap = card["differences"].get(method)
        difference = Difference(**gap) if gap else None
        known = written(card, method)
        paper = papers_number(data_of(card), card["shots"], known) if card["set"].endswith("test") else None
        mark = " †" if card["contenders"][method]["untrained"] else ""
        kept = (f"{found['kept']:.1%}", f"{found['kept_true']:.1%}") if found.get("kept", 1) < 1 else ("", "")
        cells = [shown(card, method) + mark, accuracy(found), cell(paper),
                 str(difference) if difference else "", chance(difference.p_value) if difference else "", *kept]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"{card['ways']}-way {card['shots']}-shot, {card['queries']} queries of each class, "
              f"{card['episodes']:,} episodes x {card['repeats']}{', with mirror images' * card.get('mirror', False)}; "
              f"[card](results/{name}.json)"]
    return "\n".join(lines)


def cell(paper: float | None) -> str:
    """The paper's number, if it has one."""
    return f"{paper:.2f}" if paper else ""


def chance(p_value: float) -> str:
    """A p-value in words."""
    return f"{p_value:.1g}" if p_value > 1e-20 else "< 1e-20"


def accuracy(found: dict[str, float]) -> str:
    """Mean and interval of one result."""
    return str(Accuracy(found["mean"], found["half_width_t"]))


def shown(card: dict[str, Any], method: str) -> str:
    """A contender without the folders above its run: "runs/cub-dn4@dn4" -> "dn4 (cub-dn4)"."""
    run, at, _ = method.rpartition("@")
    return written(card, method) + f" ({Path(run).name})" * bool(at)


def written(card: dict[str, Any], method: str) -> str:
    """The method of a contender; one that is named by its run alone has the method that the run was trained with."""
    facts = card["contenders"][method]
    name = method.rpartition("@")[2]
    if name:
        return name
    options = ",".join(f"{option}={value}" for option, value in json.loads(facts["method_options"]).items())
    return ":".join(filter(None, [facts["method"], options]))


def summary(*names: str) -> str:
    """One line a card for the README: DMN4 and its rivals, with the paper's numbers where it has the same network."""
    wanted = ("protonet", "dn4", "mn4", "dmn4")
    lines = ["| accuracy in %, 5 classes | patches | " + " | ".join(wanted) + " |", "|---" * 6 + "|"]
    for name in names:
        card = read_card(name)
        cells = [accuracy(card["results"][method]) + beside(card, method) for method in wanted]
        heading = f"{LABELS[data_of(card)]}, {card['shots']} shot{'s' * (card['shots'] > 1)}"
        lines.append(f"| {heading} | {places_of(card)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def photographs(name: str) -> str:
    """One line an image set: the default method and what people use instead, with 5 and with all classes, 5 shots."""
    wanted = ("dmn4-linear", "logistic", "nearest mean")
    lines = (ROOT / "docs" / "results" / f"{name}.md").read_text().splitlines()
    heading, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| "))
    cells = {(row["set"], row["ways"]): [float(row[method].split()[0]) for method in wanted]
             for row in (dict(zip(heading, row, strict=True)) for row in rows) if row["shots"] == "5"}
    names = {"dmn4-linear": "dmn4", "logistic": "logistic regression"}
    columns = [f"{ways} classes: {names.get(method, method)}" if method == wanted[0] else names.get(method, method)
               for ways in ("5", "all") for method in wanted]
    table = [f"| photographs | {' | '.join(columns)} |", "|---" * 7 + "|"]
    for name in dict.fromkeys(name for name, _ in cells):
        shown = " | ".join(f"{accuracy:.1f}" for ways in ("5", "all") for accuracy in cells[name, ways])
        table.append(f"| {name} ({KINDS_OF[name]}) | {shown} |")
    return "\n".join(table)


def beside(card: dict[str, Any], method: str) -> str:
    """The paper's number in brackets; nothing for a card whose network is another than the paper's."""
    if card["contenders"]["dmn4"]["backbone"] != "conv4":
        return ""
    return f" ({papers_number(data_of(card), card['shots'], method):.2f})"


def places(*names: str) -> str:
    """One line a card: DMN4 and the paired differences of its rivals, against the number of descriptors."""
    rivals = ("mn4", "dn4", "meta-baseline")
    lines = ["| | descriptors | dmn4 | " + " | ".join(f"{one} - dmn4" for one in rivals) + " |", "|---" * 6 + "|"]
    for name in names:
        card = read_card(name)
        gaps = [str(Difference(**card["differences"][one])) for one in rivals]
        task = f"{card['set']}, {card['shots']}-shot, {card['episodes']:,} episodes"
        lines.append(f"| {task} | [{places_of(card)}](results/{name}.json) | {accuracy(card['results']['dmn4'])} | "
                     f"{' | '.join(gaps)} |")
    return "\n".join(lines)


def places_of(card: dict[str, Any]) -> int:
    """The descriptors of a picture of 84 pixels in the backbone that a card is about."""
    facts = card["contenders"]["dmn4"]
    name, _, options = facts["backbone"].partition(":")
    return count_places(build_backbone(name, **json.loads(facts["options"]), **parse_options(options)), 84)


def seeds(name: str) -> str:
    """One line a method that was trained with several seeds: its mean, each of them, and the gaps seed by seed."""
    card = read_card(name)
    found: dict[str, list[float]] = {}
    for method, result in card["results"].items():
        found.setdefault(written(card, method), []).append(100 * result["mean"])
    first, lead = next(iter(found.items()))
    lines = [f"| method | mean of {len(lead)} seeds | each | paper | difference from {first}, each |", "|---" * 5 + "|"]
    for method, each in found.items():
        gaps = [] if method == first else [f"{one - other:+.2f}" for one, other in zip(each, lead, strict=True)]
        cells = [method, f"{statistics.mean(each):.2f}", " / ".join(f"{one:.2f}" for one in each),
                 cell(papers_number(data_of(card), card["shots"], method)), " / ".join(gaps)]
        lines.append("| " + " | ".join(cells) + " |")
    half = max(100 * result["half_width_t"] for result in card["results"].values())
    task = f"{card['ways']}-way {card['shots']}-shot, {card['episodes']:,} episodes, the same for all"
    return "\n".join([*lines, "", f"{task}, each ± {half:.2f} at most; [card](results/{name}.json)"])


# ------------------------------------------------------------------------------------------------------------- speed

def heads_summary(one_shot: str, five_shots: str) -> str:
    """The paper's three methods beside the bare products of their search, and beside the dense formulation."""
    one = read_card(one_shot)["cases"]["conv4 5-way 1-shot"]
    five = read_card(five_shots)["cases"]["conv4 5-way 5-shot"]
    lines = ["| times the bare products | 1 shot: scores | training step | 5 shots: scores | training step | "
             "extra MB, 5 shots | the dense form, 5 shots |", "|---" * 7 + "|"]
    for method in ("dn4", "mn4", "dmn4"):
        ratios = [f"{case[kind]['floor_ratio']:.2f}" for case in (one, five) for kind in (method, f"{method} train")]
        extra = " / ".join(f"{five[kind]['extra_mb']:.0f}" for kind in (method, f"{method} train"))
        slower = " / ".join(f"{five[kind]['dense_ratio']:.1f} x" for kind in (method, f"{method} train"))
        dense = f"{slower} the time, {five[f'{method} dense']['extra_mb']:,.0f} MB"
        lines.append("| " + " | ".join([method, *ratios, extra, dense]) + " |")
    return "\n".join(lines)


def heads_of_all(name: str) -> str:
    """Every method on the maps of both backbones, times the bare products of the search: scores / training step."""
    card = read_card(name)
    cases = [f"{backbone} 5-way {shots}-shot" for backbone in ("conv4", "resnet12") for shots in (1, 5)]
    lines = ["| method | " + " | ".join(cases) + " |", "|---" * 5 + "|"]
    methods = list(dict.fromkeys(key.split()[0] for key in card["cases"][cases[0]] if key != "floor"))
    for method in methods:
        cells = []
        for case in cases:
            found = card["cases"][case]
            scores = next((key for key in found if key.split()[0] == method), "")
            step = found.get(f"{method} train")
            part = f" ({scores.partition(' ')[2]})" if " " in scores else ""
            cells.append(f"{times(found[scores])}{f' / {times(step)}' if step else ''}{part}")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def times(figures: dict[str, Any]) -> str:
    """A ratio to the floor in two digits."""
    ratio = figures["floor_ratio"]
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def evaluation(name: str) -> str:
    """An episode over stored maps, beside its head alone and beside embedding the pictures of every episode."""
    lines = ["| | head, ms | stored maps, ms | beyond the head | embedding each episode | in plain PyTorch |",
             "|---" * 6 + "|"]
    for case, one in read_card(name)["cases"].items():
        lines.append(f"| {case} | {1e3 * one['head']:.1f} | {1e3 * one['stored']:.1f} | {100 * one['beyond']:.0f} % | "
                     f"{one['embedded_ratio']:.1f} x | {one['plain_ratio']:.1f} x |")
    return "\n".join(lines)


KINDS = {"table": table, "summary": summary, "photographs": photographs, "places": places, "seeds": seeds,
         "heads": heads_summary, "speed": heads_of_all, "evaluation": evaluation}


def refresh(page: Path) -> str:
    """The text of a page with every table rewritten from its card."""
    cards = os.path.relpath(ROOT / "docs" / "results", page.parent)

    def written(found: re.Match[str]) -> str:
        table = KINDS[found[1]](*found[2].split()).replace("](results/", f"]({cards}/")
        return f"<!-- {found[1]}: {found[2]} -->\n{table}\n<!-- end -->"
    return BLOCK.sub(written, page.read_text())


# ------------------------------------------------------------------------------------------- accuracy against CPU hours

STAGES = {"CUB": ("cub-pre", "cub-dmn4-t3", "cub-dmn4-long"), "miniImageNet": ("mini-pre",),      # logs, in their order
          "CUB, many episodes": ("cub-long", "cub-many"),
          "CUB, conv4-classic": ("cub-classic", "cub-classic-a"),
          "miniImageNet, conv4-classic": ("mini-classic", "mini-nbnn", "mini-long", "mini-bf", "mini-a", "mini-further",
                                          "mini-further-a")}
CORES = dict.fromkeys(("mini-long", "mini-bf", "mini-a", "mini-further", "mini-further-a",        # the others: one
                       "cub-classic", "cub-classic-a"), 2)


def hours(logs: tuple[str, ...]) -> list[tuple[float, float]]:
    """(core hours, validation accuracy) wherever a run looked at val; a stage begins where the one before it ended."""
    points, before = [], 0.0
    for name in logs:
        with open(ROOT / "docs" / "results" / f"log-{name}.csv") as file:
            rows = list(csv.DictReader(file))
        for row, seconds in zip(rows, without_pauses([float(row["seconds"]) for row in rows]), strict=True):
            before += seconds * CORES.get(name, 1)
            points += [(before / 3600, float(row["val"]))] if row["val"] else []
    return points


def without_pauses(clock: list[float]) -> list[float]:
    """Seconds of each epoch; one that took three times the median stood still in between, and counts as the median."""
    epochs = [end - start for start, end in zip([0.0, *clock], clock, strict=False)]
    usual = statistics.median(epochs)
    return [usual if seconds > 3 * usual else seconds for seconds in epochs]


def draw_hours(path: Path) -> None:
    """The curve of accuracy against core hours, for both data sets."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, logs in STAGES.items():
        spent, found = zip(*hours(logs), strict=True)
        axes.plot(spent, [100 * one for one in found], marker="o", label=label)
    axes.set(xlabel="CPU core hours", ylabel="dmn4 on val, 5-way 1-shot, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.8))
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(refresh(page))
    draw_hours(ROOT / "docs" / "pictures" / "hours.jpg")
