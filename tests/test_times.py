import pytest

from dmn4.benchmark.race import Figures
from dmn4.reproduce import Workshop, times
from dmn4.reproduce.times import ROWS, cells, parts, ratios, seconds


@pytest.fixture
def figures() -> dict[str, Figures]:
    """Made-up times of five shots: seconds of each backbone, and of every head on it."""
    found = {"conv4": Figures([1.0]), "conv4-classic": Figures([0.5]), "resnet12": Figures([10.0])}
    for row in ROWS:
        for part in parts(row.method, 5):
            found[f"{row.method} {row.backbone} {part}"] = Figures([2.0 if part == "epochs=1" else 1.0])
    return found


def test_refinement_is_extrapolated_from_one_epoch(figures):
    assert seconds(figures, "deepemd", "conv4") == (101.0, True)
    assert seconds(figures, "dn4", "conv4") == (1.0, False)


def test_ratios_are_to_dn4_for_the_head_and_for_backbone_and_head(figures):
    assert ratios(figures, ROWS[1]) == (101.0, 102.0 / 2.0, True)
    assert ratios(figures, ROWS[0]) == (101.0, 101.5 / 2.0, True)
    assert ratios(figures, ROWS[2]) == (1.0, 1.0, False)


def test_the_paper_s_ratios_stand_beside_the_measured_ones(figures):
    assert cells(figures, ROWS[3], 1) == ["1.7", "1.0", "1.0"]
    assert cells(figures, ROWS[1], 1)[0] == "78,125.0"
    assert cells(figures, ROWS[1], 1)[1] == "101.0 †"


def test_the_page_has_a_row_a_line_of_the_paper_s_table(figures, tmp_path, monkeypatch):
    monkeypatch.setattr(times, "race", lambda runners, rounds: figures)
    monkeypatch.setattr(times, "runners", lambda shots: {})
    path = times.run(Workshop(tmp_path, "tiny", {}), "time")
    lines = path.read_text().splitlines()
    assert sum(line.startswith(("| deepemd", "| dn4", "| mn4", "| dmn4")) for line in lines) == len(ROWS)
    assert path.with_suffix(".html").exists()
    assert path.with_suffix(".json").exists()
