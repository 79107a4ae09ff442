"""Does it help to teach what pictures are not? Strangers that are refused, before and after some were ruled out.

    python examples/ruled_out.py fruit photos/birds

In each run eight classes (six of ten) are learnt from five pictures each, and a few pictures of three other classes are
ruled out. Where a tenth of the known pictures is refused, how many are of new pictures of those three classes, and of
pictures of classes that nobody ever showed? Maps stay in the cache folder.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from photo_grid import COMPARED, Photos, photos
from torch import Tensor

from dmn4.classify.counterexamples import ALL, Counterexamples, Objections
from dmn4.classify.maps import Maps
from dmn4.classify.pictures import Pictures
from dmn4.classify.shots import Shots
from dmn4.evaluation.intervals import accuracy_of, paired_difference
from dmn4.files import write_file
from dmn4.methods.base import HEAD_PRIOR
from dmn4.methods.linear_head import fit_head
from dmn4.methods.vectors import pooled

SHOTS, STRANGE, TAUGHT, ASKED, REFUSED = 5, 3, (1, 3, 9), 8, 0.1
Found = dict[tuple[str, int], list[float]]


def fits(means: Tensor, labels: Tensor, taught: Tensor, asked: Tensor) -> Tensor:
    """How well pictures fit their best class: labelled means (n, C), (n,), ruled out (m, C), asked (Q, C) -> (Q,)."""
    blocks = [COMPARED, means.shape[1] - COMPARED]
    if not len(taught):
        return fit_head(means, labels, blocks, HEAD_PRIOR).scores(asked).amax(1)
    shots = Shots(Maps((), torch.arange(len(means)), means), labels, torch.zeros_like(labels), torch.arange(len(means)))
    ruled_out = Counterexamples(taught, torch.full((len(taught),), ALL), Pictures())
    likely, losses = Objections.of(ruled_out, shots, blocks).weigh(asked)
    return (likely - losses).amax(1)


def trial(means: Tensor, labels: np.ndarray, run: int, found: Found) -> None:
    """One run: the share of strangers that is refused, shown before or never, for each number of pictures ruled out."""
    rng = np.random.default_rng(run)
    rows = [rng.permutation(np.flatnonzero(labels == label)) for label in rng.permutation(np.unique(labels))]
    ways = 8 if len(rows) > 16 else 6
    known, shown, never = rows[:ways], rows[ways : ways + STRANGE], rows[ways + STRANGE :][:10]
    support = means[np.concatenate([some[:SHOTS] for some in known])]
    answers = torch.arange(ways).repeat_interleave(SHOTS)
    asked = {"known": known, "shown": shown, "never": never} if never else {"known": known, "shown": shown}
    for count in (0, *TAUGHT):
        taught = means[[some[place] for place in range(SHOTS) for some in shown][:count]]
        said = {kind: fits(support, answers, taught,
                           means[np.concatenate([some[SHOTS : SHOTS + ASKED] for some in each])])
                for kind, each in asked.items()}
        limit = said["known"].quantile(REFUSED)
        for kind in asked.keys() - {"known"}:
            found.setdefault((kind, count), []).append(float((said[kind] <= limit).double().mean()))


def rows_of(data: Photos, runs: int) -> list[str]:
    """The lines of a Markdown table: refused strangers before, and the gain for each number of pictures ruled out."""
    means, found = torch.cat([pooled(part.float()) for part in data.maps.split(256)]), Found()
    for run in range(runs):
        trial(means, data.labels, run, found)
    shares = {key: np.array(values) for key, values in found.items()}
    return [f"| {data.name} | {kind} | {accuracy_of(shares[kind, 0][None])} | "
            + " | ".join(str(paired_difference(shares[kind, count], shares[kind, 0])) for count in TAUGHT) + " |"
            for kind in ("shown", "never") if (kind, 0) in shares]


def main(data: list[str], out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the table.")] = Path(),
         runs: int = 50) -> None:
    """Measure `fruit` or folders of class folders, and write ruled-out.md."""
    lines = [f"{runs} runs; strangers that are refused where {REFUSED:.0%} of the known pictures are, in %; then the "
             "paired gain with so many of them ruled out.", "",
             "| pictures | strangers | refused | " + " | ".join(f"{count} ruled out" for count in TAUGHT) + " |",
             "|---|---|---|" + "---|" * len(TAUGHT)]
    for name in data:
        lines += rows_of(photos(name), runs)
    write_file(out / "ruled-out.md", "\n".join([*lines, ""]))
    typer.echo("\n".join(lines))


if __name__ == "__main__":
    typer.run(main)
