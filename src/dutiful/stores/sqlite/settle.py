"""Records the outcomes of attempts, for rows that are still launched in the same attempt."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from dutiful.core.plan.outcome import ended_state
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status
from dutiful.core.schedule import State
from dutiful.stores.rows import CANCEL, RUN, Row, assigned, run_columns
from dutiful.stores.sqlite import inline_runs
from dutiful.stores.sqlite.commit import hits, hits_alike, wake_blocked

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from dutiful.core.plan.outcome import Settlement
    from dutiful.stores.sqlite.commit import Write
    from dutiful.stores.sqlite.inline_runs import Own

_SAME_ATTEMPT = "WHERE schedule = ? AND run_at = ? AND kind = ? AND attempt = ? AND phase = 'launched'"
_AS_FOUND = (
    "WHERE schedule = ? AND run_at = ? AND kind = ? AND attempt = ? AND phase <> 'ended' AND phase = ?"
    " AND status = ?"
)
_ALL = assigned(RUN)
_SETTLE = f"UPDATE runs SET {_ALL} {_SAME_ATTEMPT}"
_REPORT = f"UPDATE runs SET {_ALL} {_AS_FOUND}"
# As `still_cancelled` says.
_OPEN = ", ".join(
    f"{name} = CASE reason WHEN 'interrupted' THEN {name} ELSE ? END" if name in CANCEL else f"{name} = ?"
    for name in RUN
)
_SETTLE_OPEN = f"UPDATE runs SET {_OPEN} {_SAME_ATTEMPT}"
_REPORT_OPEN = f"UPDATE runs SET {_OPEN} {_AS_FOUND}"
# Most runs succeed and set no other columns; binding None is slow.
_SETTLE_WELL = (
    "UPDATE runs SET status = 'SUCCESS', phase = 'ended', fire_at = ?, reason = NULL, epoch = ?,"
    " started_at = ?, ended_at = ?, run_until = NULL, ticks = 1, run_id = NULL, detail = NULL,"
    f" updated_at = ? {_SAME_ATTEMPT}"
)
_DROP = f"DELETE FROM runs {_SAME_ATTEMPT}"
_DROP_REPORTED = f"DELETE FROM runs {_AS_FOUND}"
_NUMBER = "SELECT number FROM declarations WHERE namespace = ? AND id = ?"
_ENDED, _SUCCESS = Phase.ENDED, Status.SUCCESS


def _stamped(status: Status) -> tuple[str, ...]:
    """Return the columns that `ended_state` sets to the end of a run with this status."""
    before = State(0)
    after = ended_state(before, Run("", 0, "schedule", status, _ENDED, 0, ended_at=1))
    return tuple(name for name, old, new in zip(State._fields, before, after, strict=True) if old != new)


_STAMPED = {status: _stamped(status) for status in Status}
_STAMP = {
    status: f"UPDATE states SET {assigned(columns)}, version = version + 1 WHERE number = ?"
    for status, columns in _STAMPED.items()
}
_REST = "UPDATE states SET wake_at = idle_wake_at WHERE number = ? AND idle_wake_at IS NOT NULL"
_ACCEPTED = "UPDATE states SET version = version + 1 WHERE number = ?"
_WAKE_FOR_RETRY = (
    "UPDATE states SET wake_at = min(coalesce(wake_at, ?1), ?1), version = version + 1 WHERE number = ?2"
)


def settle(connection: sqlite3.Connection, namespace: str, settlements: Sequence[Settlement]) -> list[bool]:
    """Record the outcomes of attempts, and return for each whether it applied."""
    ends = _inline_ends(settlements)
    hit = iter(hits_alike(connection, inline_runs.END, [end for end in ends if end is not None]))
    applied = [end is not None and next(hit) for end in ends]
    others = [place for place, done in enumerate(applied) if not done]
    if others:
        rest = [settlements[place] for place in others]
        inline_runs.give_rows(connection, [settlement.number for settlement in rest if not settlement.keep])
        for place, there in zip(others, hits(connection, [*map(_write, rest)]), strict=True):
            applied[place] = there
        _bring_up_to_date(connection, namespace, [settlements[place] for place in others if applied[place]])
    return applied


def _inline_ends(settlements: Sequence[Settlement]) -> list[Own | None]:
    """Return the values of END for possibly inline runs; None where a schedule has several settlements."""
    ends = [*map(inline_runs.end, settlements)]
    times = Counter(settlement.number for settlement in settlements)
    if len(times) == len(ends):
        return ends
    return [end if times[each.number] == 1 else None for end, each in zip(ends, settlements, strict=True)]


def report(connection: sqlite3.Connection, namespace: str, found: Run, became: Settlement) -> bool:
    """Record an executor's report on a run, if its row is unchanged since it was found."""
    # Look up the number each time: the reporting process does not know it, and an edit may have changed it.
    row = connection.execute(_NUMBER, (namespace, found.schedule_id)).fetchone()
    number = 0 if row is None else row[0]
    inline_runs.give_rows(connection, [number])
    standing = number, found.run_at, found.kind, found.attempt, found.phase.value, found.status.value
    if became.run.phase is Phase.ENDED and not became.keep:
        hit = connection.execute(_DROP_REPORTED, standing).rowcount == 1
    else:
        statement = _REPORT if became.run.phase is _ENDED else _REPORT_OPEN
        hit = connection.execute(statement, (*run_columns(became.run), *standing)).rowcount == 1
    _bring_up_to_date(connection, namespace, [became._replace(number=number)] if hit else [])
    return hit


