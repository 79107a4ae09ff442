"""The classifiers that the service keeps: a few, in memory, the least recently used leaves."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from fastapi import HTTPException

from ..classify.classifier import FewShotClassifier
from ..errors import InputError

Item = TypeVar("Item")


@dataclass
class Entry:
    """A classifier and how far its learning is. A change makes a new classifier, so nobody sees half of one."""

    id: str = field(default_factory=lambda: secrets.token_hex(8))
    classifier: FewShotClassifier | None = None
    revision: int = 0
    done: int = 0
    total: int = 0
    error: str | None = None
    abandoned: bool = False
    stays: bool = False                                           # it came with the service, as it is
    changes: asyncio.Lock = field(default_factory=asyncio.Lock)   # one at a time

    @property
    def state(self) -> Literal["learning", "ready", "failed"]:
        """learning, ready or failed."""
        if self.error is not None:
            return "failed"
        return "learning" if self.classifier is None or self.done < self.total else "ready"

    def learnt(self) -> FewShotClassifier:
        """The classifier, if it has learnt anything yet."""
        if self.error is not None:
            raise HTTPException(409, self.error)
        if self.classifier is None:
            raise HTTPException(409, f"this classifier is still learning: {self.done} of {self.total} pictures")
        return self.classifier

    def followed(self, items: Iterable[Item], seconds: float) -> Iterator[Item]:
        """The same items; each one taken is counted, and none is given out after the end or if nobody wants them."""
        end = time.monotonic() + seconds
        for item in items:
            if self.abandoned:
                raise InputError("the classifier was deleted while it learnt")
            if time.monotonic() > end:
                raise InputError(f"learning took over {seconds:g} seconds; send fewer pictures")
            yield item
            self.done += 1


class Store:
    """Entries by id, the most recently used last. Only the event loop touches it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.entries: OrderedDict[str, Entry] = OrderedDict()

    def __iter__(self) -> Iterator[Entry]:
        return reversed(self.entries.values())

    def add(self, entry: Entry) -> Entry:
        """Keep an entry; the least recently used ones leave to make room, but for those that stay."""
        self.entries[entry.id] = entry
        guests = [one for one in self.entries.values() if not one.stays]
        for one in guests[: -self.size]:
            self.drop(one)
        return entry

    def find(self, identity: str) -> Entry:
        """The entry with this id, which is now the most recently used."""
        if identity not in self.entries:
            raise HTTPException(404, "there is no such classifier: it was deleted, or it left to make room for others")
        self.entries.move_to_end(identity)
        return self.entries[identity]

    def drop(self, entry: Entry) -> None:
        """Forget an entry; if it is still learning, it stops."""
        entry.abandoned = True
        self.entries.pop(entry.id, None)
