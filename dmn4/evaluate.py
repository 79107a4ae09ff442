"""Accuracy over many episodes: embed the split once, then any number of episodes and methods over the stored maps."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .checkpoints import load_tensors, read_json, save_tensors, write_json
from .contenders import Contender
from .data.cache import decoded
from .data.folders import ImageSet
from .data.inspect import copy_name
from .episodes import Episode, sample_episodes, split_labelled
from .errors import InputError
from .images import Transform
from .intervals import Accuracy, accuracy_of
from .maps import IN_MEMORY, pictures, views
from .memory import keep_freed_memory
from .methods.ablation import score_rules
from .methods.base import DescriptorMethod, Method
from .methods.centroid import BaseImages
from .methods.semi import SemiMethod
from .methods.vectors import pooled
from .playing import embed_views, right_shares, score_stored, side_by_side
from .runs import Run, progress, write_card

BASE_IMAGES = 50                                              # of each base class, for methods that train with them
QUICK = 64                                                    # episodes at a time, where each takes microseconds


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


class Kept(NamedTuple):
    """What a rule keeps of the query descriptors."""

    share: float                         # of all of them
    true: float                          # share of the kept ones whose nearest neighbour is of their own class


class Table:
    """One backbone, its maps of the split, and the methods that play over them."""

    def __init__(self, images: ImageSet, contenders: Mapping[str, Contender], shots: int, base: ImageSet | None = None,
                 in_memory: float = IN_MEMORY, seen: Callable[[int], None] = lambda count: None,
                 mirror: bool = False) -> None:
        first = next(iter(contenders.values()))
        self.backbone, self.transform = first.backbone, first.transform
        self.images = decoded(images, self.transform.stored_size)
        self.base = None if base is None else base_images(base, self.transform)
        self.methods = {name: contender.method for name, contender in contenders.items()}
        self.rules = {name: one for name, one in self.methods.items()      # who adopts has a pool of its own
                      if isinstance(one, DescriptorMethod) and not isinstance(one, SemiMethod)}
        self.looks = 1 + mirror                                  # the pictures, and their mirror images
        self.kinds = all_views(contenders, shots)
        self.stores = embed_views(self.backbone, self.images, self.transform, ("flip",) * mirror + self.kinds,
                                  in_memory=in_memory, seen=seen)
        self.means = [store.pooled() for store in self.stores] if any(map(reads_means, self.methods.values())) else []
        self.shots = shots

    @property
    def at_once(self) -> int:
        """How many episodes to play at a time: many if all methods are quick on means, one if any reads whole maps."""
        return QUICK if all(one.vectorised and reads_means(one) for one in self.methods.values()) else 1

    @torch.no_grad()
    def play(self, episodes: Sequence[Episode]) -> dict[str, Tensor]:
        """The accuracies of every method, (E,) each; rules and votes that can share a search do."""
        scores = {name: self.score(method, episodes)                                            # (E, Q, N)
                  for name, method in self.methods.items() if name not in self.rules}
        if self.rules:
            found = [score_rules(*self.seen(episode), self.rules) for episode in episodes]
            scores |= {name: torch.stack([one[name] for one in found]).unflatten(1, (self.looks, -1)).sum(1)
                       for name in self.rules}
        return right_shares(scores, episodes)

    def seen(self, episode: Episode) -> tuple[Tensor, Tensor, Tensor]:
        """The maps of an episode in every look, one look after another: support, its labels, query."""
        support, query = (side_by_side([store[rows] for store in self.stores[: self.looks]])
                          for rows in (episode.support, episode.query))
        return support, episode.support_labels.repeat(self.looks), query

    @torch.no_grad()
    def kept_shares(self, protocol: Protocol, episodes: int = 20) -> Iterator[tuple[str, "Kept"]]:
        """What each rule keeps, over the first few episodes."""
        few = list(islice(protocol.draw(self.images.labels), episodes))
        for name, rule in self.rules.items():
            kept, true = 0.0, 0.0
            for one in few:
                matches = rule.match(*self.seen(one))
                mask = rule.keep(matches)                                                       # (Q, M)
                truth = one.query_labels.repeat(self.looks)[:, None]                            # (Q, 1)
                kept += float(mask.float().mean()) / len(few)
                true += float((matches.winner == truth)[mask].float().mean()) / len(few)
            yield name, Kept(kept, true)

    def score(self, method: Method, episodes: Sequence[Episode]) -> Tensor:
        """Scores of one method that shares no search: (E, Q, N)."""
        if hasattr(method, "adapt") and self.base is not None:
            return torch.stack([self.score_adapted(method, episode) for episode in episodes])
        stores = self.means if reads_means(method) else self.stores
        own = [stores[self.looks + place] for place in places(self.kinds, views(method, self.shots))]
        return score_stored(method, [*stores[: self.looks], *own], episodes, self.looks)

    def score_adapted(self, method: Any, episode: Episode) -> Tensor:
        """Scores of a method that trains the backbone for every episode, the slow way: (Q, N)."""
        if self.looks > 1:
            raise InputError("a method that trains the backbone in every episode sees no mirror images: leave out "
                             "--mirror or --base-split")
        support, query = (self.transform(pictures(self.images, rows)) for rows in (episode.support, episode.query))
        backbone = method.adapt(self.backbone, support, episode.support_labels, self.base)
        return method(backbone(support), episode.support_labels, backbone(query))


def all_views(contenders: Mapping[str, Contender], shots: int) -> tuple[str, ...]:
    """The extra pictures of every image that the contenders want; those that several want are made once."""
    wanted = Counter[str]()
    for one in contenders.values():
        wanted |= Counter(views(one.method, shots))
    return tuple(wanted.elements())


def places(kinds: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where the extra maps that a method wants are among all of them: one for each kind it names."""
    of_kind = {kind: iter([place for place, one in enumerate(kinds) if one == kind]) for kind in set(kinds)}
    return [next(of_kind[kind]) for kind in wanted]


