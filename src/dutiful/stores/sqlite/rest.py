"""A stretch of skipped ticks that begins at a tick which was decided before: after a step of the clock."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.stores.rows import RUN_ALL, birth_columns, listed, read_run, run_columns

if TYPE_CHECKING:
    import sqlite3

    from dutiful.core.run import Run

ONCE = "ON CONFLICT (schedule, run_at, kind) DO NOTHING"
INSERT = (
    f"INSERT INTO runs ({listed(RUN_ALL)}, schedule, capacity_group)"
    f" VALUES ({listed('?' * len(RUN_ALL))}, ?, ?) {ONCE}"
)
_DECIDED = f"SELECT {listed(RUN_ALL)} FROM runs WHERE schedule = ? AND run_at = ? AND kind = ?"
_GROWING = "UPDATE states SET skipped_at = ?, skipped_ticks = ? WHERE number = ? AND skipped_at = ?"
_NOT_GROWING = (
    "UPDATE states SET skipped_at = NULL, skipped_reason = NULL, skipped_ticks = NULL"
    " WHERE number = ? AND skipped_at = ?"
)


def insert_rest(connection: sqlite3.Connection, number: int, group: str | None, run: Run) -> None:
    """Write the part of a stretch that is not decided yet; it is what grows from now on."""
    row = connection.execute(_DECIDED, (number, run.run_at, run.kind)).fetchone()
    rest = run.beyond(read_run(run.schedule_id, row))
    if rest is None:
        connection.execute(_NOT_GROWING, (number, run.run_at))
        return
    connection.execute(_GROWING, (rest.run_at, rest.ticks, number, run.run_at))
    values = (*run_columns(rest), *birth_columns(rest), number, group)
    if connection.execute(INSERT, values).rowcount == 0:
        insert_rest(connection, number, group, rest)
