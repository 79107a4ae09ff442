"""A hundred damaged files of each kind end in an answer or in one line; `make fuzz` tries many more."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))
from run import content_of, fuzz
from targets import TARGETS

NEVER_REFUSED = ("sorted",)                                   # a line that is none is passed over
QUICK = {"models": 30, "checkpoints": 50}                     # these build networks


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("kind", TARGETS)
def test_a_damaged_file_is_answered_or_refused_in_one_line(kind):
    report = fuzz(kind, range(QUICK.get(kind, 100)))
    assert not report.findings
    assert sum(report.counts.values()) == QUICK.get(kind, 100)
    assert report.counts["refused"] or kind in NEVER_REFUSED, "the damage does not reach what is checked"


def test_a_case_is_the_same_every_time():
    seeds = TARGETS["tables"].seeds()
    first, again = ([content_of("tables", seeds, number, 3) for number in range(20)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 10
