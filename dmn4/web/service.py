"""What all requests share: the store, the worker processes, the limits; and how a classifier changes."""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fastapi import HTTPException

from ..errors import InputError
from .backbone import ChosenBackbone
from .limits import Limits, check_size
from .store import Access, Caller, Classifier, Revision, Store
from .work.pool import Pool

TRIES = 50                                                    # of a change that others were quicker than
CHANGES = ("add", "forget", "relabel", "rule_out", "take_back")        # jobs that start from what was learnt
BEAT = 1.0                                                    # seconds between two notes of how far learning is
GONE = "there is no such classifier: it was deleted, or it left to make room for others"


class Service:
    """What the requests share."""

    def __init__(self, backbone: ChosenBackbone, limits: Limits, store: Store) -> None:
        self.backbone, self.limits, self.store = backbone, limits, store
        self.pool = Pool(backbone, limits)
        self.hosted: dict[str, Classifier] = {}               # of the operator's files, by name
        self.learning: dict[str, asyncio.Task[Classifier]] = {}
        self.done: dict[str, int] = {}                        # pictures looked at by what is learning here
        self.used: dict[str, float] = {}
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.room = asyncio.Lock()
        self.deadline: float | None = None                    # of what runs, once the service was told to end

    def host(self, path: Path) -> Classifier:
        """The classifier of a *.dmn4 file of the owner's, called as the file is; it stays as long as the service."""
        name = re.sub(r"[^\w-]+", "-", path.stem, flags=re.ASCII).strip("-") or "model"
        if name in self.hosted:
            raise InputError(f"two models are called {name!r}, the second is {str(path)!r}: rename one of the files")
        if not path.is_file():
            raise InputError(f"there is no model file {str(path)!r}")
        try:
            summary = self.pool.start().one("host", path=path)
        except InputError as error:
            raise InputError(f"{str(path)!r}: {error}") from None
        revision = Revision(number=1, file=str(path), made=path.stat().st_mtime, who=None, what="came with the service",
                            **summary)
        self.hosted[name] = Classifier(id=name, head=1, done=revision.pictures, total=revision.pictures,
                                       revision=revision, access=Access.READ, hosted=True)
        return self.hosted[name]

    # ------------------------------------------------------------------------------------------------------ finding

    async def find(self, identity: str, caller: Caller, need: Access = Access.READ) -> Classifier:
        """The classifier of this id, if the caller may do with it what is needed."""
        if identity in self.hosted:
            return self.hosted[identity]
        classifier = await asyncio.to_thread(self.store.classifiers.find, identity, caller.token)
        if classifier is None:
            raise HTTPException(404, GONE)
        if classifier.access < need:
            raise HTTPException(403, "this classifier was shared with you to be asked, not to be changed"
                                if need == Access.TEACH else "only its owner may do this with the classifier")
        self.used[identity] = time.time()
        return self.as_it_is(classifier)

    def as_it_is(self, known: Classifier) -> Classifier:
        """A row of the store, with the progress that is known here."""
        return replace(known, done=max(known.done, self.done.get(known.id, 0)))

    async def all(self, caller: Caller) -> list[Classifier]:
        """All that the caller may see, the most recently used first."""
        classifiers = await asyncio.to_thread(self.store.classifiers.all, caller.token)
        classifiers.sort(key=lambda classifier: max(classifier.changed, self.used.get(classifier.id, 0)), reverse=True)
        return [*map(self.as_it_is, classifiers), *self.hosted.values()]

    async def source(self, known: Classifier) -> dict[str, Any]:
        """What a worker has to know to open the classifier that answers."""
        revision = known.revision
        if revision is None:
            raise HTTPException(409, known.problem or
                                f"this classifier is still learning: {known.done} of {known.total} pictures")
        if known.hosted:
            return {"path": Path(revision.file), "sha256": revision.sha256}
        files = self.store.files
        path = await asyncio.to_thread(files.local, revision.file) if files.remote else files.local(revision.file)
        return {"path": path, "sha256": revision.sha256}

    # ----------------------------------------------------------------------------------------------------- changing

    async def create(self, caller: Caller, what: str, job: str, wait: bool, total: int, **arguments: Any) -> Classifier:
        """A new classifier: learnt, or with `wait` off still learning."""
        async with self.room:
            await self.make_room()
            known = await asyncio.to_thread(self.store.classifiers.create, caller.token, total)
        task = asyncio.create_task(self.learn(known, caller, what, job, **arguments))
        self.learning[known.id] = task
        if not wait:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            return known
        try:
            return await task
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self.store.delete, known))
            raise

    async def learn(self, known: Classifier, caller: Caller, what: str, job: str, **arguments: Any) -> Classifier:
        """The classifier with its first revision; a failure is kept for the next who asks."""
        beat = asyncio.create_task(self.beat(known.id))
        try:
            return await self.add_revision(known, caller, what, job, **arguments)
        except (InputError, HTTPException) as error:
            text = str(error) if isinstance(error, InputError) else str(error.detail)
            await asyncio.to_thread(self.store.classifiers.fail, known.id, text)
            raise
        except Exception:
            await asyncio.to_thread(self.store.classifiers.fail, known.id,
                                    "learning failed by a mistake of the service; its log says more")
            raise
        finally:
            beat.cancel()
            self.learning.pop(known.id, None)
            self.done.pop(known.id, None)

    async def beat(self, identity: str) -> None:
        """Note now and then how far learning is, for those who ask another replica."""
        while True:
            await asyncio.sleep(BEAT)
            await asyncio.to_thread(self.store.classifiers.progress, identity, self.done.get(identity, 0))

    async def change(self, known: Classifier, caller: Caller, what: str, job: str, **arguments: Any) -> Classifier:
        """The classifier after a change. One that came with the service stays: a copy of the caller's own changes."""
        if known.hosted:
            return await self.create(caller, what, job, True, 0, origin=known, **arguments)
        await self.source(known)                              # it has learnt something
        async with self.locks.setdefault(known.id, asyncio.Lock()):
            return await self.add_revision(known, caller, what, job, **arguments)

    async def add_revision(self, known: Classifier, caller: Caller, what: str, job: str,
                           origin: Classifier | None = None, only: int | None = None, **arguments: Any) -> Classifier:
        """Have a worker make the next revision; where another replica was quicker, once more on top of its change.

        `only`: the revision that the numbers of pictures are of; a change of any other is refused.
        """
        for _ in range(TRIES):
            current = await self.find(known.id, caller)
            base = origin or current
            if only is not None and base.head != only:
                raise HTTPException(409, f"this is revision {base.head}, and the numbers are of {only}; look again")
            source = await self.source(base) if job in CHANGES else {}
            if job == "add" and base.revision:
                check_size([*base.revision.labels, *arguments["labels"]],
                           base.revision.pictures + len(arguments["labels"]), self.limits)
            file = self.store.files.new(known.id)
            draft = self.store.files.draft(file)
            try:
                summary = await self.pool.run(job, lambda done: self.done.update({known.id: done}), out=draft,
                                              **source, **arguments)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
            revision = await asyncio.shield(asyncio.to_thread(self.store.publish, current, current.head, file, summary,
                                                              caller, what))
            if revision is not None:
                return replace(current, head=revision.number, revision=revision, error=None, done=revision.pictures,
                               total=revision.pictures)
        raise HTTPException(503, "others change this classifier all the time; try again in a moment")

    async def delete(self, known: Classifier, caller: Caller) -> None:
        """Forget a classifier; if it is still learning, that stops."""
        if known.hosted:
            raise HTTPException(409, "this classifier came with the service and stays as long as it runs")
        task = self.learning.get(known.id)
        if task is not None:
            task.cancel()
        self.used.pop(known.id, None)
        await asyncio.shield(asyncio.to_thread(self.store.delete, known, caller))

    async def make_room(self) -> None:
        """Without a lasting store the least recently used classifier leaves; none that is still learning."""
        if self.store.lasting:
            return
        kept = [classifier for classifier in await self.all(Caller()) if not classifier.hosted]
        ready = [classifier for classifier in kept if classifier.state != "learning"]
        for classifier in reversed(ready):
            if len(kept) < self.limits.classifiers:
                return
            await asyncio.to_thread(self.store.delete, classifier)
            kept.remove(classifier)
        if len(kept) >= self.limits.classifiers:
            raise HTTPException(503, f"{len(kept)} classifiers are still learning; try again in a moment")

    # ------------------------------------------------------------------------------------------------------- ending

    def begin_to_end(self) -> None:
        """From now on there are a few seconds for what runs; whoever still waits then is answered 503."""
        if self.deadline is None:
            loop = asyncio.get_running_loop()
            self.deadline = loop.time() + self.limits.drain_seconds
            loop.call_at(self.deadline, self.pool.close)

    async def close(self) -> None:
        """Finish what runs, as long as there is time; then stop it."""
        self.begin_to_end()
        await self.pool.drain(self.deadline or 0.0)
        for task in list(self.learning.values()):
            task.cancel()
            with suppress(BaseException):
                await task


def labels_text(labels: Sequence[str]) -> str:
    """Labels as the history of a classifier tells them: 'Orange (2), Watermelon'."""
    counts = {label: labels.count(label) for label in labels}
    words = [label if count == 1 else f"{label} ({count})" for label, count in counts.items()]
    return ", ".join(words[:10]) + (f" and {len(words) - 10} more" if len(words) > 10 else "")
