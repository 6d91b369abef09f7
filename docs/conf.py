"""How Sphinx makes a site of these pages: `make docs`, in which every warning is an error."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "windrow"
version = release = version_of("windrow")
copyright = "the authors of windrow, Apache-2.0"  # noqa: A001 - Sphinx's own name for it
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "from_code"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
exclude_patterns = ["README.md"]

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 100
toc_object_entries = False

default_role = "code"

html_theme = "furo"
html_title = f"windrow {version}"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
templates_path: list[str] = []
pygments_style = "default"
pygments_dark_style = "github-dark"
