"""What to do about a text that is not YAML: the parser says what confused it, people need what to write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from yaml import MarkedYAMLError

QUOTE_STAR = 'put a text that begins with * in quotes, such as "*/5 * * * *"'


class _Hint(NamedTuple):
    # Found in what the parser says.
    said: str
    advice: str
    # The mistake is where the construct begins, not where the parser gave up.
    at_begin: bool = False


_HINTS = [
    _Hint("scanning an alias", QUOTE_STAR),
    _Hint("scanning an anchor", "put a text that begins with & in quotes"),
    _Hint("a tag|a %TAG|tag handle", "put a text that begins with ! in quotes"),
    _Hint("directive|%YAML", "put a text that begins with % in quotes"),
    _Hint("escape", "write \\\\ for a backslash, or use single quotes"),
    _Hint("quoted scalar", "close the quotes, and write nothing behind them", at_begin=True),
    _Hint("flow ", "close the bracket, or put a text with brackets or commas in quotes", at_begin=True),
    _Hint(
        "mapping values are not allowed", 'put a text with ": " in quotes; line up keys that belong together'
    ),
    _Hint("expected ':'", "write a colon and a blank after each key", at_begin=True),
    _Hint("block mapping", "line up keys that belong together; put quotes around all of a text"),
    _Hint("block collection|block sequence", "line up the items of a list, each with its dash"),
    _Hint("block scalar", "write nothing behind | or >, and indent the text with blanks"),
]
# By the character at which the parser gave up.
_STARTS = {
    "\t": "indent with blanks, not with tabs",
    "@": 'put a text that begins with @ in quotes, such as "@daily"',
    "*": QUOTE_STAR,
}
_OTHERWISE = "check the quotes and the indentation; put a text with special characters in quotes"


def refusal(error: MarkedYAMLError, text: str) -> tuple[int, str]:
    """Return the line, from 0, on which to look, and what is wrong there with what to do."""
    said = f"{error.context or ''} {error.problem or ''}".strip()
    hint = next((hint for hint in _HINTS if re.search(hint.said, said)), None)
    mark = error.problem_mark or error.context_mark
    if hint is not None and hint.at_begin and error.context_mark is not None:
        mark = error.context_mark
    line, column = (0, 0) if mark is None else (mark.line, mark.column)
    if hint is not None:
        return line, f"is not YAML ({said}); {hint.advice}"
    advice = _STARTS.get(_character(text, line, column), _OTHERWISE)
    return line, f"is not YAML ({said}); {advice}"


def _character(text: str, line: int, column: int) -> str:
    lines = text.split("\n", line + 1)
    return lines[line][column : column + 1] if line < len(lines) else ""
