"""Names that people choose: which texts are legal, and how a text becomes an exact `str`."""

from __future__ import annotations

import re
import unicodedata

from dutiful.core.errors import InvalidArgumentError

# A namespace becomes part of file names and of keys in every store.
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

# Cc: control characters. Cs: halves of surrogate pairs, which have no UTF-8. Zl, Zp: line and paragraph
# separators. Any of them could forge a line of a log or a table, or cannot be stored.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})

# Longest name of a user: an identity provider's subject has at most 255 characters.
SUBJECT_MAX = 255


def exact(text: str) -> str:
    """Return `text` as a plain `str`.

    A member of `class Job(str, Enum)` is equal to its value and formats as `Job.NAME`, so the same name
    would be stored under one text and looked up under another.
    """
    return text if type(text) is str else str.__str__(text)


def name_flaw(text: str) -> str | None:
    """Return what is wrong with a name, to follow the word "name" in a message; None for a legal name."""
    if not text:
        return "must be a non-empty string"
    if text.isascii() and text.isprintable():
        return None
    odd = next((char for char in text if unicodedata.category(char) in _REFUSED), None)
    if odd is None:
        return None
    return (
        f"must not contain U+{ord(odd):04X}: control characters, surrogates and line separators are refused"
    )


def checked_namespace(value: object) -> str:
    """Return the namespace of a store as an exact text, or raise InvalidArgumentError."""
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        advice = "write 1 to 64 letters, digits, '.', '_' and '-', a letter or digit first"
        raise InvalidArgumentError("namespace", value, advice)
    return exact(value)


def subject_flaw(text: object) -> str | None:
    """Return what is wrong with the name of a user, as a rule to follow; None for a legal one."""
    if not isinstance(text, str) or not 0 < len(text) <= SUBJECT_MAX or name_flaw(text) is not None:
        return f"write 1 to {SUBJECT_MAX} characters without control characters and line separators"
    return None
