"""The fruit sample: a few photographs to learn from, and others to ask about, some of them of no known kind."""

from dataclasses import dataclass
from functools import cache

import numpy as np

KINDS = ("Granny-Smith", "Red-Delicious", "Conference", "Orange", "Watermelon")
STRANGERS = ("Cantaloupe", "Galia-Melon")
SHOTS = 5
QUESTIONS = 2                                                 # of each kind, and of each stranger


@dataclass(frozen=True)
class Sample:
    """Photographs with labels, and photographs to ask about with the kind they really show."""

    pictures: list[bytes]
    labels: list[str]
    questions: list[bytes]
    answers: list[str]


def fruit_is_there() -> bool:
    """Whether the photographs were fetched."""
    from ..data.samples import fruit_file

    return fruit_file().is_file()


@cache
def fruit_sample() -> Sample:
    """The same photographs every time; an InputError says how to fetch them if they are not there."""
    from ..data.samples import fruit  # with torch, which the service itself does without

    everything = fruit()
    rng = np.random.default_rng(3)
    pictures: list[tuple[bytes, str]] = []
    questions: list[tuple[bytes, str]] = []
    for kind in (*KINDS, *STRANGERS):
        rows = rng.permutation(np.flatnonzero(everything.labels == everything.classes.index(kind)))
        photographs = [(bytes(everything.images[row]), kind) for row in rows[: SHOTS + QUESTIONS]]
        pictures += photographs[:SHOTS] if kind in KINDS else []
        questions += photographs[SHOTS:]
    return Sample(*map(list, zip(*pictures, strict=True)), *map(list, zip(*questions, strict=True)))
