"""Commands that are killed and started again write the files of those left alone; `make kill` tries a hundred."""

import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="no fork"),
              pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]
sys.path.insert(0, str(Path(__file__).parent / "kill"))


def test_what_is_killed_and_started_again_ends_as_if_it_had_been_left_alone():
    from chaos import kill
    from jobs import JOBS

    report = kill(10, names=[name for name in JOBS if name != "train"])
    assert not report.findings
    assert report.kills.total() >= 5, "the commands end before they are killed"


def test_a_difference_is_a_finding(tmp_path):
    import chaos

    arena = chaos.Arena(tmp_path)
    arena.undisturbed("predict --csv").files["rows.csv"] = b"another table"
    report = chaos.Report()
    arena.case(1, ["predict --csv"], 0, report)
    assert "other files than undisturbed: rows.csv" in report.findings[0]
