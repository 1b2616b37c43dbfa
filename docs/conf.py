"""The documentation site: Markdown by MyST, drawn by furo, built without a network."""

from importlib.metadata import version as version_of

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
html_js_files = ["copy.js"]
