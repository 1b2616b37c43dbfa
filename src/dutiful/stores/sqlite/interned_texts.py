"""The texts of cadences and policies: each is stored once, and declarations refer to it by number.

The number is a hash of the text. It means the same text in every process, whatever was rolled back or deleted
since, so a text that was read once never needs to be read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import CodecError
from dutiful.stores.codec import Shared, read_shared, text_number

if TYPE_CHECKING:
    import sqlite3

_TEXT = "SELECT text FROM texts WHERE number = ?"
# Repair a text that was changed outside dutiful, and so all declarations that refer to it.
_STORE = (
    "INSERT INTO texts (number, text) VALUES (?, ?)"
    " ON CONFLICT DO UPDATE SET text = excluded.text WHERE text <> excluded.text"
)
# As many as the codec caches; beyond that the cache is cleared.
_KNOWN_MAX = 16_384


class Texts(dict[tuple[int, int], Shared]):
    """Cadence and policy by the numbers of their texts; looking up unreadable texts raises CodecError."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, numbers: tuple[int, int]) -> Shared:
        cadence, policy = self._find("cadence", numbers[0]), self._find("policy", numbers[1])
        shared = read_shared(cadence, policy)
        if len(self) >= _KNOWN_MAX:
            self.clear()
        # Do not cache a text that was changed outside dutiful: it may be repaired.
        if numbers == (text_number(cadence), text_number(policy)):
            self[numbers] = shared
        return shared

    def _find(self, subject: str, number: int) -> str:
        found = self._connection.execute(_TEXT, (number,)).fetchone()
        if found is None:
            raise CodecError(subject, f"the table texts has no number {number}, where its text should be")
        return str(found[0])


class FoundTexts(dict[str, int | None]):
    """The numbers of texts; None for a text that is not stored."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, text: str) -> int | None:
        number = text_number(text)
        there = self._connection.execute(_TEXT, (number,)).fetchone() == (text,)
        found = self[text] = number if there else None
        return found


class StoredTexts(dict[str, int]):
    """The numbers of texts; looking up a text stores it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, text: str) -> int:
        number = self[text] = text_number(text)
        self._connection.execute(_STORE, (number, text))
        return number
