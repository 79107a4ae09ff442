"""How large the temperature of a few-shot classifier should be, before it has seen a single mistake of its own.

    python examples/temperature_law.py CUB/train miniImageNet/train

For each number of ways and shots, the temperature that makes the scores of real queries the best probabilities, as the
log of its ratio to the spread of those scores. The line through all of them is what `dmn4/classify/temperature.py`
begins with. At one shot nothing can be held out: there the spread is found from pictures that are judged without their
own class.
"""

from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from choose_defaults import LAYER, Out, chosen_pictures, layer_maps, stored_maps, written_method
from torch import Tensor

from dmn4.classify.shots import Shots
from dmn4.classify.temperature import best_power, spread_of, strange_scores
from dmn4.episodes.sampling import sample_episodes
from dmn4.files import write_file
from dmn4.training.runs import progress

TRIED = ("dmn4:centre=shots", "dmn4", "dn4", "mn4", "protonet", "meta-baseline")
WAYS, SHOTS, QUERIES = (2, 3, 5, 10, 20), (1, 2, 5, 10), 5


class Found(NamedTuple):
    """What some episodes of a set, a method, so many ways and shots gave."""

    data: str
    method: str
    ways: int
    shots: int
    power: float          # log of the best temperature over the spread
    strange: float        # spread of pictures judged without their class, as a share of the spread; NaN unless one shot


@torch.inference_mode()
def measured(data: str, labels: np.ndarray, maps: Tensor, text: str, ways: int, shots: int, episodes: int) -> Found:
    """The best temperature over all episodes of a set, each of which has a spread of its own."""
    method = written_method(text, maps.shape[1])
    scores, truth, shares = [], [], []
    for episode in sample_episodes(labels, ways, shots, QUERIES, episodes=episodes, seed=shots):
        said = method(maps[episode.support], episode.support_labels, maps[episode.query])       # (Q, N)
        scores.append(said / spread_of(said))
        truth.append(episode.query_labels)
        if shots == 1 and ways > 2:
            few = Shots.of(maps[episode.support], episode.support_labels, torch.zeros_like(episode.support),
                           torch.arange(ways))
            strange = strange_scores(lambda part, single: (method(*part.plain(), single.maps.float()),) * 2, few)
            shares.append(spread_of(strange) / spread_of(said))
    power = best_power(torch.cat(scores), torch.cat(truth))
    return Found(data, text, ways, shots, power, float(np.mean(shares)) if shares else np.nan)


def law(rows: list[Found]) -> tuple[np.ndarray, float]:
    """Least squares: power = a + b ln(ways) + c ln(shots) -> (a, b, c), and the deviation of the rows from it."""
    line = np.stack([[1, np.log(row.ways), np.log(row.shots)] for row in rows])
    powers = np.array([row.power for row in rows])
    found = np.linalg.lstsq(line, powers, rcond=None)[0]
    return found, float((powers - line @ found).std())


def tables(rows: list[Found]) -> list[str]:
    """The powers of each set and method, then the line through them, as Markdown."""
    cells = list(product(WAYS, SHOTS))
    lines = ["| set | method | " + " | ".join(f"{ways}/{shots}" for ways, shots in cells) + " |",
             "|---|---|" + "---|" * len(cells)]
    for data, method in dict.fromkeys((row.data, row.method) for row in rows):
        powers = {(row.ways, row.shots): row.power for row in rows if (row.data, row.method) == (data, method)}
        lines.append(f"| {data} | {method} | " + " | ".join(f"{powers[cell]:.2f}" for cell in cells) + " |")
    (start, by_ways, by_shots), far = law(rows)
    strange = [(row.ways, row.strange) for row in rows if row.strange == row.strange]
    missing = np.mean([ways * (1 - share) for ways, share in strange])
    return [*lines, "", f"power = {start:.2f} {by_ways:+.2f} ln(ways) {by_shots:+.2f} ln(shots), deviation {far:.2f}",
            "", f"one shot: the spread without the own class is 1 - {missing:.2f} / ways of the spread with it"]


def main(data: list[str], out: Out = Path("defaults"), per_class: int = 16,
         episodes: Annotated[int, typer.Option(help="Of each number of ways and shots.")] = 20) -> None:
    """Measure every method at all ways and shots on each of these folders of class folders."""
    rows = []
    with progress("episodes", len(data) * len(TRIED) * len(WAYS) * len(SHOTS)) as bar:
        for place in data:
            images, name = chosen_pictures(place, per_class), "/".join(Path(place).parts[-2:])
            maps = layer_maps(stored_maps(images, ("plain",)), "plain", LAYER)
            for text, ways, shots in product(TRIED, WAYS, SHOTS):
                rows.append(measured(name, images.labels, maps, text, ways, shots, episodes))
                bar.advance(f"{text}, {ways} ways")
    about = f"Log of temperature over spread at ways/shots, {episodes} episodes each, {QUERIES} queries a class."
    write_file(out / "temperature-law.md", "\n".join([about, "", *tables(rows), ""]))
    typer.echo((out / "temperature-law.md").read_text())


if __name__ == "__main__":
    typer.run(main)
