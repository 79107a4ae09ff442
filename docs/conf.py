"""How the documentation site is built: `make docs` writes docs/_build/html and stops at the first warning."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import dmn4  # noqa: E402

project, author, copyright = "dmn4", "The dmn4 maintainers", "the dmn4 maintainers"  # noqa: A001
version = release = dmn4.__version__
language = "en"
smartquotes = False                                           # --reject is an option, not a dash

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "myst_nb", "sphinx_design", "sphinx_copybutton",
              "generated_pages", "result_pages", "source_pages"]
exclude_patterns = ["_build", "reference/generated/options.md", "reference/generated/speed.md"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(torch|np|numpy|sklearn|PIL|collections|pathlib|typing)\b.*"),
                        ("py:.*", r"(Tensor|Module|Path|Source|Any|Hashable|Iterable|Mapping|Image|ndarray|nn\..*)"),
                        ("py:.*", r"dmn4\.(?!(FewShot|build|load|InputError)).*"), ("py:.*", r"[a-z_]+\.[\w.]+"),
                        ("py:class", r"[A-Z]\w*")]
default_role = "literal"
highlight_language = "none"                                   # Markdown names the language of code

# Docstrings give shapes and choices; signatures give types.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

# Markdown, and the notebooks of examples/. `make docs` runs the notebooks; CI's lint stage leaves them as they are.
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "dmn4"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_sidebars = {"index": [], "start": [], "why_it_works": []}
html_theme_options = {
    "logo": {"text": "dmn4"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def skip_foreign(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator; the page names it in one sentence."""
    return True if name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request")) else None


def shorten(app: Sphinx, what: str, name: str, member: Any, options: Any, signature: str | None,
            returns: str | None) -> tuple[str, str | None] | None:
    """Write a picture as `Source` in a signature; the page says what that is."""
    return signature and (re.sub(r"str \| Path \| bytes \| ndarray \| Image( \| Crop)?", "Source", signature), returns)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-signature", shorten)
