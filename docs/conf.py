"""How the documentation site is built: `make docs` writes docs/_build/html and stops at the first warning."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

import dmn4  # noqa: E402

project, author, copyright = "dmn4", "The dmn4 maintainers", "the dmn4 maintainers"  # noqa: A001
version = release = dmn4.__version__
language = "en"
smartquotes = False                                           # --reject is an option, not a dash

extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "myst_nb", "sphinx_design", "sphinx_copybutton",
              "generated_pages", "result_pages", "source_pages"]
exclude_patterns = ["_build", "results/*.json", "results/*.csv"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(torch|np|numpy|sklearn|PIL|collections|pathlib|typing)\b.*"),
                        ("py:.*", r"(Tensor|Module|Path|Source|Any|Hashable|Iterable|Mapping|Image|ndarray|nn\..*)"),
                        ("py:.*", r"dmn4\.(?!(FewShot|build|load|InputError)).*"), ("py:.*", r"[a-z_]+\.[\w.]+"),
                        ("py:class", r"[A-Z]\w*")]
default_role = "literal"

# Docstrings give shapes and choices; signatures give types.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
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
html_sidebars = {"index": []}
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
