"""Lone runs: a run that is the only one of its schedule, has no ledger to stay in, and just went off.

Nearly every run of the declarative scheduler is of this kind from its launch to its end. The row of its
state is rewritten at both anyway and can say all there is to say of it, so it is written there: half the
work (`make bench`, item 4a). It gets a row of its own in `runs` before anything else becomes of it.
"""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dutiful.core.run import Phase, Status
from dutiful.stores.sqlite.rows import ALL_RUN_COLUMNS, lone_run

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from dutiful.core.draft import Move
    from dutiful.core.outcome import Settlement
    from dutiful.stores.sqlite.bulk import Write

AS_ROW = (
    "lone_at, 'schedule', 'STARTED', 'launched', lone_at, NULL, 1, lone_epoch, attempted_at,"
    " NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL"
)
"""What ALL_RUN_COLUMNS would hold, told by the columns of a state."""

LAUNCH = (
    "UPDATE states SET cursor = ?1, lone_at = ?1, runs_started = ?2, attempted_at = ?3, wake_at = ?4,"
    " lone_epoch = ?5, rest_at = NULL, blocked = 0, version = version + 1 WHERE number = ?6 AND version = ?7"
)
_END = (
    "UPDATE states SET succeeded_at = ?1, ended_at = ?1, lone_at = NULL, lone_epoch = NULL,"
    " version = version + 1 WHERE number = ?2 AND lone_at = ?3"
)
_INSERT = f"INSERT INTO runs (schedule, {ALL_RUN_COLUMNS}) SELECT number, {AS_ROW} FROM states"
_CLEAR = "UPDATE states SET lone_at = NULL, lone_epoch = NULL"
_OF_THESE = "WHERE number IN (SELECT value FROM json_each(?)) AND lone_at IS NOT NULL"
_OF_ALL = "WHERE namespace = ? AND lone_at IS NOT NULL"
_ENDED, _SUCCESS = Phase.ENDED, Status.SUCCESS


def launches_alone(move: Move) -> bool:
    """Return whether all that a move launches is a run that its state can tell of."""
    (schedule, _, runs, _, _, _, _), state, _, rest_at, _, inserts, changes, _ = move
    policy = schedule.policy
    if runs or changes or len(inserts) != 1 or rest_at is not None or policy.ledger or policy.capacity:
        return False
    # A tick that was decided before may have a row, from a time when there was a ledger.
    if state.cursor <= state.decided_until or state.attempted_at is None:
        return False
    return inserts[0] == lone_run(schedule.id, state.cursor, inserts[0].epoch, state.attempted_at)


def may_end(settlement: Settlement) -> bool:
    """Return whether a lone run that comes to this end leaves nothing behind but its state."""
    run, keep, _ = settlement
    return not keep and run.phase is _ENDED and run.status is _SUCCESS and run.attempt == 1


def end(settlement: Settlement, number: int) -> Write:
    """Return what writes down the end of a lone run; it hits nothing if there is no such lone run."""
    run = settlement.run
    return _END, (run.ended_at, number, run.run_at)


def give_rows(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Give the lone runs of these schedules rows of their own: something else becomes of them."""
    listed = (json.dumps([*numbers]),)
    if listed != ("[]",):
        _move(connection, _OF_THESE, listed)


def give_rows_to_all(connection: sqlite3.Connection, namespace: str) -> None:
    """Give every lone run a row of its own."""
    _move(connection, _OF_ALL, (namespace,))


def _move(connection: sqlite3.Connection, which: str, values: tuple[str]) -> None:
    if connection.execute(f"{_INSERT} {which}", values).rowcount:
        connection.execute(f"{_CLEAR} {which}", values)
