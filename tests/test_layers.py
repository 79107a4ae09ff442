"""Data flows down the page: a file imports only from files above it in the tree of CONTRIBUTING.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "dmn4"
TREE = re.search(r"```\n(errors\.py.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
ORDER = [line.split()[0] for line in TREE[1].splitlines()] if TREE else []
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def place(file: str) -> int:
    """The place of a file in the tree: its own line, or that of the folder it is in."""
    for name in (file, *(f"{parent.as_posix()}/" for parent in Path(file).parents)):
        if name in ORDER:
            return ORDER.index(name)
    if file.endswith("__init__.py"):                             # the names of a room: below its last file
        return max(place for place, name in enumerate(ORDER) if name.startswith(file.removesuffix("__init__.py")))
    raise AssertionError(f"dmn4/{file} has no line in the tree of CONTRIBUTING.md")


def imported(file: str) -> list[str]:
    """The files of the package that a file imports."""
    found = []
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.ImportFrom):
            words = (node.module or "").split(".")
            if node.level:
                base = [*Path(file).parent.parts[: len(Path(file).parent.parts) + 1 - node.level], *filter(None, words)]
            elif words[0] == "dmn4":
                base = words[1:]
            else:
                continue
            found += [as_file([*base, alias.name]) or as_file(base) for alias in node.names]
    return [name for name in found if name]


def as_file(parts: list[str]) -> str | None:
    """The file of a module or package below the root, if there is one."""
    path = "/".join(parts)
    return next((name for name in (f"{path}.py", f"{path}/__init__.py") if name in FILES), None)


@pytest.mark.parametrize("file", [name for name in FILES if not name.endswith("__init__.py")])
def test_imports_point_up_the_page(file):
    own = place(file)
    for other in imported(file):
        assert place(other) <= own, f"dmn4/{file} imports {other}, which stands below it"


def test_the_tree_names_no_file_that_is_gone():
    missing = [name for name in ORDER if not (PACKAGE / name).exists()]
    assert not missing
