"""Do unlabelled pictures help, and do strangers among them harm? Measured on photographs, paired, no training.

    python examples/unlabelled_pictures.py fruit                # the demo's photographs
    python examples/unlabelled_pictures.py CUB/val              # any folder of class folders

Half of every class is labelled and gives shots and queries, the other half is not and gives the unlabelled pictures.
The tasks have the same shots and queries in every setting, so all differences are paired.
"""

import time
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from dmn4.data.folders import ImageSet, read_folder
from dmn4.data.samples import fruit
from dmn4.episodes.scoring import right_shares
from dmn4.evaluation.contenders import load_trained
from dmn4.evaluation.evaluate import Protocol
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.evaluation.split import EmbeddedSplit
from dmn4.files import write_file
from dmn4.training.cards import write_card
from dmn4.training.runs import progress

TWINS = {"dmn4-semi": "dmn4", "mn4-semi": "mn4", "pn-semi:vector=gap": "protonet"}     # each beside its supervised form
SETTINGS = {"none": (0, 0), "5 unlabelled": (5, 0), "20 unlabelled": (20, 0), "20, and 5 strange classes": (20, 5)}
SHOTS = (1, 5)
Values = dict[str, np.ndarray]                                                         # method -> (episodes,)


@torch.no_grad()
def play(split: EmbeddedSplit, protocol: Protocol) -> Values:
    """The accuracy on each task: of the supervised methods without unlabelled pictures, of their twins with them."""
    names = list(TWINS if protocol.unlabelled else TWINS.values())
    values: dict[str, list[float]] = {name: [] for name in names}
    for episode in protocol.draw(split.images.labels):
        scores = {name: split.score(split.methods[name], [episode]) for name in names}
        for name, share in right_shares(scores, [episode]).items():
            values[name].append(float(share))
    return {name: np.array(each) for name, each in values.items()}


def measure(images: ImageSet, episodes: int, queries: int) -> dict[int, dict[str, Values]]:
    """Accuracies by shots and setting; every picture passes the network once."""
    trained = load_trained("imagenet", "efficientnet_lite0")
    names = [name for pair in TWINS.items() for name in pair]
    with progress("embed", len(images)) as bar:
        contenders = {name: trained.with_method(name) for name in names}
        split = EmbeddedSplit(images, contenders, max(SHOTS), seen=bar.advance_by)
    found: dict[int, dict[str, Values]] = {shots: {} for shots in SHOTS}
    with progress("settings", len(SHOTS) * len(SETTINGS)) as bar:
        for shots, (setting, (unlabelled, strange)) in product(SHOTS, SETTINGS.items()):
            found[shots][setting] = play(split, Protocol(5, shots, queries, episodes, unlabelled=unlabelled,
                                                         distractors=strange, labelled=0.5))
            bar.advance()
    return found


def summary(found: dict[str, Values]) -> list[dict[str, Any]]:
    """A row for every method at one number of shots: alone, what each setting adds, and what strangers cost."""
    none, *_, clean, mixed = found.values()
    return [{"method": semi, "without": accuracy_of(none[plain][None]),
             **{setting: paired_difference(values[semi], none[plain]) for setting, values in list(found.items())[1:]},
             "cost of strangers": paired_difference(mixed[semi], clean[semi])} for semi, plain in TWINS.items()]


def markdown(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown split."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(map(str, row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(data: str, out: Annotated[Path, typer.Option("-o", "--out", help="Folder for card and split.")] = Path("semi"),
         per_class: int = 40, episodes: int = 400, queries: int = 10) -> None:
    """Accuracy with and without unlabelled pictures, and with strange ones among them."""
    start, everything = time.monotonic(), fruit() if data == "fruit" else read_folder(data)
    images = everything.first_of_each_class(per_class)
    rows = {shots: summary(values) for shots, values in measure(images, episodes, queries).items()}
    name = f"semi-{'-'.join(Path(data).parts[-2:]).lower()}"
    write_card(out / f"{name}.json", data=images.fingerprint, set=images.name, pictures=len(images), ways=5,
               classes=len(images.classes), queries=queries, episodes=episodes, labelled=0.5, seed=0, interval="t",
               backbone="efficientnet_lite0", weights="imagenet", script="examples/unlabelled_pictures.py",
               seconds=time.monotonic() - start,
               results={shots: [{key: value if isinstance(value, str) else asdict(value) for key, value in row.items()}
                                for row in each] for shots, each in rows.items()})
    text = "\n".join(f"{shots} shot{'s' * (shots > 1)}\n\n{markdown(each)}" for shots, each in rows.items())
    write_file(out / f"{name}.md", text)
    typer.echo(text)


if __name__ == "__main__":
    typer.run(main)
