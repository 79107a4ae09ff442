"""The labels a user gives, as arrays: checked, joined, and as a file holds them."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import InputError


def checked_labels(y: Iterable[Hashable]) -> np.ndarray:
    """Labels as an array (n,), text or numbers; anything else is an InputError."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    try:
        labels = column_or_1d(y if isinstance(y, np.ndarray) else np.array(list(y)), warn=True)
        check_classification_targets(labels)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"y is no list of labels: {error}") from None
    if not len(labels):
        raise InputError("y is empty; a classifier needs pictures of at least two classes")
    return labels


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


def restored(classes: Mapping[str, Any]) -> np.ndarray:
    """The labels that `stored` wrote; a file cannot ask for more room than its labels need."""
    kind = np.dtype(classes["type"])
    if kind.kind not in "biufUO":
        raise TypeError(f"labels of type {kind}")
    return np.array(classes["values"], dtype=str if kind.kind == "U" else kind)
