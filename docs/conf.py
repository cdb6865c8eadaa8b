"""How `make docs` builds the site: strict, offline, and without a request to anybody in what it writes."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "_ext"))
sys.path.insert(0, str(DOCS.parent / "sdk" / "src"))

from recloser import __version__  # noqa: E402

project = "Recloser"
version = release = __version__
html_title = f"Recloser {__version__}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "read_off_the_code"]
exclude_patterns = ["_ext", "images/pages"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
default_role = "code"  # docstrings are written for people who read the source: `name` is code
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_theme_options = {"source_edit_link": "", "source_view_link": ""}
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
