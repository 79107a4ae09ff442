"""Documentation that runs: every Python block of the README and the docs, and every link to a file."""

import importlib.util
import re
from pathlib import Path

import pytest
from PIL import Image

from dmn4.data.samples import draw_clutter
from dmn4.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [pytest.param(block, id=f"{page.name}-{number}") for page in PAGES
          for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)]


@pytest.fixture(scope="session")
def desk(tmp_path_factory) -> Path:
    """A folder with what the documentation assumes: photos/class/*.png, inbox/*.png, benchmark/split/class/*.png."""
    folder = tmp_path_factory.mktemp("desk")
    drawn = draw_clutter(5, 20, size=64)
    for number, (image, label) in enumerate(zip(drawn.images, drawn.labels, strict=True)):
        name, rank = drawn.classes[label], number % 20
        places = [f"benchmark/{split}/{name}" for split in ("train", "val", "test")]
        places += [f"photos/{name}"] * (rank < 3) + ["inbox"] * (rank == 3)
        for place in places:
            (folder / place).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / place / f"{number}.png")
    return folder


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block, desk, monkeypatch):
    monkeypatch.chdir(desk)
    exec(compile(block, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_files_that_exist(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_table_of_methods_names_every_method_in_order():
    table = (ROOT / "docs" / "methods.md").read_text().split("## Published")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(METHODS)


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/methods.md"])
def test_published_tables_are_those_of_their_cards(page):
    spec = importlib.util.spec_from_file_location("results", ROOT / "examples" / "results.py")
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    text = (ROOT / page).read_text()
    assert "<!-- table:" in text or "<!-- summary:" in text
    assert results.refresh(text) == text, "run python examples/results.py"
