"""The reference pages that are generated from the code when the site is built: commands, options, HTTP, speed."""

from pathlib import Path

from command_pages import command_pages
from http_page import http_page
from option_pages import option_table
from speed_page import draw_speed, speed_table
from sphinx.application import Sphinx

FOLDER = Path(__file__).parents[1] / "reference" / "generated"


def write_pages(app: Sphinx) -> None:
    """Write every page whose text has changed, and remove those that nothing writes any more."""
    pages = command_pages() | {"http": http_page(), "options": option_table(), "speed": speed_table()}
    FOLDER.mkdir(exist_ok=True)
    draw_speed(FOLDER / "speed.png")
    for name, text in pages.items():
        path = FOLDER / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in FOLDER.glob("*.md"):
        if path.stem not in pages:
            path.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
