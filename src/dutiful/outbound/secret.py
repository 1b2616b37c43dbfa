"""Secrets: texts that no log, error, table or JSON may show."""

from __future__ import annotations

import hmac
from typing import NoReturn

_SHOWN = "***"


class Secret(str):
    """A text that reads `***` however it is shown; `reveal()` returns the text itself.

    A Secret is a str, so that code that prints, joins, formats or encodes it gets the mask, not an exception.
    """

    __slots__ = ("_text",)
    _text: str

    def __new__(cls, text: str) -> Secret:
        """Hide `text`."""
        secret = super().__new__(cls, _SHOWN)
        secret._text = text
        return secret

    def reveal(self) -> str:
        """Return the text itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return _SHOWN

    def __eq__(self, other: object) -> bool:
        mine = self._text.encode("utf-8", "surrogatepass")
        return isinstance(other, Secret) and hmac.compare_digest(
            mine, other._text.encode("utf-8", "surrogatepass")
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: object) -> Secret:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a secret is not pickled: it would be readable where it is stored")
