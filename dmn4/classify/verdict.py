"""What is said of a picture: one object, which every surface prints in the same words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..errors import InputError

USUAL_SHARE = 0.1                                             # of the known pictures that may be refused
COVERAGE = 0.9                                                # of the sets beside verdicts, unless another is asked for
NONE = "none of these"
SURE = 0.995                                                  # a larger probability is written "> 99 %"
CLEAR = 0.9                                                   # a smaller probability is worth a look
NAMED = 3                                                     # other classes that are named; of more the number is told


@dataclass(frozen=True)
class Verdict:
    """A label, or none of these; with the nearest class and what supports it."""

    label: Any                                                # None: none of these
    nearest: Any                                              # the most probable class, also where it was refused
    probability: float                                        # of the nearest class, given that it is one of them
    known: float                                              # share of known pictures that fit no better; NaN: unknown
    perhaps: tuple[Any, ...] = ()                             # the set of classes, if one was asked for
    vouched: bool = True                                      # whether enough was held out to leave a class out of it

    @property
    def words(self) -> str:
        """The label as text, or "none of these"."""
        return NONE if self.label is None else str(self.label)

    @property
    def chance(self) -> str:
        """The probability in words: "87 %"; of none of these, which class it is of: "nearest: wren, 41 %"."""
        share = percent(self.probability)
        return f"nearest: {self.nearest}, {share}" if self.label is None else share

    @property
    def doubt(self) -> float:
        """How unsure the nearest class is, 0 to 1: what a person should look at first has the most."""
        return 1 - self.probability

    @property
    def line(self) -> str:
        """The verdict in one line: "wren (87 %)", or "none of these (nearest: wren, 41 %)"."""
        return f"{self.words} ({self.chance})"

    @property
    def others(self) -> str:
        """The other classes of its set in words: "or perhaps lemon, orange", "or perhaps any of 12 others".

        Nothing where the set holds every class because too few pictures were held out.
        """
        others = [str(label) for label in self.perhaps if label != self.nearest and self.vouched]
        if len(others) > NAMED:
            return f"or perhaps any of {len(others)} others"
        return f"or perhaps {', '.join(others)}" if others else ""

    @property
    def doubtful(self) -> bool:
        """Whether a person should look: it is none of these, or less than nine in ten sure."""
        return self.label is None or self.probability < CLEAR


def percent(probability: float) -> str:
    """A probability as people read it; never certain: "87 %", "> 99 %", "< 1 %"."""
    if probability > SURE:
        return "> 99 %"
    return "< 1 %" if probability < 1 - SURE else f"{100 * probability:.0f} %"


@dataclass(frozen=True)
class Judgement:
    """What a classifier says of a few pictures."""

    scores: Tensor                                            # (B, N)
    probabilities: Tensor                                     # (B, N)  given that it is one of the classes
    known: Tensor                                             # (B,)    share of known pictures that fit no better

    def refused(self, share: float = USUAL_SHARE) -> Tensor:
        """Which pictures are none of the classes, if this share of known ones may be refused -> bool (B,)."""
        return self.known <= share

    @property
    def none_of_these(self) -> Tensor:
        """Which pictures are none of the classes, at the usual share -> bool (B,)."""
        return self.refused()

    def verdicts(self, classes: Sequence[Any], reject: "bool | float" = False,
                 sets: Tensor | None = None, vouched: bool = True) -> list[Verdict]:
        """The verdict on each picture; `sets`, bool (B, N), are the classes that it may be; `vouched`: see Verdict."""
        share = refusable(reject)
        refused = self.refused(share).tolist() if share else [False] * len(self.known)
        chances, places = (column.tolist() for column in self.probabilities.max(1))
        perhaps = [()] * len(places) if sets is None else self.likely(classes, sets)
        return [Verdict(None if none else classes[place], classes[place], chance, known, several, vouched)
                for none, place, chance, known, several
                in zip(refused, places, chances, self.known.tolist(), perhaps, strict=True)]

    def likely(self, classes: Sequence[Any], sets: Tensor) -> list[tuple[Any, ...]]:
        """The classes of each set, bool (B, N), the most probable first."""
        order = self.probabilities.sort(dim=1, descending=True, stable=True).indices                  # (B, N)
        return [tuple(classes[place] for place in places if row[place])
                for places, row in zip(order.tolist(), sets.tolist(), strict=True)]


def refusable(reject: "bool | float") -> float:
    """The share of known pictures that may be refused: 0 for False, the usual one for True, or the number itself."""
    if isinstance(reject, bool):
        return USUAL_SHARE if reject else 0.0
    if not 0 <= reject < 1:
        raise InputError(f"reject is {reject}; it is the share of known pictures that may be refused, such as 0.1")
    return float(reject)
