"""Sphinx's settings of the site. tools/site/build_site.py lays out its sources and calls it."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.c import CDomain
from sphinx.domains.cpp import CPPDomain

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
html_favicon = "_static/favicon.svg"
html_search_scorer = os.path.join(os.path.dirname(__file__), "scorer.js")
html_domain_indices = False
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

#: What stands before the name of a page of the reference in its title.
TITLES = {"reference/cpp/": "C++ reference", "reference/python/": "Python reference", "reference/c": "Reference"}
DESCRIPTION_COLUMNS = 160


def without_parameters(domain: type[CDomain | CPPDomain]) -> type[CDomain | CPPDomain]:
    """The domain whose parameters are in no index and not found by a search: they are on the page of their function."""

    class Domain(domain):  # type: ignore[valid-type, misc]
        def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
            return (entry for entry in super().get_objects() if not entry[2].endswith("Param"))

    return Domain


def description_of(page: nodes.document) -> str:
    """The first paragraph, as far as its sentences fit."""
    paragraph = next((p for p in page.findall(nodes.paragraph) if p.astext().strip()), nodes.paragraph())
    shown = (text for text in paragraph.findall(nodes.Text) if not isinstance(text.parent, nodes.raw))
    text = " ".join("".join(shown).split())
    if len(text) <= DESCRIPTION_COLUMNS:
        return text
    sentences = re.match(rf".{{40,{DESCRIPTION_COLUMNS - 1}}}\.(?= )", text)
    return sentences[0] if sentences else text[:DESCRIPTION_COLUMNS].rpartition(" ")[0] + " …"


def add_to_head(app: Sphinx, name: str, template: str, context: dict[str, Any], page: nodes.document | None) -> None:
    """A title that says which reference a page belongs to, and a description for search engines."""
    if page is None:
        return
    group = next((title for begin, title in TITLES.items() if name.startswith(begin)), None)
    if group is not None:
        context["title"] = f"{context['title']} ({group})"
    context["metatags"] += f'\n<meta name="description" content="{html.escape(description_of(page))}">'


def setup(app: Sphinx) -> None:
    app.add_domain(without_parameters(CDomain), override=True)
    app.add_domain(without_parameters(CPPDomain), override=True)
    app.connect("html-page-context", add_to_head)
