"""Episodes: which pictures are support, query and unlabelled. Episode i depends on (seed, i) and the labels alone."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator, default_rng
from torch import Tensor

from ..errors import InputError

EMPTY = torch.empty(0, dtype=torch.long)


class Episode(NamedTuple):
    """One task. Pictures are places in the data set; labels are 0..N-1, class-major in support and in query."""

    support: Tensor                                                # (n,)  n = sum of the shots
    support_labels: Tensor                                         # (n,)
    query: Tensor                                                  # (Q,)
    query_labels: Tensor                                           # (Q,)
    classes: tuple[int, ...]                                       # N labels of the data set
    unlabelled: Tensor = EMPTY                                     # (U,)  shuffled, distractors among them
    number: int = 0


def sample_episodes(
    labels: Sequence[int] | np.ndarray | Tensor,
    ways: int = 5,
    shots: int | tuple[int, int] = 1,
    queries: int = 15,
    *,
    episodes: int,
    seed: int = 0,
    start: int = 0,
    step: int = 1,
    unlabelled: int = 0,
    distractors: int = 0,
    labelled: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[Episode]:
    """`episodes` tasks, numbered start, start + step, ...; the share of process r of n is start=r, step=n.

    `shots`: a number for every class, or (low, high): each class of an episode draws its own. `queries`: of each class.
    `unlabelled`: pictures of each class, those of the episode and `distractors` more. `labelled`: mask (n,) from
    `split_labelled`: support and query come from inside it, unlabelled pictures from outside. `groups`: a number (n,)
    for each picture, equal for identical ones (`ImageSet.duplicates`): an episode holds no number twice. `names`: of
    the classes, for messages.
    """
    low, high = (shots, shots) if isinstance(shots, int) else shots
    _check_request(ways, low, queries, seed)
    inside = _by_class(labels, labelled)
    outside = inside if labelled is None else _by_class(labels, ~labelled)
    left_over = unlabelled if labelled is None else 0              # without a mask: what support and query leave over
    _check_classes(inside, ways + distractors, groups, names, shots=high, queries=queries, unlabelled=left_over)
    _check_classes(outside, ways + distractors, groups, names, unlabelled=unlabelled)

    known = np.array(list(inside))

    def draw(index: int) -> Episode:
        rng, used = default_rng([seed, index]), set[int]()
        classes = rng.permutation(known)[: ways + distractors].tolist()
        counts = [low] * ways if low == high else rng.integers(low, high, ways, endpoint=True).tolist()
        tasks, extra = [], []
        for label, shot in zip(classes, counts, strict=False):                                   # the first N
            rows = _pick(inside[label], shot + queries + left_over, rng, groups, used)
            tasks.append(rows[: shot + queries])
            extra.append(rows[shot + queries :])
        others = classes[ways:] if labelled is None else classes
        extra += [_pick(outside[label], unlabelled, rng, groups, used) for label in others if unlabelled]
        pool = torch.from_numpy(rng.permutation(np.concatenate(extra))) if unlabelled else EMPTY
        return _assemble(tasks, counts, tuple(classes[:ways]), pool, index)

    return (draw(index) for index in range(start, start + step * episodes, step))


def no_reuse_epoch(
    labels: Sequence[int] | np.ndarray | Tensor,
    ways: int = 20,
    shots: int = 5,
    queries: int = 15,
    *,
    seed: int = 0,
    epoch: int = 0,
    names: Sequence[str] | None = None,
) -> Iterator[Episode]:
    """Tasks that use no picture twice, until fewer than `ways` classes have enough left (the sampler of FRN).

    Classes are drawn with a probability proportional to what they have left. One process of n takes every n-th:
    `itertools.islice(no_reuse_epoch(...), r, None, n)`.
    """
    _check_request(ways, shots, queries, seed)
    rows = _by_class(labels, None)
    _check_classes(rows, ways, None, names, shots=shots, queries=queries)
    return _without_reuse(rows, ways, shots, queries, default_rng([seed, epoch]))


def _without_reuse(
    rows: dict[int, np.ndarray], ways: int, shots: int, queries: int, rng: Generator
) -> Iterator[Episode]:
    need, index = shots + queries, 0
    stock = {label: rng.permutation(places) for label, places in rows.items()}
    while len(open_classes := [label for label in stock if len(stock[label]) >= need]) >= ways:
        left = np.array([len(stock[label]) for label in open_classes], dtype=float)
        classes = rng.choice(open_classes, ways, replace=False, p=left / left.sum()).tolist()
        yield _assemble([stock[label][:need] for label in classes], [shots] * ways, tuple(classes), EMPTY, index)
        stock |= {label: stock[label][need:] for label in classes}
        index += 1


def split_labelled(labels: Sequence[int] | np.ndarray | Tensor, share: float, seed: int = 0) -> np.ndarray:
    """Which pictures keep their label, `share` of each class, drawn once for a seed -> bool (n,)."""
    if not 0 < share < 1:
        raise InputError(f"the labelled share lies between 0 and 1, not {share}")
    rng, kept = default_rng(seed), np.zeros(len(labels), dtype=bool)
    for places in _by_class(labels, None).values():
        kept[rng.permutation(places)[: round(share * len(places))]] = True
    return kept


def _by_class(labels: Sequence[int] | np.ndarray | Tensor, mask: np.ndarray | None) -> dict[int, np.ndarray]:
    """Places of the pictures of each class that occurs, those in `mask` only: label -> (n_c,)."""
    labels = np.asarray(labels)
    inside = np.ones(len(labels), dtype=bool) if mask is None else mask
    order = np.argsort(labels, kind="stable")
    classes, starts = np.unique(labels[order], return_index=True)
    places = np.split(order, starts[1:])
    return {int(label): rows[inside[rows]] for label, rows in zip(classes, places, strict=True)}


def _pick(rows: np.ndarray, count: int, rng: Generator, groups: np.ndarray | None, used: set[int]) -> np.ndarray:
    """`count` of the places in random order, none of a group in `used`, which grows: (n_c,) -> (count,)."""
    if groups is None:
        return rng.choice(rows, count, replace=False)
    picked: list[int] = []
    for place in rng.permutation(rows).tolist():
        if len(picked) < count and int(groups[place]) not in used:
            used.add(int(groups[place]))
            picked.append(place)
    if len(picked) < count:
        raise InputError(f"identical pictures in several classes leave {len(picked)} of {count} needed; add images")
    return np.array(picked, dtype=np.int64)


def _assemble(parts: list[np.ndarray], shots: list[int], classes: tuple[int, ...], pool: Tensor, index: int) -> Episode:
    """Support first, then query, of each class: N of (K + q,) -> Episode."""
    way = np.arange(len(parts))
    support = np.concatenate([part[:shot] for part, shot in zip(parts, shots, strict=True)])     # (n,)
    query = np.concatenate([part[shot:] for part, shot in zip(parts, shots, strict=True)])       # (Q,)
    return Episode(torch.from_numpy(support), torch.from_numpy(way.repeat(shots)),
                   torch.from_numpy(query), torch.from_numpy(way.repeat(len(query) // len(way))), classes, pool, index)


def _check_request(ways: int, shots: int, queries: int, seed: int) -> None:
    for name, value, least in (("ways", ways, 1), ("shots", shots, 1), ("queries", queries, 0), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} must be at least {least}, not {value}")


def _check_classes(
    rows: dict[int, np.ndarray], classes: int, groups: np.ndarray | None, names: Sequence[str] | None, **wanted: int
) -> None:
    """Refuse, by name, the first class that has fewer pictures than the sum of what is wanted of it."""
    if len(rows) < classes:
        raise InputError(f"an episode needs {classes} classes, there are {len(rows)}: add classes or lower ways")
    need = sum(wanted.values())
    for label, places in rows.items():
        count = len(places) if groups is None else len(np.unique(groups[places]))
        if count < need:
            name = repr(names[label]) if names is not None else str(label)
            parts = " + ".join(f"{number} {what}" for what, number in wanted.items() if number)
            fewer = next(iter(wanted))
            raise InputError(f"class {name} has {count} images; {parts} need {need}: add images or lower {fewer}")
