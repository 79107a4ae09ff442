"""Evaluations on a Ray cluster: episodes are numbered, so any worker plays any of them and the card is the same."""

import copy
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..episodes.maps import MapStore
from ..errors import InputError, choose
from ..evaluation.evaluate import Play, Protocol, play_here
from ..evaluation.split import QUICK, EmbeddedSplit
from .cluster import ENGINES, joined, spread

CHUNK = 4 * QUICK                                             # episodes that a worker plays at a time
Shares = dict[str, np.ndarray]                                # accuracies of each contender, (E,)


@dataclass(frozen=True)
class Game:
    """Everything that episodes are played with; its maps are arrays, which the workers of a node share."""

    splits: list[EmbeddedSplit]                               # without their maps
    maps: list[tuple[list[np.ndarray], list[np.ndarray]]]     # of each: whole ones, and their means
    protocol: Protocol
    labels: np.ndarray

    @classmethod
    def of(cls, splits: Sequence[EmbeddedSplit], protocol: Protocol, labels: np.ndarray) -> "Game":
        """The game of these splits."""
        maps = [tuple([store.values.numpy() for store in stores] for stores in (split.stores, split.means))
                for split in splits]
        return cls([stripped(split) for split in splits], maps, protocol, labels)     # type: ignore[arg-type]

    def play(self, start: int, stop: int) -> Shares:
        """The accuracies of the episodes from one number up to another."""
        parts = list(play_here(self.whole_splits(), self.protocol, self.labels, range(start, stop)))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def whole_splits(self) -> list[EmbeddedSplit]:
        """The splits with their maps."""
        splits = [copy.copy(split) for split in self.splits]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)      # shared arrays cannot be written to, and nobody does
            for split, (stores, means) in zip(splits, self.maps, strict=True):
                split.stores = [MapStore(torch.from_numpy(values)) for values in stores]
                split.means = [MapStore(torch.from_numpy(values)) for values in means]
        return splits


def stripped(split: EmbeddedSplit) -> EmbeddedSplit:
    """A split without its maps, and without its pictures if no method trains with them."""
    light = copy.copy(split)
    light.stores, light.means = [], []
    if split.base is None:
        del light.images
    return light


def player(engine: str = "local", address: str | None = None, workers: int | None = None) -> Play:
    """What plays the episodes of an evaluation: this process, or a Ray cluster."""
    if choose("engine", engine, ENGINES) == "local":
        if address is not None or workers is not None:
            raise InputError("--address and --workers are for --engine ray")
        return play_here

    def play(splits: Sequence[EmbeddedSplit], protocol: Protocol, labels: np.ndarray,
             numbers: range) -> Iterator[Shares]:
        with joined(address, workers) as ray:
            game = ray.put(Game.of(splits, protocol, labels))
            bounds = [(start, min(start + CHUNK, numbers.stop)) for start in numbers[::CHUNK]]
            played = spread(ray, play_there, (([game], *bound) for bound in bounds), workers)
            yield from in_order(played, [start for start, _ in bounds])

    return play


PLAYING: dict[str, Game] = {}                                 # of this process, at most one


def play_there(game: list[Any], start: int, stop: int) -> tuple[int, Shares]:
    """Number of the first episode and the accuracies from there on, on whatever node."""
    key = game[0].hex()
    if key not in PLAYING:
        import ray

        torch.set_num_threads(1)
        PLAYING.clear()
        PLAYING[key] = ray.get(game[0])
    return start, PLAYING[key].play(start, stop)


def in_order(played: Iterable[tuple[int, Shares]], starts: Sequence[int]) -> Iterator[Shares]:
    """Results in the order of their starts; one that is early waits."""
    early: dict[int, Shares] = {}
    results = iter(played)
    for start in starts:
        while start not in early:
            number, shares = next(results)
            early[number] = shares
        yield early.pop(start)