def _bring_up_to_date(connection: sqlite3.Connection, namespace: str, written: Sequence[Settlement]) -> None:
    accepted, timed, ended = list[Row](), list[Row](), list[tuple[int, Run]]()
    for run, _, may_rest, number in written:
        if run.phase in IN_FLIGHT:
            accepted.append((number,))
        else:
            ended.append((number, run))
            if may_rest:
                timed.append((number,))
    connection.executemany(_ACCEPTED, accepted)
    connection.executemany(_REST, timed)
    _follow(connection, namespace, ended)


def _write(settlement: Settlement) -> Write:
    run, keep, _, number = settlement
    key = number, run.run_at, run.kind, run.attempt
    if run.phase is _ENDED and not keep:
        return _DROP, key
    if run.phase is _ENDED and run.status is _SUCCESS and _has_nothing_to_add(run):
        return _SETTLE_WELL, (run.fire_at, run.epoch, run.started_at, run.ended_at, run.updated_at, *key)
    return _SETTLE if run.phase is _ENDED else _SETTLE_OPEN, (*run_columns(run), *key)


_WRITTEN_WELL = ("status", "phase", "fire_at", "epoch", "started_at", "ended_at", "updated_at")
_MORE = tuple(name for name in RUN if name in Run._field_defaults and name not in (*_WRITTEN_WELL, "attempt"))
_more_of = itemgetter(*(Run._fields.index(name) for name in _MORE))
_NOTHING = tuple(Run._field_defaults[name] for name in _MORE)


def _has_nothing_to_add(run: Run) -> bool:
    """Return whether all columns that _SETTLE_WELL does not write have their defaults."""
    return bool(_more_of(run) == _NOTHING)


def _follow(connection: sqlite3.Connection, namespace: str, ended: Sequence[tuple[int, Run]]) -> None:
    """Update the timestamps of the schedules, and wake the schedules blocked on these runs."""
    latest: dict[int, int] = {}
    for number, run in ended:
        # Reinsert, so that dict order is the order in which runs ended.
        latest.pop(number, None)
        latest[number] = run.ended_at or 0
    stamps: defaultdict[Status, list[Row]] = defaultdict(list)
    for number, run in ended:
        times = [latest[number] if name == "ended_at" else run.ended_at for name in _STAMPED[run.status]]
        stamps[run.status].append((*times, number))
    for status, rows in stamps.items():
        connection.executemany(_STAMP[status], rows)
    retries = [(run.fire_at, number) for number, run in ended if run.phase is Phase.RETRY]
    connection.executemany(_WAKE_FOR_RETRY, retries)
    wake_blocked(connection, namespace, latest)
