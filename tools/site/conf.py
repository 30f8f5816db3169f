"""Sphinx's settings of the site. tools/site/build_site.py lays out its sources and calls it."""

from __future__ import annotations

import os

project = "Isthmus"
author = "Isthmus developers"
copyright = author
version = release = os.environ["ISTHMUS_SITE_VERSION"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "fieldlist"]
# As a forge makes them, so that docs/*.md link to headings the same way here and there.
myst_heading_anchors = 4
# Code of the guides may leave out a part with "…", which no lexer knows.
suppress_warnings = ["misc.highlighting_failure"]
primary_domain = "cpp"
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "github-dark"
cpp_maximum_signature_line_length = 88
python_maximum_signature_line_length = 88
c_maximum_signature_line_length = 88
cpp_index_common_prefix = ["isthmus::", "isthmus::shared::"]
add_module_names = False
toc_object_entries = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Isthmus {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["versions.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "versions.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
templates_path = ["_templates"]
html_theme_options = {"navigation_with_keys": True}
