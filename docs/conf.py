"""Sphinx's settings. `make docs` runs it over what docs/pages stages; every warning is an error."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGED = ROOT / "build/docs/source"

project = "tiertune"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
html_title = f"tiertune {release}"
language = "en_GB"
smartquotes = False  # options begin with two dashes

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["files", "examples"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# Docstrings have Markdown's backticks, and types are in the signatures.
default_role = "literal"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_favicon = str(ROOT / "docs/pages/static/favicon.svg")
html_static_path = [str(ROOT / "docs/pages/static")]
html_css_files = ["tables.css"]
html_js_files = ["accessibility.js"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
highlight_language = "text"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

if any((STAGED / "examples").glob("*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": [str(STAGED / "examples")],
        "gallery_dirs": ["gallery"],
        "filename_pattern": r"\.py$",
        "abort_on_example_error": True,
        "only_warn_on_example_error": False,
        "download_all_examples": False,
        "remove_config_comments": True,
        "show_memory": False,
        "min_reported_time": 1,
    }
