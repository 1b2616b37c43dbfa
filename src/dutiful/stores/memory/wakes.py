"""When the rows of the reference store are due."""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.stores.memory.row import Row

_number = attrgetter("number")


class Wakes:
    """The rows by instant, since many share one. Where a row has another wake by now it is passed over."""

    def __init__(self) -> None:
        self._rows: dict[Instant, list[Row]] = {}
        # A heap of the keys above.
        self._instants: list[Instant] = []
        # Where the lowest number is at the end, from which rows are taken.
        self._sorted: set[Instant] = set()

    def add(self, row: Row, at: Instant) -> None:
        """Note that a row is due at an instant, which becomes its wake."""
        rows = self._rows.get(at)
        if rows is None:
            self._rows[at] = [row]
            heapq.heappush(self._instants, at)
        else:
            rows.append(row)
            self._sorted.discard(at)

    def next(self) -> Instant | None:
        """Return the earliest wake."""
        while self._instants:
            at = self._instants[0]
            rows = self._rows[at]
            while rows and rows[-1].wake_at != at:
                rows.pop()
            if rows:
                return at
            heapq.heappop(self._instants)
            del self._rows[at]
            self._sorted.discard(at)
        return None

    def take(self, now: Instant, limit: int) -> tuple[list[Row], Instant | None]:
        """Take out the rows that are due by `now`, in the order of their wakes and numbers.

        Returns them, and the earliest wake of those that are left.
        """
        taken: list[Row] = []
        while (at := self.next()) is not None and at <= now and len(taken) < limit:
            rows = self._rows[at]
            if len(rows) > 1 and at not in self._sorted:
                # A row that left this instant and came back is in there twice.
                rows[:] = sorted({*rows}, key=_number, reverse=True)
                self._sorted.add(at)
            wanted = limit - len(taken)
            taken += [row for row in rows[: -wanted - 1 : -1] if row.wake_at == at]
            del rows[-wanted:]
        return taken, at
