"""The numbers under which schedules are stored, remembered for those that are being worked on."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

# About 20 MiB; beyond it they are looked up again.
_REMEMBERED_MAX = 200_000
_LOOK_UP = (
    "SELECT id, number FROM declarations WHERE namespace = ? AND id IN (SELECT value FROM json_each(?))"
)


class Numbers:
    """Ids to numbers. A number is never used twice, so one that is out of date hits no row."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._known: dict[str, int] = {}

    def remember(self, pairs: Iterable[tuple[str, int]]) -> None:
        """Keep what was just read."""
        if len(self._known) > _REMEMBERED_MAX:
            self._known = {}
        self._known.update(pairs)

    def forget(self) -> None:
        """Schedules were removed, or a transaction was undone: ids may come back under other numbers."""
        self._known = {}

    def of(self, connection: sqlite3.Connection, ids: Sequence[str]) -> list[int]:
        """Return the number of each id; 0, which no row has, for one that is not stored."""
        known, found = self._known, dict[str, int]()
        with contextlib.suppress(KeyError):
            return [known[schedule_id] for schedule_id in ids]
        missing = sorted({schedule_id for schedule_id in ids if schedule_id not in known})
        if missing:
            rows = connection.execute(_LOOK_UP, (self._namespace, json.dumps(missing)))
            found = dict(rows.fetchall())
            self.remember(found.items())
        return [known.get(schedule_id) or found.get(schedule_id, 0) for schedule_id in ids]
