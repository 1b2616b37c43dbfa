"""Who becomes due because a run has ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from dutiful.core.cadence import Instant

_ANY_BLOCKED = "SELECT 1 FROM states INDEXED BY states_blocked WHERE namespace = ? AND blocked = 1 LIMIT 1"
_WAKE = "UPDATE states SET wake_at = ?, version = version + 1 WHERE number = ? AND blocked = 1"
_WAKE_GROUP = (
    "UPDATE states INDEXED BY states_blocked SET wake_at = ?, version = version + 1"
    " WHERE namespace = ? AND capacity_group = ? AND blocked = 1 AND number <> ?"
)
_GROUPS = (
    "SELECT number, capacity_group FROM states WHERE capacity_group IS NOT NULL"
    " AND number IN (SELECT value FROM json_each(?))"
)


def wake_blocked(connection: sqlite3.Connection, namespace: str, ended: Mapping[int, Instant]) -> None:
    """Make due what waited for a run of these schedules, or for room in one of their groups, to end."""
    if not ended or connection.execute(_ANY_BLOCKED, (namespace,)).fetchone() is None:
        return
    connection.executemany(_WAKE, [(ended_at, number) for number, ended_at in ended.items()])
    groups = dict(connection.execute(_GROUPS, (json.dumps(list(ended)),)).fetchall())
    # In the order of the endings, so that the last one of a group counts.
    latest = {groups[number]: ended_at for number, ended_at in ended.items() if number in groups}
    nobody = 0
    connection.executemany(
        _WAKE_GROUP, [(ended_at, namespace, group, nobody) for group, ended_at in latest.items()]
    )


def wake_groups(
    connection: sqlite3.Connection, namespace: str, freed: Iterable[tuple[str, Instant, int]]
) -> None:
    """Make due what waits for room in a group, all but the schedule whose own move made it."""
    connection.executemany(
        _WAKE_GROUP, [(ended_at, namespace, group, number) for group, ended_at, number in freed]
    )
