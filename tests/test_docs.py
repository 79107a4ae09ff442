"""Documentation that runs: every Python block of the README and the docs, and every link to a file."""

import importlib
import importlib.util
import json
import re
from pathlib import Path

import pytest
from PIL import Image

from dmn4.data.samples import draw_clutter
from dmn4.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
         *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"_build", "generated"} & {*page.parts})]
BLOCKS = [pytest.param(block, id=f"{page.relative_to(ROOT).as_posix()}-{number}") for page in PAGES
          for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)]


@pytest.fixture(scope="session")
def desk(tmp_path_factory) -> Path:
    """A folder with what the documentation assumes: photos/class/*.jpg, inbox/*.jpg, benchmark/split/class/*.jpg."""
    folder = tmp_path_factory.mktemp("desk")
    drawn = draw_clutter(5, 20, size=64)
    for number, (image, label) in enumerate(zip(drawn.images, drawn.labels, strict=True)):
        name, rank = drawn.classes[label], number % 20
        places = [f"benchmark/{split}/{name}" for split in ("train", "val", "test")]
        places += [f"photos/{name}"] * (rank < 3) + ["inbox"] * (rank == 3)
        for place in places:
            (folder / place).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / place / f"{number}.jpg")
    return folder


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block, desk, monkeypatch):
    monkeypatch.chdir(desk)
    exec(compile(block, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_point_to_files_that_exist(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_table_of_methods_names_every_method_in_order():
    table = (ROOT / "docs" / "research" / "methods.md").read_text().split("## What is")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(METHODS)


def example(name):
    """A script of the examples folder, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", example("results").PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_published_tables_are_those_of_their_cards(page):
    results = example("results")
    text = page.read_text()
    assert results.BLOCK.search(text)
    assert results.refresh(page) == text, "run python examples/results.py"


@pytest.fixture(scope="session")
def kinds(tmp_path_factory) -> Path:
    """A folder of ten class folders, fourteen pictures each."""
    folder, drawn = tmp_path_factory.mktemp("kinds"), draw_clutter(10, 14, size=64)
    for number, (image, label) in enumerate(zip(drawn.images, drawn.labels, strict=True)):
        path = folder / drawn.classes[label] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(path)
    return folder


def test_the_example_that_chooses_defaults_runs(kinds, tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    defaults = example("choose_defaults")
    defaults.SHOTS = (1, 2)
    defaults.layers(str(kinds), tmp_path, per_class=8, episodes=2)
    defaults.centre(str(kinds), tmp_path, per_class=8, episodes=2)
    layers, centre = (next(tmp_path.glob(f"*-{name}.md")).read_text() for name in ("layers", "centre"))
    assert layers.count("| dmn4 |") == len(defaults.LAYERS_TRIED)
    assert centre.count(defaults.LAYER) == len(defaults.CENTRED)


def test_the_examples_that_compare_networks_and_maps_run(kinds, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(ROOT / "examples")
    import compare_networks as networks
    import photo_grid

    monkeypatch.setattr(networks, "SHOTS", (1, 2))
    monkeypatch.setattr(networks, "TASKS", {5: (2, 3), 20: (2, 3), 0: (2, 0)})
    small = ["efficientnet_lite0@64", "efficientnet_lite0:layer=14x14x112@64"]
    networks.accuracy([str(kinds)], small, tmp_path)
    table = (tmp_path / "networks.md").read_text()
    assert table.count(f"| {kinds.name} | 5 | 1 |") == table.count(f"| {kinds.name} | all | 2 |") == 3
    assert "| 20 |" not in table                              # of ten classes
    networks.speed(str(kinds), small, pictures=2)
    assert "1.00 |" in capsys.readouterr().out
    large = example("large_maps")
    large.TASKS, large.SHOTS, large.SIDES = 1, (1,), (2,)
    large.main([str(kinds)], small[1:], tmp_path)
    assert "means 2x2" in (tmp_path / "large-maps.md").read_text()
    monkeypatch.setattr(photo_grid, "SIZE", 96)
    shapes = example("map_shapes")
    shapes.SHAPES = dict(list(shapes.SHAPES.items())[:7])
    shapes.main([str(kinds)], [1], 1, tmp_path)
    assert (tmp_path / "map-shapes.md").read_text().count(f"| {kinds.name} |") == 7


def test_the_example_that_compares_the_default_runs(kinds, tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    grid = example("photo_grid")
    grid.SHOTS, grid.TASKS, grid.SIZE = (1, 2), {5: (2, 3), 0: (1, 2)}, 96
    for command in (grid.accuracy, grid.promises, grid.temperature):
        command([str(kinds)], tmp_path)
    for name in ("grid", "promises", "temperature"):
        table = (tmp_path / f"photo-{name}.md").read_text()
        assert all(f"| {ways} | {shots} |" in table for ways in (5, 10 if name == "temperature" else "all")
                   for shots in (1, 2))


def test_the_example_of_the_temperature_law_runs(kinds, tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    monkeypatch.syspath_prepend(ROOT / "examples")
    law = example("temperature_law")
    law.TRIED, law.WAYS, law.SHOTS = ("dmn4", "protonet"), (2, 3), (1, 2)
    law.main([str(kinds)], tmp_path, per_class=8, episodes=2)
    text = (tmp_path / "temperature-law.md").read_text()
    assert text.count(f"| {kinds.parent.name}/{kinds.name} |") == len(law.TRIED)
    assert "ln(ways)" in text


def test_the_example_of_unlabelled_pictures_runs(kinds, tmp_path, monkeypatch):
    monkeypatch.setenv("DMN4_CACHE", str(tmp_path))
    semi = example("unlabelled_pictures")
    semi.SETTINGS = {"none": (0, 0), "5 unlabelled": (5, 0), "5, and 5 strange classes": (5, 5)}
    semi.main(str(kinds), tmp_path, episodes=2, queries=2)
    assert next(tmp_path.glob("semi-*.md")).read_text().count("| dmn4-semi |") == len(semi.SHOTS)


def test_the_page_on_speed_has_a_column_for_every_version_and_a_figure(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    speed = importlib.import_module("speed_page")
    monkeypatch.setattr(speed, "FILES", tmp_path)
    for version, ratios in (("0.10.0", {"answer": {"5 classes": 1.1}}), ("0.2.0", {"answer": {"9 classes": 1.4}})):
        (tmp_path / f"{version}.json").write_text(json.dumps({"version": version, "ratios": ratios}))
    assert speed.speed_table().splitlines() == ["| Benchmark | 0.2.0 | 0.10.0 |", "|---|---|---|",
                                                "| answer: 5 classes |  | 1.10 |", "| answer: 9 classes | 1.40 |  |"]
    speed.draw_speed(tmp_path / "speed.png")
    assert Image.open(tmp_path / "speed.png").width > 1000
