"""The rule for texts in CSV, of pages and of the command line: no spreadsheet may run a text as a formula."""

from __future__ import annotations

# Spreadsheets run a cell as a formula if it begins with one of these characters.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(text: str) -> str:
    """Return a text as a cell; a text that begins like a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
