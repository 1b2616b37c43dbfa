"""Pieces of SQL: rows of values as a FROM item, and the fence with which every write of a leader begins."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import LostLeadershipError
from dutiful.stores.rows import RUN_ALL, RUN_TEXTS, STATE, inline_run, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dutiful.stores.postgres.connections import Session

_TEXTS = (
    "skipped_reason quarantine capacity_group id name value task payload owner damage was_phase was_status"
    " text pause_note paused_by workflow_id dag"
)
_TYPES = {
    **dict.fromkeys((*RUN_TEXTS, *_TEXTS.split()), "text"),
    **dict.fromkeys(("blocked", "gone", "ends", "timed"), "boolean"),
    "key": "bytea",
    "paused": "smallint",
    "shard": "int",
}
RUN_CHANGING = tuple(
    column for column in RUN_ALL[: RUN_ALL.index("backfill")] if column not in ("run_at", "kind")
)
"""The columns of a run that a change writes: all but its key and the columns written at its birth."""


def sql_type(column: str) -> str:
    """Return the type of a column; nearly all are bigint."""
    return _TYPES.get(column, "bigint")


class Values:
    """The parameters of one statement, numbered in the order of their addition."""

    def __init__(self, *values: object) -> None:
        self.all: list[object] = [*values]

    def add(self, value: object, kind: str) -> str:
        """Add a parameter, and return its placeholder."""
        self.all.append(value)
        return f"${len(self.all)}::{kind}"

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbered: str = "number") -> str:
        """Return rows as a FROM item without a name; there must be at least one row.

        A column with the same value in all rows, as most have, is sent once; except the `numbered` one.
        """
        arrays, selected = list[str](), list[str]()
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            # The key of a run is a digest; the key of a start is a text.
            kind = "text" if isinstance(values[0], str) else sql_type(column)
            if column != numbered and values.count(values[0]) == len(values):
                selected.append(f"{self.add(values[0], kind)} AS {column}")
            else:
                arrays.append(self.add(values, f"{kind}[]"))
                selected.append(f"u{len(arrays)} AS {column}")
        names = listed(f"u{n}" for n in range(1, len(arrays) + 1))
        return f"(SELECT {listed(selected)} FROM unnest({listed(arrays)}) AS u ({names}))"


def assigned_from(source: str, columns: Iterable[str]) -> str:
    """Return columns as assignments from another table, for UPDATE."""
    return ", ".join(f"{column} = {source}.{column}" for column in columns)


def assigned_values(columns: Iterable[str], first: int) -> str:
    """Return columns as assignments from parameters that are numbered from `first`, for UPDATE."""
    return ", ".join(f"{column} = ${n}::{sql_type(column)}" for n, column in enumerate(columns, first))


def with_queries(queries: Mapping[str, str]) -> str:
    """Return the WITH clause of a statement whose queries use each other by name, in this order."""
    # Materialized, so that a query that locks rows or compares versions is not merged into another one.
    return "WITH " + ", ".join(f"{name} AS MATERIALIZED ({query})" for name, query in queries.items())


class Fence(NamedTuple):
    """The leadership under which a write is made."""

    shard: int
    epoch: int
    turn: int


LEAD = "SELECT shard FROM shards WHERE shard = $1 AND epoch = $2 AND turn = $3 FOR SHARE"
"""The fence, with the fields of `Fence`: no row if the leadership has ended. Waits for one that begins."""


async def check(session: Session, fence: Fence) -> None:
    """Raise LostLeadershipError unless the leadership holds; it then holds until the transaction ends."""
    if await session.value(LEAD, *fence) is None:
        raise await lost(session, fence)


async def lost(session: Session, fence: Fence) -> LostLeadershipError:
    """Return the error for a leadership that has ended."""
    present = await session.value("SELECT epoch FROM shards WHERE shard = $1", fence.shard)
    return LostLeadershipError(fence.epoch, present or 0)


_FROM_STATE = {
    "run_at": "inline_at",
    "fire_at": "inline_at",
    "epoch": "inline_epoch",
    "started_at": "attempted_at",
}


def _as_sql(column: str, value: object) -> str:
    if value is None:
        return f"NULL::{sql_type(column)}"
    return f"'{value}'" if isinstance(value, str) else str(value)


INLINE_AS_ROW = listed(
    _FROM_STATE.get(column) or _as_sql(column, value)
    for column, value in zip(RUN_ALL, inline_run("", 0, 0, 0)[1:], strict=True)
)
"""The columns of an inline run, as expressions over the columns of its state."""

# Joins the table with itself, because RETURNING gives new values and the old ones are needed.
_GIVE_ROWS = (
    "WITH given AS (UPDATE states SET inline_at = NULL, inline_epoch = NULL, open_runs = states.open_runs +"
    " 1,"
    " in_flight = states.in_flight + 1, open_from = least(states.open_from, held.inline_at)"
    " FROM (SELECT number, inline_at, inline_epoch, attempted_at FROM states WHERE {which}"
    " AND inline_at IS NOT NULL FOR UPDATE{skip}) AS held WHERE states.number = held.number"
    " RETURNING held.number, held.inline_at, held.inline_epoch, held.attempted_at)"
    f" INSERT INTO runs (schedule, {listed(RUN_ALL)}) SELECT number, {INLINE_AS_ROW} FROM given"
)
_GIVE_ROWS_TO_THESE = _GIVE_ROWS.format(which="number = ANY($1::bigint[])", skip="")
_GIVE_ROWS_TO_SHARD = _GIVE_ROWS.format(which="shard = $1", skip="")
_GIVE_ROWS_TO_FREE = _GIVE_ROWS.format(which="shard = $1", skip=" SKIP LOCKED")
ORPHANS_ARE_DUE = (
    "UPDATE states SET wake_at = 0, version = version + 1 WHERE shard = $1 AND open_runs > 0"
    " AND number NOT IN (SELECT number FROM declarations WHERE damage IS NOT NULL)"
)
"""Makes the schedules of a shard due whose runs a new leader adopts."""
_RECOUNT = (
    "UPDATE states SET open_runs = counted.open_runs, in_flight = counted.in_flight,"
    " open_from = counted.open_from FROM (SELECT asked.number, count(phase) AS open_runs,"
    " count(phase) FILTER (WHERE phase IN ('launched', 'accepted')) AS in_flight, min(run_at) AS open_from"
    " FROM unnest($1::bigint[], $2::bigint[]) AS asked (number, since) JOIN states USING (number)"
    " LEFT JOIN runs ON schedule = asked.number AND run_at >= least(asked.since, states.open_from)"
    " AND CASE WHEN phase <> 'ended' THEN true ELSE false END GROUP BY asked.number) AS counted"
    " WHERE states.number = counted.number"
)
WAKE_GROUP = (
    "UPDATE states SET wake_at = $1, version = version + 1"
    " WHERE shard = $2 AND capacity_group = $3 AND blocked AND number <> $4"
)
"""Wakes the schedules blocked on a group, except one of them."""

assert set(STATE).isdisjoint({"open_runs", "in_flight", "open_from"}), "the store keeps these itself"


async def give_rows(session: Session, numbers: Sequence[int]) -> None:
    """Move the inline runs of these schedules to rows of their own, before another change to them."""
    if numbers:
        await session.run(_GIVE_ROWS_TO_THESE, sorted(numbers))


async def give_rows_to_shard(session: Session, shard: int, *, only_free: bool = False) -> None:
    """Move every inline run of a shard to a row of its own; with `only_free`, no run of a locked schedule."""
    await session.run(_GIVE_ROWS_TO_FREE if only_free else _GIVE_ROWS_TO_SHARD, shard)


async def recount(session: Session, since: dict[int, int]) -> None:
    """Count the open runs of schedules anew; `since` is the earliest tick that changed, by number."""
    if since:
        await session.run(_RECOUNT, list(since), list(since.values()))
