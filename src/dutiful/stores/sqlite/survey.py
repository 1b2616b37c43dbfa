"""Compares the stored schedules with a declaration; rows with equal columns are not decoded."""

# ruff: noqa: S608 - the statements are made of words written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import CodecError
from dutiful.core.plan.reconcile import Survey
from dutiful.core.policy import Reason
from dutiful.stores.codec import encode_cadence, encode_policy, row_checksum, shared_checksum
from dutiful.stores.rows import SCHEDULE, listed
from dutiful.stores.sqlite import reads
from dutiful.stores.sqlite.interned_texts import FoundTexts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from dutiful.core.cadence import Cadence
    from dutiful.core.policy import Policy
    from dutiful.core.schedule import Schedule
    from dutiful.stores.rows import Damage, Row
    from dutiful.stores.sqlite.interned_texts import Texts

# From 1970 to 9999: engines write no other times.
_POSSIBLE = "BETWEEN 0 AND 253402300799999"
_TIMES = ("attempted_at", "succeeded_at", "failed_at")
_REASONS = ", ".join(f"'{reason.value}'" for reason in Reason)
_USUAL = (
    f"inline_at IS NULL AND (skipped_at IS NULL OR ifnull(skipped_reason, '') IN ({_REASONS}))"
    # A schedule without an attempt has no end.
    f" AND coalesce({', '.join(_TIMES)}) IS attempted_at"
    f" AND {' AND '.join(f'ifnull({time}, 0) {_POSSIBLE}' for time in _TIMES)}"
)
_RESTLESS = (
    f"SELECT number FROM states NOT INDEXED WHERE NOT ({_USUAL})"
    " UNION ALL SELECT schedule FROM runs INDEXED BY runs_open WHERE phase <> 'ended'"
)
# Read along the primary keys of both tables, as for every full scan. A declaration needs a state to count.
_ROWS = (
    f"SELECT {listed(SCHEDULE)} FROM declarations NOT INDEXED CROSS JOIN states USING (number)"
    " WHERE declarations.namespace = ? AND damage IS NULL"
)


def survey(
    connection: sqlite3.Connection, texts: Texts, namespace: str, declared: Sequence[Schedule]
) -> tuple[Survey, list[Damage]]:
    """Return how the stored schedules differ from the declaration, and the schedules found damaged."""
    # Schedules that are stored as declared are removed from this dict.
    differing = {schedule.id: schedule for schedule in declared}
    restless = {number for (number,) in connection.execute(_RESTLESS)}
    numbers, columns = list[int](), _Columns(connection)
    for row in connection.execute(_ROWS, (namespace,)):
        number, schedule_id = row[0], row[1]
        schedule = differing.get(schedule_id)
        if schedule is not None and number not in restless and columns.are_of(schedule, row):
            del differing[schedule_id]
        else:
            numbers.append(number)
    dues, damage = reads.numbered(connection, texts, numbers)
    stored = {due.schedule.id: due for due in dues}
    pairs = [(schedule, stored.get(schedule_id)) for schedule_id, schedule in differing.items()]
    return Survey(pairs, [schedule_id for schedule_id in stored if schedule_id not in differing]), damage


class _Columns:
    """Compares rows with schedules; the values shared by many schedules are computed once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._numbers = FoundTexts(connection)
        # Keyed by identity: hashing a cadence or a policy would take longer than all the rest.
        self._shared: dict[tuple[int, int], tuple[int | None, int | None, int]] = {}

    def are_of(self, schedule: Schedule, row: Row) -> bool:
        """Return whether a row is undamaged and holds the declared values, paused or not."""
        _, id_, expected, task, payload, cadence, policy, start, end, paused, until = row
        _, declared, of_cadence, of_policy, window, _, _ = schedule
        shared = self._shared.get((id(of_cadence), id(of_policy))) or self._find(of_cadence, of_policy)
        return bool(
            shared[0] == cadence
            and shared[1] == policy
            and declared.name == task
            and declared.payload == payload
            and window.start == start
            and window.end == end
            and row_checksum(shared[2], id_, task, payload, start, end, paused, until) == expected
        )

    def _find(self, cadence: Cadence, policy: Policy) -> tuple[int | None, int | None, int]:
        try:
            texts = encode_cadence(cadence), encode_policy(policy)
        except CodecError:
            # A schedule that cannot be encoded is not stored; writing it raises the error.
            texts = "", ""
        shared = self._numbers[texts[0]], self._numbers[texts[1]], shared_checksum(*texts)
        self._shared[id(cadence), id(policy)] = shared
        return shared