def reads_means(method: nn.Module) -> bool:
    """Whether a method reads nothing but the mean of each map: its `vector` is `pooled`."""
    return getattr(method, "vector", None) is pooled


def base_images(base: ImageSet, transform: Transform) -> BaseImages:
    """Some images of every base class, as the backbone takes them, for methods that train with them at test time."""
    chosen = decoded(base.first_of_each_class(BASE_IMAGES), transform.stored_size)
    return BaseImages(transform(pictures(chosen, slice(None))), torch.from_numpy(chosen.labels))


# ------------------------------------------------------------------------------------------------------ the whole thing

def evaluate(images: ImageSet, contenders: Mapping[str, Contender], protocol: Protocol = PAPER,
             folder: str | Path | None = None, *, resume: bool = False, base: ImageSet | None = None,
             in_memory: float = IN_MEMORY, shown: bool = True, mirror: bool = False) -> Results:
    """Accuracies of all contenders on the same episodes of `images`.

    With a `folder` they are saved there every minute, with the result card; stopped, it goes on with resume=True, and
    done, to more episodes. `base` are the training classes, for methods that train the backbone at test time. With
    `mirror` every picture is seen with its mirror image: both are shots, and the scores of both queries are added.
    """
    keep_freed_memory()
    found = decoded(images, next(iter(contenders.values())).transform.stored_size)
    settings = {"stage": "evaluate", "data": found.fingerprint, "set": images.name, **asdict(protocol),
                "contenders": {name: contender.facts for name, contender in contenders.items()},
                **({"mirror": True} if mirror else {})}
    if folder and resume:
        lengthen(Path(folder), settings)
    run = Run(folder, settings, resume, save_every=60) if folder else None
    total = protocol.episodes * protocol.repeats
    values = load_values(run, list(contenders), total)
    done = int((~np.isnan(np.stack(list(values.values())))).all(0).sum())
    tables = set_tables(images, contenders, protocol, base, in_memory, shown, mirror) if done < total else []
    with run.stoppable() if run else nullcontext(), progress("episodes", total, done, shown) as bar:
        drawn, at_once = protocol.draw(found.labels, done), min((table.at_once for table in tables), default=1)
        while episodes := list(islice(drawn, at_once)):
            for table in tables:
                for name, shares in table.play(episodes).items():
                    values[name][done : done + len(episodes)] = shares
            done += len(episodes)
            bar.advance_by(len(episodes))
            if run and run.is_due:
                save_values(run, values)
            if run and run.stopping:
                break
    results = Results({name: value.reshape(protocol.repeats, -1) for name, value in values.items()}, protocol,
                      f"{images.name}, fingerprint {found.fingerprint} ({copy_name(found) or 'no copy known by name'})")
    if run:
        save_values(run, values)
        if results.is_complete and not (run.folder / "card.json").exists():
            write_results(run, results, {name: one for table in tables for name, one in table.kept_shares(protocol)})
    return results


def set_tables(images: ImageSet, contenders: Mapping[str, Contender], protocol: Protocol, base: ImageSet | None,
               in_memory: float, shown: bool, mirror: bool) -> list[Table]:
    """One table for every backbone among the contenders, the split embedded."""
    groups: dict[tuple[int, Transform], dict[str, Contender]] = {}
    for name, contender in contenders.items():
        groups.setdefault((id(contender.backbone), contender.transform), {})[name] = contender
    looks = sum(1 + mirror + len(all_views(group, protocol.shots)) for group in groups.values())
    with progress("embed", looks * len(images), shown=shown) as bar:
        return [Table(images, group, protocol.shots, base, in_memory, bar.advance_by, mirror)
                for group in groups.values()]


def lengthen(folder: Path, settings: Mapping[str, Any]) -> None:
    """Let the evaluation in a folder go on to more episodes than it was meant for: the first ones stay the same."""
    path, wanted = folder / "settings.json", settings["episodes"]
    before = read_json(path) if path.exists() else {}
    is_longer = before.get("episodes", wanted) < wanted and before | {"episodes": wanted} == settings
    if is_longer and settings["repeats"] == 1:
        (folder / "card.json").unlink(missing_ok=True)
        write_json(path, dict(settings))


def load_values(run: Run | None, names: list[str], total: int) -> dict[str, np.ndarray]:
    """The accuracies that were saved before, NaN where there are none: name -> (total,)."""
    values = {name: np.full(total, np.nan, np.float32) for name in names}
    if run and (run.folder / "accuracies.safetensors").exists():
        tensors, about = load_tensors(run.folder / "accuracies.safetensors")
        run.seconds = float(about["seconds"])
        if tensors.keys() != values.keys() or any(len(one) > total for one in tensors.values()):
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
    """Write the result card, with both interval formulas and what each rule keeps."""
    found = {name: {"mean": results.accuracy(name).mean, "half_width_t": results.accuracy(name).half_width,
                    "half_width_normal": results.accuracy(name, "normal").half_width,
                    **({"kept": kept[name].share, "kept_true": kept[name].true} if name in kept else {})}
             for name in results.values}
    write_card(run.folder / "card.json", **run.settings, results=found, seconds=run.elapsed)
