"""Tables that the examples write into docs/results/ have no heading; on the site their file's name is it."""

from sphinx.application import Sphinx


def add_heading(app: Sphinx, page: str, text: list[str]) -> None:
    """Head a page of results that starts with its table: results/centre-birds-test -> "Centre birds test"."""
    if page.startswith("results/") and not text[0].startswith("# "):
        text[0] = f"# {page.removeprefix('results/').replace('-', ' ').capitalize()}\n\n{text[0]}"


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add_heading)
    return {"parallel_read_safe": True}
