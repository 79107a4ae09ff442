"""The labels a user gives, as arrays: checked, joined, and as a file holds them."""

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from ..errors import InputError
from ..files.schema import LETTERS
from .description import Labels


def checked_labels(y: Iterable[Hashable]) -> np.ndarray:
    """Labels as an array (n,), all text or all numbers, each as it was given; anything else is an InputError."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    try:
        given = y if isinstance(y, np.ndarray) else list(y)
        labels: np.ndarray = column_or_1d(np.asarray(given), warn=True)
        check_kind(labels)
        check_kept(given, labels)
        check_classification_targets(labels)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"y is no list of labels: {error}") from None
    if not len(labels):
        raise InputError("y is empty; a classifier needs pictures of at least two classes")
    longest = max((str(label) for label in labels.tolist()), key=len)
    if len(longest) > LETTERS:
        raise InputError(f"the label {longest[:20]!r}... has {len(longest):,} letters; at most {LETTERS:,} are taken")
    return labels


def check_kind(labels: np.ndarray) -> None:
    """Raise an InputError unless the labels are of a kind that a model file can hold."""
    texts = labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.tolist())
    if labels.dtype.kind not in "biufU" and not texts:
        kind = type(labels.tolist()[0]).__name__ if labels.dtype.kind == "O" and len(labels) else str(labels.dtype)
        raise InputError(f"Unknown label type: {kind}; give text or numbers, such as str(label) of each")


def check_kept(given: Iterable[Hashable], labels: np.ndarray) -> None:
    """Raise an InputError if two labels that differ have become one, or might: 1 and "1", or 2**53 + 1 and 0.5."""
    if isinstance(given, np.ndarray):
        return
    for before, after in zip(given, labels.tolist(), strict=True):
        if before != after:
            raise InputError(f"label {before!r} would become {after!r}: give labels that are all text or all numbers")


def joined_labels(known: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Both in a row, if they are of one kind: text with text, numbers with numbers."""
    texts = [np.asarray(labels.tolist()).dtype.kind == "U" for labels in (known, new)]
    if texts[0] != texts[1]:
        kinds = ["text" if text else "numbers" for text in texts]
        raise InputError(f"the new labels are {kinds[1]} ({new.tolist()[0]!r}), the known ones {kinds[0]} "
                         f"({known.tolist()[0]!r})")
    return np.concatenate([known, new])


def stored(classes: np.ndarray) -> dict[str, Any]:
    """Labels as JSON holds them."""
    return {"values": classes.tolist(), "type": classes.dtype.str}


def restored(classes: Labels, source: str) -> np.ndarray:
    """The labels that `stored` wrote; a file cannot ask for more room than its labels need."""
    try:
        kind = np.dtype(classes.type)
        labels = np.array(classes.values, dtype=str if kind.kind == "U" else kind)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"cannot read model file {source}: its classes are not of type {classes.type!r}") from None
    if len(set(labels.tolist())) < len(labels):
        raise InputError(f"cannot read model file {source}: two of its classes have the same name")
    return labels
