"""Accuracy over many episodes: embed the split once, then any number of episodes and methods over the stored maps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data.cache import decoded
from ..data.folders import ImageSet
from ..data.inspect import copy_name
from ..episodes.maps import IN_MEMORY
from ..episodes.sampling import Episode, sample_episodes, split_labelled
from ..errors import InputError
from ..files import load_tensors, read_json, save_tensors, write_json
from ..images import Transform
from ..training.cards import write_card
from ..training.runs import Notes, Run, progress
from .contenders import Contender
from .intervals import Accuracy, accuracy_of
from .split import EmbeddedSplit, Kept, all_views

KEPT = 20             # episodes in which the kept descriptors are counted


@dataclass(frozen=True)
class Protocol:
    """Which episodes are drawn. Repeat r draws with seed + r; episode i of it depends on (seed + r, i) alone."""

    ways: int = 5
    shots: int = 1
    queries: int = 15
    episodes: int = 10_000
    repeats: int = 1
    seed: int = 0
    unlabelled: int = 0                  # images of each class, for the semi-supervised methods
    distractors: int = 0                 # further classes that only give unlabelled images
    labelled: float = 1.0                # share of each class that is labelled; the rest gives the unlabelled images

    def draw(self, labels: np.ndarray, start: int = 0) -> Iterator[Episode]:
        """The episodes of all repeats, one after another, from number `start` on."""
        for repeat in range(start // self.episodes, self.repeats):
            first, seed = max(0, start - repeat * self.episodes), self.seed + repeat
            labelled = split_labelled(labels, self.labelled, seed) if self.labelled < 1 else None
            yield from sample_episodes(labels, self.ways, self.shots, self.queries, episodes=self.episodes - first,
                                       seed=seed, start=first, unlabelled=self.unlabelled,
                                       distractors=self.distractors, labelled=labelled)


PAPER = Protocol()


@dataclass(frozen=True)
class Results:
    """Accuracies of every contender on the same episodes."""

    values: dict[str, np.ndarray]        # each (repeats, episodes); NaN where the evaluation was stopped before
    protocol: Protocol
    data: str = ""                       # which pictures: name, fingerprint, and the known copy that they are

    @property
    def is_complete(self) -> bool:
        """Whether every episode was played."""
        return not any(np.isnan(values).any() for values in self.values.values())

    def accuracy(self, name: str, formula: str = "t") -> Accuracy:
        """The result of one contender."""
        return accuracy_of(self.values[name], formula)


def play_here(splits: Sequence[EmbeddedSplit], protocol: Protocol, labels: np.ndarray,
              numbers: range) -> Iterator[dict[str, np.ndarray]]:
    """The accuracies of the episodes of these numbers, in order, a few at a time: (E,) of every contender."""
    drawn = islice(protocol.draw(labels, numbers.start), len(numbers))
    at_once = min((split.at_once for split in splits), default=1)
    while episodes := list(islice(drawn, at_once)):
        yield {name: shares.numpy() for split in splits for name, shares in split.play(episodes).items()}


Play = Callable[[Sequence[EmbeddedSplit], Protocol, np.ndarray, range], Iterator[dict[str, np.ndarray]]]


# ------------------------------------------------------------------------------------------------------ the whole thing

def evaluate(images: ImageSet, contenders: Mapping[str, Contender], protocol: Protocol = PAPER,
             folder: str | Path | None = None, *, resume: bool = False, base: ImageSet | None = None,
             in_memory: float = IN_MEMORY, shown: bool = True, mirror: bool = False,
             play: Play = play_here) -> Results:
    """Accuracies of all contenders on the same episodes of `images`.

    With a `folder` they are saved there every minute, with the result card; stopped, it goes on with resume=True, and
    done, to more episodes. `base` are the training classes, for methods that train the backbone at test time. With
    `mirror` every picture is seen with its mirror image: both are shots, and the scores of both queries are added.
    `play` is who plays the episodes over the stored maps.
    """
    pictures = decoded(images, next(iter(contenders.values())).transform.stored_size)
    settings = {"stage": "evaluate", "data": pictures.fingerprint, "set": images.name, **asdict(protocol),
                "contenders": {name: contender.facts for name, contender in contenders.items()},
                **({"mirror": True} if mirror else {})}
    if folder and resume:
        lengthen(Path(folder), settings)
    run = Run(folder, settings, resume, save_every=60) if folder else None
    total = protocol.episodes * protocol.repeats
    values = load_values(run, list(contenders), total)
    done = int((~np.isnan(np.stack(list(values.values())))).all(0).sum())
    unfinished = done < total or (run is not None and not (run.folder / "card.json").exists())    # it needs maps too
    splits = embed_splits(images, contenders, protocol, base, in_memory, shown, mirror) if unfinished else []
    with run.stoppable() if run else nullcontext(), progress("episodes", total, done, shown) as bar:
        for played in play(splits, protocol, pictures.labels, range(done, total)):
            count = len(next(iter(played.values())))
            for name, shares in played.items():
                values[name][done : done + count] = shares
            done += count
            bar.advance_by(count)
            if run and run.is_due:
                save_values(run, values)
            if run and run.stopping:
                break
    results = Results({name: value.reshape(protocol.repeats, -1) for name, value in values.items()}, protocol,
                      f"{images.name}, fingerprint {pictures.fingerprint} "
                      f"({copy_name(pictures) or 'no copy known by name'})")
    if run:
        save_values(run, values)
        if results.is_complete and not (run.folder / "card.json").exists():
            few = list(islice(protocol.draw(pictures.labels), KEPT))
            write_results(run, results, {name: share for split in splits for name, share in split.kept_shares(few)})
    return results


def embed_splits(images: ImageSet, contenders: Mapping[str, Contender], protocol: Protocol, base: ImageSet | None,
               in_memory: float, shown: bool, mirror: bool) -> list[EmbeddedSplit]:
    """The split embedded by every backbone among the contenders."""
    groups: dict[tuple[int, Transform], dict[str, Contender]] = {}
    for name, contender in contenders.items():
        groups.setdefault((id(contender.backbone), contender.transform), {})[name] = contender
    looks = sum(1 + mirror + len(all_views(group, protocol.shots)) for group in groups.values())
    with progress("embed", looks * len(images), shown=shown) as bar:
        return [EmbeddedSplit(images, group, protocol.shots, base, in_memory, bar.advance_by, mirror)
                for group in groups.values()]


def lengthen(folder: Path, settings: Mapping[str, Any]) -> None:
    """Let the evaluation in a folder go on to more episodes than it was meant for: the first ones stay the same."""
    path, wanted = folder / "settings.json", settings["episodes"]
    before = read_json(path) if path.exists() else {}
    played = before.get("episodes", wanted)
    is_longer = isinstance(played, int) and played < wanted and before | {"episodes": wanted} == settings
    if is_longer and settings["repeats"] == 1:
        (folder / "card.json").unlink(missing_ok=True)
        write_json(path, dict(settings))


def load_values(run: Run | None, names: list[str], total: int) -> dict[str, np.ndarray]:
    """The accuracies that were saved before, NaN where there are none: name -> (total,)."""
    values = {name: np.full(total, np.nan, np.float32) for name in names}
    if run and (run.folder / "accuracies.safetensors").exists():
        tensors, about = load_tensors(run.folder / "accuracies.safetensors")
        run.seconds = Notes.read(about, "accuracies.safetensors").seconds
        if tensors.keys() != values.keys() or any(row.ndim != 1 or len(row) > total for row in tensors.values()):
            raise InputError(f"accuracies.safetensors in {str(run.folder)!r} is of another evaluation, perhaps of one "
                             "that still runs there: choose another folder")
        for name, tensor in tensors.items():
            values[name][: len(tensor)] = tensor
    return values


def save_values(run: Run, values: Mapping[str, np.ndarray]) -> None:
    """Save the accuracies of the episodes played so far."""
    run.tick()
    save_tensors(run.folder / "accuracies.safetensors",
                 {name: torch.from_numpy(value) for name, value in values.items()}, {"seconds": run.seconds})


def write_results(run: Run, results: Results, kept: Mapping[str, Kept]) -> None:
    """Write the result card, with both interval formulas and what each method keeps."""
    figures = {name: {"mean": results.accuracy(name).mean, "half_width_t": results.accuracy(name).half_width,
                    "half_width_normal": results.accuracy(name, "normal").half_width,
                    **({"kept": kept[name].share, "kept_true": kept[name].true} if name in kept else {})}
             for name in results.values}
    write_card(run.folder / "card.json", **run.settings, results=figures, seconds=run.elapsed)
