"""Texts of strangers, made fit for a summary."""

from __future__ import annotations

_LENGTH_MAX = 500


def one_line(text: str) -> str | None:
    """Return the end of a text without control characters, or None if nothing is left."""
    shown = "".join(c if c.isprintable() else " " for c in text).strip()
    return shown[-_LENGTH_MAX:] or None
