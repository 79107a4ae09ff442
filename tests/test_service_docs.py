"""The examples of the page on HTTP run: curl, httpx and JavaScript, against a service that asks for a token."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy_service import Patches, picture, running

from dmn4.web.limits import Limits
from dmn4.web.store import Store

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "service_http.md").read_text()
RUNNERS = {"bash": ["bash", "-euo", "pipefail"], "py": [sys.executable], "js": ["node"]}
SUFFIX = {"js": ".mjs"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with pictures, the address of a service, and a token for it."""
    folder = tmp_path_factory.mktemp("desk")
    for label, colour in (("Orange", "red"), ("Watermelon", "green")):
        (folder / "fruit" / label).mkdir(parents=True)
        for number in (1, 2):
            (folder / "fruit" / label / f"{number}.jpg").write_bytes(picture(colour, number))
    (folder / "new.jpg").write_bytes(picture("red", 9))
    store = Store(str(folder / "store"))
    token = store.tokens.add("ann")
    with running(Patches(), limits=Limits(workers=1), store=store) as address:
        yield folder, address, token
    store.close()


@pytest.mark.parametrize("kind", RUNNERS)
def test_the_example_runs(desk, kind):
    folder, address, token = desk
    needed = "curl" if kind == "bash" else RUNNERS[kind][0]
    if not shutil.which(needed):
        pytest.skip(f"the {kind} example is not run: there is no {needed}")
    block, = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    path = folder / f"example{SUFFIX.get(kind, '')}"
    path.write_text(block.replace("http://127.0.0.1:8000", address))
    run = subprocess.run([*RUNNERS[kind], str(path)], cwd=folder, env=os.environ | {"TOKEN": token}, text=True,
                         capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "Orange" in run.stdout
