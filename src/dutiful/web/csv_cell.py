"""The rule for texts in CSV, of the pages and of the command line: no spreadsheet takes one for a formula."""

from __future__ import annotations

# A spreadsheet takes a cell that begins with one of these for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(text: str) -> str:
    """Return a text as a cell; a text that begins like a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
