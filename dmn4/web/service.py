"""What all requests share: the engine, the classifiers kept, the workers, the limits; and how a classifier changes."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path

from fastapi import HTTPException

from ..classify.classifier import FewShotClassifier
from ..errors import InputError
from .engine import Engine
from .limits import Limits, check_size
from .store import Entry, Store
from .workers import Workers

Make = Callable[[Iterator[bytes]], FewShotClassifier]         # from the pictures, one after the other


class Service:
    """What the requests share."""

    def __init__(self, engine: Engine, limits: Limits) -> None:
        self.engine, self.limits = engine, limits
        self.store, self.workers = Store(limits.classifiers), Workers(limits)
        self.tasks: set[asyncio.Task[None]] = set()           # the event loop itself keeps no hold of them

    def host(self, path: Path) -> Entry:
        """The classifier of a *.dmn4 file of the owner's, called as the file is; it stays as long as the service."""
        name = re.sub(r"[^\w-]+", "-", path.stem, flags=re.ASCII).strip("-") or "model"
        if name in self.store.entries:
            raise InputError(f"two models are called {name!r}, the second is {str(path)!r}: rename one of the files")
        if not path.is_file():
            raise InputError(f"there is no model file {str(path)!r}")
        try:
            classifier = self.engine.open_model(path.read_bytes())
        except InputError as error:
            raise InputError(f"{str(path)!r}: {error}") from None
        return self.store.add(Entry(id=name, classifier=classifier, stays=True))

    async def change(self, entry: Entry, pictures: Sequence[bytes], make: Make) -> Entry:
        """The entry with the classifier that `make` returns for its pictures, followed as they are looked at.

        One that stays is left as it is: what changes is a copy, kept as a visitor's own.
        """
        changed = Entry(classifier=entry.classifier) if entry.stays else entry
        async with changed.changes:
            changed.done, changed.total = 0, len(pictures)
            followed = changed.followed(pictures, self.limits.work_seconds)
            try:
                changed.classifier = await self.workers.run(make, followed)
                changed.revision += 1
            finally:
                changed.done = changed.total
        return changed if changed is entry else self.store.add(changed)

    async def create(self, pictures: Sequence[bytes], labels: list[str], wait: bool) -> Entry:
        """A new entry: learnt, or with `wait` off still learning."""
        check_size(len(set(labels)), len(labels), self.limits)
        entry = self.store.add(Entry(total=len(pictures)))
        learning = self.change(entry, pictures, lambda images: self.engine.learn(images, labels))
        if wait:
            try:
                await learning
            except BaseException:
                self.store.drop(entry)
                raise
        else:
            task = asyncio.create_task(remember_failure(entry, learning))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return entry

    def close(self) -> None:
        """Stop learning and computing."""
        for entry in self.store:
            entry.abandoned = True
        self.workers.close()


async def remember_failure(entry: Entry, learning: Coroutine[None, None, Entry]) -> None:
    """Learn where nobody waits: a failure is kept in the entry, for the next who asks."""
    try:
        await learning
    except InputError as error:
        entry.error = str(error)
    except HTTPException as error:
        entry.error = str(error.detail)
    except Exception:
        entry.error = "learning failed by a mistake of the service; its log says more"
        raise
