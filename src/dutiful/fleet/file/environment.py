"""Variables in a fleet file: `${NAME}` and `${NAME:-default}`, filled in once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

# A dollar that is not followed by a brace is a dollar; `$${` is the way to write `${` itself.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Filled(NamedTuple):
    """A text with its variables filled in, and for what came out of the environment, the reference to it."""

    text: str
    references: dict[str, str]


def fill_in(text: str, environ: Mapping[str, str]) -> Filled:
    """Return `text` with its variables filled in; what is filled in is never looked at again.

    A default is used where the variable is not set or empty. Raises ValueError that says what to do.
    """
    references: dict[str, str] = {}

    def value_of(reference: re.Match[str]) -> str:
        if reference[0] == "$${":
            return "${"
        inside = _INSIDE.fullmatch(reference[1]) if reference[2] else None
        if inside is None:
            shown = quoted(reference[0])
            raise ValueError(
                f"has the reference {shown}; write ${{NAME}} or ${{NAME:-default}}, or $${{ for ${{ itself"
            )
        name, default = inside.groups()
        if default is None and name not in environ:
            raise ValueError(f"the variable {name} is not set; set it, or write ${{{name}:-default}}")
        value = environ.get(name) or default or ""
        references[value] = reference[0]
        return value

    return Filled(_REFERENCE.sub(value_of, text), references)
