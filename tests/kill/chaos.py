"""Kill commands at random, start them again, compare: python tests/kill/chaos.py [JOB ...] [--cases 100] [--seed 0].

Case number i kills job i, in turn, by SIGKILL: an odd one after a random share of the time that it takes undisturbed,
an even one before a random opening, moving or removal of a file. Then it is started again until it ends, killed once
more in every third case. Its files must then equal those of an undisturbed run, byte for byte; jobs.py says what is
left out. A finding is a difference, another exit code than 0, or a file too many.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from jobs import JOBS, prepare, results, toy_table

EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
LONGEST = 120.0                                               # seconds, after which a command hangs


@dataclass
class Undisturbed:
    """A run that was left alone."""

    files: dict[str, object]
    seconds: float
    events: int


@dataclass
class Report:
    """What came of the kills."""

    kills: Counter[str] = field(default_factory=Counter)      # of each job
    late: int = 0                                             # commands that ended before they were killed
    findings: list[str] = field(default_factory=list)


class Arena:
    """A folder with what the commands read, and the undisturbed run of each job, made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.known = folder, dict[str, Undisturbed]()
        prepare(folder / "given")

    def undisturbed(self, name: str) -> Undisturbed:
        """The run of a job that nobody kills."""
        if name not in self.known:
            home, begun = self.home(f"{name} undisturbed"), time.monotonic()
            code = play(name, home)
            if code:
                raise RuntimeError(f"{name} ends with {code}: {said(home)}")
            self.known[name] = Undisturbed(results(home / "out"), time.monotonic() - begun,
                                           int((home / "events").read_text()))
        return self.known[name]

    def home(self, name: str) -> Path:
        """A new folder beside what the commands read."""
        home = self.folder / name
        home.mkdir()
        return home

    def case(self, number: int, names: list[str], seed: int, report: Report) -> None:
        """Kill a job, start it again, and compare."""
        rng, name = random.Random(f"{seed} {number}"), names[number % len(names)]
        alone, home = self.undisturbed(name), self.home(f"case {number}")
        where = f"case {number} ({name}"
        for again in range(1 + (number % 3 == 2)):
            after = rng.uniform(0, alone.seconds) if number % 2 else None
            at = None if number % 2 else rng.randrange(alone.events)
            where += f", killed after {after:.2f} s" if after is not None else f", killed before file event {at}"
            code = play(name, home, again > 0, after, at)
            report.kills[name] += code == -signal.SIGKILL
            report.late += code == 0
            if code not in (0, -signal.SIGKILL):
                report.findings.append(f"{where}): ends with {code}: {said(home)}")
                return
        code = play(name, home, again=True)
        found = results(home / "out")
        if code:
            report.findings.append(f"{where}): started again, it ends with {code}: {said(home)}")
        elif found != alone.files:
            differing = sorted(path for path in found.keys() | alone.files.keys()
                               if found.get(path) != alone.files.get(path))
            report.findings.append(f"{where}): other files than undisturbed: {', '.join(differing)}")
        else:
            shutil.rmtree(home)


def said(home: Path) -> str:
    """The end of what a command printed."""
    return " ".join((home / "said").read_text(errors="replace").split())[-500:]


def play(name: str, home: Path, again: bool = False, after: float | None = None, at: int | None = None) -> int:
    """Run a job in a process of its own, killed after some seconds or before a file event; how it ended."""
    process = os.fork()
    if not process:
        perform(name, home, again, at)
    begun = time.monotonic()
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        spent = time.monotonic() - begun
        if spent > LONGEST or (after is not None and spent >= after):
            os.kill(process, signal.SIGKILL)
            status = os.waitpid(process, 0)[1]
            return os.waitstatus_to_exitcode(status) if spent <= LONGEST else 124
        time.sleep(0.002)


def perform(name: str, home: Path, again: bool, at: int | None) -> None:
    """In the child: the command, in its folder, with a cache of its own; killed before file event number `at`."""
    status = 1
    try:
        os.chdir(home)
        os.environ["DMN4_CACHE"] = "cache"
        heard = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(heard, 1), os.dup2(heard, 2)
        count = watch_files(at)
        try:
            JOBS[name].run(again)
            status = 0
        finally:
            Path("events").write_text(str(count[0]))
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def watch_files(at: int | None) -> list[int]:
    """Count what this process does to files from now on; before event number `at` it kills itself."""
    count, quiet = [0], ("said", "events")

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event not in EVENTS or arguments[0] in quiet:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if count[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1

    sys.addaudithook(hear)
    return count


def kill(cases: int, seed: int = 0, names: list[str] | None = None, folder: Path | None = None) -> Report:
    """Run some cases."""
    report = Report()
    toy_table()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        arena = Arena(Path(place).resolve())
        for number in range(cases):
            arena.case(number, names or list(JOBS), seed, report)
    return report


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    report = kill(given.cases, given.seed, given.jobs)
    print("| command | kills |\n|---|---|")
    for name in JOBS:
        if report.kills[name]:
            print(f"| {name} | {report.kills[name]} |")
    print(f"{report.kills.total()} kills in {given.cases} cases, {report.late} commands had ended before; "
          f"{len(report.findings)} findings")
    print("\n".join(report.findings))
    sys.exit(1 if report.findings else 0)


if __name__ == "__main__":
    main()
