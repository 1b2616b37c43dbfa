"""Inline runs: runs stored in the state row of their schedule instead of the table `runs`.

A run is inline if it is the only open run of its schedule, no ledger will keep it, and it was just launched.
Nearly every run of the declarative scheduler is of this kind. Launch and end rewrite the state row anyway, so
keeping the run there halves the work (`make bench`, item 4a). Before any other change the run gets a row of
its own in `runs`.
"""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from dutiful.core.run import Phase, Status
from dutiful.stores.rows import RUN_ALL, inline_run, launches_inline, listed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.snapshot import Move
    from dutiful.stores.rows import Row

Own: TypeAlias = "tuple[Row, int, int | None]"
"""The values shared by many rows, the number of one row, and the value of that row alone."""

_FROM_STATE = {
    "run_at": "inline_at",
    "fire_at": "inline_at",
    "epoch": "inline_epoch",
    "started_at": "attempted_at",
}


def _as_sql(value: object) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


AS_ROW = listed(
    _FROM_STATE.get(column) or _as_sql(value)
    for column, value in zip(RUN_ALL, inline_run("", 0, 0, 0)[1:], strict=True)
)
"""The columns of an inline run, as expressions over the columns of its state."""

LAUNCH = (
    "UPDATE states SET cursor = ?1, inline_at = ?1, runs_started = ?2, attempted_at = ?3,"
    " wake_at = own.value, inline_epoch = ?4, idle_wake_at = NULL, blocked = 0, version = version + 1"
    " FROM json_each(?6) AS own WHERE number = own.key AND version = ?5"
)
END = (
    "UPDATE states SET succeeded_at = own.value, ended_at = own.value, inline_at = NULL,"
    " inline_epoch = NULL, version = version + 1"
    " FROM json_each(?2) AS own WHERE number = own.key AND inline_at = ?1"
)
_INSERT = f"INSERT INTO runs (schedule, {listed(RUN_ALL)}) SELECT number, {AS_ROW} FROM states"
_CLEAR = "UPDATE states SET inline_at = NULL, inline_epoch = NULL"
_OF_THESE = "WHERE number IN (SELECT value FROM json_each(?)) AND inline_at IS NOT NULL"
_OF_ALL = "WHERE namespace = ? AND inline_at IS NOT NULL"
_ENDED, _SUCCESS = Phase.ENDED, Status.SUCCESS


def launch(move: Move) -> Own | None:
    """Return the values of LAUNCH for a move that only launches an inline run; None for other moves."""
    if not launches_inline(move):
        return None
    (_, _, _, version, _, _, _, number), (cursor, started, attempted, *_), wake_at, *_ = move
    return (cursor, started, attempted, move.inserts[0].epoch, version), number, wake_at


def end(settlement: Settlement) -> Own | None:
    """Return the values of END for the success of a possibly inline run; None for other settlements."""
    run, keep, _, number = settlement
    if keep or run.phase is not _ENDED or run.status is not _SUCCESS or run.attempt != 1:
        return None
    return (run.run_at,), number, run.ended_at


def give_rows(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Move the inline runs of these schedules to rows of their own, before another change to them."""
    listed = (json.dumps([*numbers]),)
    if listed != ("[]",):
        _move(connection, _OF_THESE, listed)


def give_rows_to_all(connection: sqlite3.Connection, namespace: str) -> None:
    """Move every inline run of the namespace to a row of its own."""
    _move(connection, _OF_ALL, (namespace,))


def _move(connection: sqlite3.Connection, which: str, values: tuple[str]) -> None:
    if connection.execute(f"{_INSERT} {which}", values).rowcount:
        connection.execute(f"{_CLEAR} {which}", values)
