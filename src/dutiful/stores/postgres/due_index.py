"""Where a leader begins to read the due index of its shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant

BEGINNING = -(2**63)
"""Below every wake."""
# A query from the beginning that took less (in seconds) is cheap enough to be repeated each time.
_SLOW_S = 0.005
# After a slow query from the beginning, wait this many times its duration before the next one, so that such
# queries take a twentieth of the time at most.
_REST = 20.0
# A wake is about the time of its writing. Clocks and long transactions may make it this late (ms).
_LATE_MS = 60_000


class DueFrom:
    """The wake below which the due index of a shard is known to hold no live row.

    A row that is moved on leaves its old entry in the index. The entry cannot be removed while any
    transaction of the server, such as a backup, is older than the move. After an hour of such a transaction
    every query would pass over all moves of that hour. So while a query from the beginning is slow, most
    queries begin where the last such query found the first live row. A wake that is written below that is
    found by the next query from the beginning: at once after a hint, else after the rest.
    """

    def __init__(self, slow_s: float = _SLOW_S, rest: float = _REST) -> None:
        self._slow_s, self._rest = slow_s, rest
        self._first = BEGINNING
        # Times in seconds. From `_until` on, queries are from the beginning.
        self._until = self._forgotten = 0.0

    def at(self, time: float) -> int:
        """Return the wake from which a query at this time reads."""
        return self._first if time < self._until else BEGINNING

    def found(self, first: Instant | None, now: Instant, began: float, ended: float) -> None:
        """Note the wake of the first live row that a query from the beginning found, None for no row.

        A query with another start changes nothing, nor does one that began before `forget`: it may have
        missed rows that were written since.
        """
        if self.at(began) != BEGINNING or began <= self._forgotten:
            return
        took = ended - began
        self._first = now - _LATE_MS if first is None else min(first, now - _LATE_MS)
        self._until = ended + self._rest * took if took >= self._slow_s else 0.0

    def forget(self, time: float) -> None:
        """Begin the next query at the beginning: a wake in the distant past may have been written."""
        self._until, self._forgotten = 0.0, time
