"""Documentation that runs: every Python block of the README and the docs, and every link to a file."""

import re
from pathlib import Path

import pytest

from dmn4.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [pytest.param(block, id=f"{page.name}-{number}") for page in PAGES
          for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), 1)]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block, tmp_path, monkeypatch):
    if "# needs" in block:
        pytest.skip(block.splitlines()[0].lstrip("# "))
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "documentation", "exec"), {"__name__": "documentation"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_files_that_exist(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_table_of_methods_names_every_method_in_order():
    table = (ROOT / "docs" / "methods.md").read_text().split("## Published")[0]
    assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == list(METHODS)
