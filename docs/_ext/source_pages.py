"""Links to files of the package lead to pages that show them, with line numbers and colours."""

import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

ROOT = Path(__file__).parents[2]


def point_to_pages(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Turn downloads of Python files, which is what Markdown links to them become, into links to their pages."""
    for download in list(tree.findall(addnodes.download_reference)):
        file = source_file(page, download["reftarget"])
        if file is None or app.builder.format != "html":
            continue
        address = relative_uri(app.builder.get_target_uri(page), f"source/{file}.html")
        link = nodes.reference(refuri=address, internal=True)
        link += download.children
        download.replace_self(link)


def source_file(page: str, target: str) -> str | None:
    """The file below the root that a link of a page leads to, if it is Python: "dmn4/methods/dn4.py"."""
    base = "docs" if target.startswith("/") else posixpath.join("docs", posixpath.dirname(page))
    file = posixpath.normpath(posixpath.join(base, target.lstrip("/")))
    return file if file.endswith(".py") and (ROOT / file).is_file() else None


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for every file of the package and of the examples."""
    look = HtmlFormatter(linenos="inline", cssclass="highlight", anchorlinenos=True, lineanchors="L")
    for path in sorted([*(ROOT / "dmn4").rglob("*.py"), *(ROOT / "examples").glob("*.py")]):
        file = path.relative_to(ROOT).as_posix()
        body = f"<h1>{file}</h1>{highlight(path.read_text(), PythonLexer(), look)}"
        yield f"source/{file}", {"title": file, "body": body, "parents": []}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", point_to_pages)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
