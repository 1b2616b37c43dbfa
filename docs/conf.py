"""The documentation site: Markdown by MyST, drawn by furo, built without a network."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

from docutils import nodes
from pygments.lexers import BashSessionLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "dutiful"
author = "the dutiful authors"
copyright = f"2026, {author}"
version = release = version_of("dutiful")

extensions = ["myst_parser"]
exclude_patterns: list[str] = []
# Links such as cron.md#what-is-refused name headings down to this level.
myst_heading_anchors = 3
# Quotes in messages are shown as they are printed.
smartquotes = False
nitpicky = True

html_theme = "furo"
html_title = f"dutiful {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["dutiful.css"]
html_favicon = "../src/dutiful/web/static/icon.svg"
html_js_files = ["copy.js"]


def both_themes(_app: Sphinx | None, doctree: nodes.document) -> None:
    """Show a picture whose name has `-light` in the light theme, and its dark twin in the dark one."""
    for light in [*doctree.findall(nodes.image)]:
        if "-light." in light["uri"]:
            dark = light.deepcopy()
            dark["uri"] = light["uri"].replace("-light.", "-dark.")
            light["classes"].append("only-light")
            dark["classes"].append("only-dark")
            light.parent.insert(light.parent.index(light) + 1, dark)


def setup(app: Sphinx) -> None:
    """Call `both_themes` before Sphinx collects the pictures of a page, which it does at priority 500."""
    app.connect("doctree-read", both_themes, priority=400)
    # These blocks hold what commands print as well, which is no shell script.
    app.add_lexer("shell", BashSessionLexer)
