"""Fuzz what reads strangers' files: python tests/fuzz/run.py [KIND ...] [--cases 1000] [--seed 0] [--only NUMBER].

Case number i of a kind depends on (seed, kind, i) alone; --first 5000 goes on where 5,000 cases ended. Each runs in a
child with limits: ten seconds of processor time and one gigabyte beyond what the child had before. A finding is a hang,
a death, more memory, a traceback, or a message of several lines; its file is kept in --keep.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
import torch

sys.path.insert(0, str(Path(__file__).parent))
from mutate import mutated
from targets import TARGETS, outcome

SECONDS, BYTES = 10, 1 << 30
AT_ONCE = 200                                                 # cases of one child; a dead one is followed by the next


@dataclass
class Report:
    """What came of the cases of one kind."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)
    findings: dict[int, str] = field(default_factory=dict)
    slowest: float = 0.0                                      # seconds of processor time
    largest: float = 0.0                                      # MB beyond what the child had before

    def __str__(self) -> str:
        counts = self.counts
        return (f"| {self.kind} | {sum(counts.values()):,} | {counts['read']:,} | {counts['refused']:,} | "
                f"{len(self.findings)} | {self.slowest:.1f} | {self.largest:,.0f} |")


def content_of(kind: str, seeds: list[bytes], number: int, seed: int) -> bytes:
    """The damaged file of one case."""
    rng = random.Random(f"{seed} {kind} {number}")
    return TARGETS[kind].wrap(mutated(rng.choice(seeds), seeds, rng))


def fuzz(kind: str, numbers: range, seed: int = 0, keep: Path | None = None) -> Report:
    """Run cases of one kind in children."""
    report, seeds, left = Report(kind), TARGETS[kind].seeds(), list(numbers)
    while left:
        together = TARGETS[kind].together
        each = min(AT_ONCE, -(-len(left) // together))
        parts = [left[start:start + each] for start in range(0, len(left), each)][:together]
        done: set[int] = set()
        for part, child in [(part, Child(kind, seeds, part, seed)) for part in parts]:
            for number, said, seconds, megabytes in child.outcomes(part):
                done.add(number)
                report.slowest, report.largest = max(report.slowest, seconds), max(report.largest, megabytes)
                report.counts[said if said in ("read", "refused") else "finding"] += 1
                if said not in ("read", "refused"):
                    report.findings[number] = said
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / f"{kind}-{seed}-{number}").write_bytes(content_of(kind, seeds, number, seed))
        left = [number for number in left if number not in done]
    return report


class Child:
    """A process that is at work on some cases as soon as it is made."""

    def __init__(self, kind: str, seeds: list[bytes], numbers: list[int], seed: int) -> None:
        self.out, into = os.pipe()
        self.process = os.fork()
        if not self.process:
            status = 1
            try:
                with os.fdopen(into, "w") as said:
                    work(kind, seeds, numbers, seed, said)
                status = 0
            finally:
                os._exit(status)
        os.close(into)

    def outcomes(self, numbers: list[int]) -> Iterator[tuple[int, str, float, float]]:
        """Outcome, seconds and megabytes of each case, as far as the child came; the last is the one it died of."""
        came = 0
        with os.fdopen(self.out) as lines:
            for line in lines:
                came += 1
                yield tuple(json.loads(line))
        status = os.waitpid(self.process, 0)[1]
        if came < len(numbers):
            cause = signal.Signals(status & 127).name if status & 127 else f"exit code {status >> 8}"
            hang = "a hang: " if cause == "SIGPROF" else "died: "
            yield numbers[came], hang + cause, float(SECONDS), 0.0


def work(kind: str, seeds: list[bytes], numbers: list[int], seed: int, said) -> None:
    """In the child: every case within its limits, a line for each."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)                                         # decoders of C complain there
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())     # its own one claims a gigabyte of addresses at once
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / TARGETS[kind].name
        for name in TARGETS[kind].beside:
            (Path(folder) / name).touch()
        for number in numbers:
            path.write_bytes(content_of(kind, seeds, number, seed))
            signal.setitimer(signal.ITIMER_PROF, SECONDS)     # by default this signal ends the process
            start = time.process_time()
            text = outcome(TARGETS[kind], path)
            seconds = time.process_time() - start
            signal.setitimer(signal.ITIMER_PROF, 0)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
            said.write(json.dumps([number, text, seconds, grown]) + "\n")
            said.flush()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(TARGETS))
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, by its number")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| kind | cases | read | refused in one line | findings | slowest, s | most memory, MB |")
    print("|---" * 7 + "|")
    found = 0
    for kind in given.kinds or TARGETS:
        first, count = (given.first, given.cases) if given.only is None else (given.only, 1)
        numbers = range(first, first + count)
        report = fuzz(kind, numbers, given.seed, given.keep)
        print(report, flush=True)
        for number, text in report.findings.items():
            print(f"  case {number}: {text}", flush=True)
        found += len(report.findings)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
