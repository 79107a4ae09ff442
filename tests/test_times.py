"""The table of computation times."""

import pytest

from dmn4.benchmark.race import Figures
from dmn4.reproduce import Workshop, times
from dmn4.reproduce.times import ROWS, TIMED, Time, cells, extrapolate, head_time, median_of, parts, ratios, time_all


@pytest.fixture
def figures() -> dict[str, Figures]:
    """Made-up times of five shots: seconds of each backbone, and of every head on it; an epoch takes one second."""
    found = {"conv4": Figures([1.0]), "conv4-classic": Figures([0.5]), "resnet12": Figures([10.0])}
    for row in ROWS:
        for part in parts(row.method, 5):
            found[f"{row.method} {row.backbone} {part}"] = Figures([1.0 + int(part.partition("=")[2] or 0)])
    return found


def test_refinement_lies_on_the_line_through_the_epochs_that_were_timed(figures):
    assert head_time(figures, "deepemd", "conv4") == Time(101.0, 0.0, True)
    assert head_time(figures, "dn4", "conv4") == Time(1.0, 0.0)


def test_an_epoch_that_was_held_up_shows_in_the_spread_and_not_only_in_the_number():
    even, uneven = (extrapolate(TIMED, seconds, 100) for seconds in ([1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 3.0, 6.0]))
    assert even == Time(101.0, 0.0, True)
    assert uneven.middle > even.middle
    assert uneven.spread > 0.1 * even.middle


def test_refinement_never_takes_less_than_nothing():
    assert extrapolate(TIMED, [2.0, 1.9, 1.9, 1.8], 100).middle == 1.8


def test_the_interval_of_a_median_holds_it_with_95_per_cent():
    assert median_of([3.0, 1.0, 2.0]) == Time(2.0, 1.0)
    assert median_of(range(1, 101)) == Time(50.5, 9.5)         # places 40 to 59 of 100 hold it; the coin's 95 %
    assert median_of([1.0] * 9 + [50.0]) == Time(1.0, 0.0)


def test_races_go_on_until_the_medians_are_settled(monkeypatch):
    held = {"steady": [1.0] * 9, "noisy": [1.0, 2.0, 3.0], "long": [20.0]}
    calls = []

    def race(runners, rounds):
        calls.append(rounds)
        return {name: Figures([2.0] * 60 if name == "noisy" and len(calls) == 3 else held[name]) for name in runners}

    monkeypatch.setattr(times, "race", race)
    assert len(time_all(dict.fromkeys(("steady", "long")), 9)["steady"].seconds) == 9
    assert calls == [9]
    found = time_all(dict.fromkeys(("steady", "noisy")), 9)
    assert len(calls) == 1 + 2
    assert median_of(found["noisy"].seconds).spread < 0.05 * 2


def test_ratios_are_to_dn4_for_the_head_and_for_backbone_and_head(figures):
    assert ratios(figures, ROWS[1]) == (Time(101.0, 0.0, True), Time(102.0 / 2.0, 0.0, True))
    assert ratios(figures, ROWS[0]) == (Time(101.0, 0.0, True), Time(101.5 / 2.0, 0.0, True))
    assert ratios(figures, ROWS[2]) == (Time(1.0, 0.0), Time(1.0, 0.0))


def test_the_paper_s_ratios_stand_beside_the_measured_ones(figures):
    assert cells(figures, ROWS[3], 1) == ["1.7", "1.0 ± 0.0", "1.0 ± 0.0"]
    assert cells(figures, ROWS[1], 1) == ["78,125.0", "101 ± 0 †", "51.0 ± 0.0 †"]


def test_the_page_has_a_row_a_line_of_the_paper_s_table(figures, tmp_path, monkeypatch):
    monkeypatch.setattr(times, "race", lambda runners, rounds: figures)
    monkeypatch.setattr(times, "runners", lambda shots: dict.fromkeys(figures))
    path = times.run(Workshop(tmp_path, "tiny", {}), "time")
    lines = path.read_text().splitlines()
    assert sum(line.startswith(("| deepemd", "| dn4", "| mn4", "| dmn4")) for line in lines) == len(ROWS)
    assert path.with_suffix(".html").exists()
    assert path.with_suffix(".json").exists()
