"""The last run of sorting, undone: new copies go, moved ones come back; what a person changed stays as it is."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .sorted_folder import LIST, append_line, is_copy, places_after, put_copy, read_runs


@dataclass
class Undone:
    """What came of it, in numbers of copies."""

    time: str                                                 # when the run began; empty: an older dmn4 did not say
    removed: int = 0
    moved_back: int = 0
    left: int = 0                                             # changed, or the only one since its original is gone

    @property
    def words(self) -> str:
        """The same in a line."""
        when = f" of {self.time}" if self.time else ""
        kept = f"; {self.left} left as they are: changed since, or their originals are gone" if self.left else ""
        return f"undid the run{when}: {self.removed} copies removed, {self.moved_back} put back{kept}"


def undo_last_run(folder: Path) -> Undone:
    """Bring a sorted folder to where it was before its last run, which the list then forgets.

    A copy goes only while its original is there and has the same content. Killed at any moment, the next call goes on:
    what has to come back does so before anything goes.
    """
    runs = read_runs(folder / LIST)
    if not runs:
        raise InputError(f"there is nothing to undo in {str(folder)!r}: no run of sorting is on its list {LIST!r}")
    before, after = places_after(runs[:-1]), places_after(runs)
    wanted = {places[-1] for places in before.values()}       # copies of earlier runs
    undone, done = Undone(runs[-1].time), list[Path]()
    for image in dict(runs[-1].entries):
        source, copy = Path(image), folder / after[image][-1]
        if not os.path.lexists(copy):                         # undone by a call that was killed, or by a person
            continue
        try:
            unchanged = source.is_file() and is_copy(copy, source)
            if unchanged and back_home(source, copy, folder, before.get(image), undone):
                done.append(copy)
            else:
                undone.left += 1
        except OSError as error:
            raise InputError(f"cannot undo the sorting of {image!r}: {error.strerror}") from None
    for copy in done:
        if copy.relative_to(folder).as_posix() not in wanted and os.path.lexists(copy):
            copy.unlink()
            undone.removed += 1
        with contextlib.suppress(OSError):                    # the last one of its folder
            copy.parent.rmdir()
    append_line(folder / LIST, {"undone": runs[-1].time})
    return undone


def back_home(source: Path, copy: Path, folder: Path, places: list[str] | None, undone: Undone) -> bool:
    """Put a copy where it was before the run, if it was anywhere; whether that place is free for it."""
    home = folder / places[-1] if places else None
    if home is None or home == copy:
        return True
    if os.path.lexists(home):
        return is_copy(home, source)
    home.parent.mkdir(parents=True, exist_ok=True)
    put_copy(source, home, copy.is_symlink())
    undone.moved_back += 1
    return True
