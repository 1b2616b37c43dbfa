"""Questions about the runs of all schedules, in memory."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from dutiful.runtime.ports import Found, RunPage, RunPlace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.run import Run
    from dutiful.runtime.ports import RunFilter
    from dutiful.stores.memory.row import Row


def matching(rows: Iterable[Row], wanted: RunFilter, after: RunPlace | None, limit: int) -> RunPage:
    """Return the runs that match and come after a place, newest first, and where to go on."""
    places = [
        (RunPlace(run.run_at, row.number, run.kind), run)
        for row in rows
        for run in row.runs()
        if run.created_at is not None and _matches(wanted, row, run)
    ]
    found = sorted((each for each in places if after is None or each[0] < after), reverse=True)
    more = found[limit - 1][0] if len(found) >= limit else None
    return RunPage([run for _, run in found[:limit]], more)


def open_counts(rows: Iterable[Row]) -> dict[str, int]:
    """Return how many open runs are in each phase."""
    return Counter(run.phase.value for row in rows for run in row.open.values())


def find(rows: Iterable[Row], key: str) -> Found | None:
    """Return the run of a key, and its schedule."""
    runs = [Found(run, row.schedule) for row in rows for run in row.runs()]
    found = [
        each for each in runs if each.run.key == key and (each.run.own_key or each.run.created_at is not None)
    ]
    # The rest of a stretch may begin within the second of a tick that has run.
    return max(found, key=lambda each: (each.run.attempt, -each.run.run_at), default=None)


def _matches(wanted: RunFilter, row: Row, run: Run) -> bool:
    return (
        wanted.status in (None, run.status)
        and wanted.reason in (None, run.reason)
        and wanted.schedule_id in (None, run.schedule_id)
        and (wanted.since is None or run.run_at >= wanted.since)
        and (wanted.until is None or run.run_at < wanted.until)
        and wanted.owner in (None, _owner(row.schedule.task.payload))
    )


def _owner(payload: str) -> str | None:
    try:
        value = json.loads(payload)
    except ValueError:
        return None
    return value.get("user_id") if isinstance(value, dict) else None
