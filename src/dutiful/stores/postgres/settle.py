"""Records the outcomes of attempts, for rows that are still launched in the same attempt."""

# ruff: noqa: S608 - the statements are made of column names written down here, never of values

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.run import IN_FLIGHT, OPEN, Phase, Status
from dutiful.stores.postgres import statements
from dutiful.stores.postgres.copied import IS_COPIED, refuse_copied
from dutiful.stores.postgres.statements import (
    LEAD,
    RUN_CHANGING,
    Values,
    give_rows,
    with_queries,
)
from dutiful.stores.rows import CANCEL, RUN, listed, run_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.run import Run
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.statements import Fence
    from dutiful.stores.rows import Row

_ENDED, _SUCCESS = Phase.ENDED, Status.SUCCESS
# `gone`: the row is deleted, because no ledger is kept. `ends`: the attempt has ended. `timed`: the schedule
# may have a wake at the timeout of the run. `opens` and `flies` say how the numbers of its open runs and of
# its runs in flight change.
_SETTLED = ("place", "number", "was_attempt", "was_phase", "was_status", *RUN)
_EFFECTS = ("gone", "ends", "timed", "opens", "flies", "retry_at")
_THIS_RUN = "runs.run_at = e.run_at AND runs.schedule = e.number AND runs.kind = e.kind"
_STANDS = (
    "CASE WHEN runs.attempt = e.was_attempt AND runs.phase = e.was_phase"
    " AND (e.was_status IS NULL OR runs.status = e.was_status) THEN true ELSE false END"
)
# As `still_cancelled` says.
_CANCELLED = "CASE WHEN runs.reason = 'interrupted' AND e.phase <> 'ended' THEN runs.{0} ELSE e.{0} END"
_BECAME = listed(
    f"{column} = {_CANCELLED.format(column) if column in CANCEL else f'e.{column}'}"
    for column in RUN_CHANGING
)
_KEPT = f"UPDATE runs SET {_BECAME} FROM e WHERE NOT e.gone AND {_THIS_RUN} AND {_STANDS} RETURNING e.number"
_GONE = f"DELETE FROM runs USING e WHERE e.gone AND {_THIS_RUN} AND {_STANDS} RETURNING e.number"
# The settlements with their schedules. Locks each schedule before its run and in the order of the numbers, as
# a commit, a report and an edit do: any other order may end in a deadlock of the two.
_HELD = (
    "SELECT e.*, s.capacity_group, s.inline_at FROM lead, {} AS e JOIN states AS s USING (number)"
    " ORDER BY number FOR NO KEY UPDATE OF s"
)
# The settlements that apply. An inline run has no row to hit.
_APPLIES = (
    "SELECT e.*, hit.number IS NULL AS inline FROM e LEFT JOIN hit USING (number) WHERE hit.number IS NOT"
    " NULL"
)
_IS_INLINE = (
    "e.gone AND e.was_attempt = 1 AND e.kind = 'schedule' AND e.inline_at IS NOT DISTINCT FROM e.run_at"
)
# Of the runs of a group that end together, the last end is the new wake of the schedules blocked on the
# group.
_FREED = (
    "SELECT DISTINCT ON (capacity_group) capacity_group, ended_at FROM t"
    " WHERE ends AND capacity_group IS NOT NULL ORDER BY capacity_group, place DESC"
)
# The times follow from the status: the attempt succeeded, found nothing to do, or failed. The wake of the
# schedule ignores the timeout of the run from now on, and is no later than its retry. A tick that waits for
# the run, or for a slot of the group, makes the schedule due now.
_AFTER = (
    "UPDATE states SET version = states.version + 1,"
    " succeeded_at = CASE WHEN t.ends AND t.status = 'SUCCESS' THEN t.ended_at ELSE states.succeeded_at END,"
    " failed_at = CASE WHEN t.ends AND t.status NOT IN ('SUCCESS', 'SKIPPED') THEN t.ended_at"
    " ELSE states.failed_at END,"
    " ended_at = CASE WHEN t.ends THEN t.ended_at ELSE states.ended_at END,"
    " wake_at = CASE WHEN states.blocked AND f.ended_at IS NOT NULL THEN f.ended_at"
    " WHEN states.blocked AND t.ends AND states.capacity_group IS NULL THEN t.ended_at"
    " WHEN NOT t.ends THEN states.wake_at"
    " ELSE least(CASE WHEN t.timed THEN coalesce(states.idle_wake_at, states.wake_at) ELSE states.wake_at"
    " END,"
    " t.retry_at) END,"
    " inline_at = CASE WHEN t.inline THEN NULL ELSE states.inline_at END,"
    " inline_epoch = CASE WHEN t.inline THEN NULL ELSE states.inline_epoch END,"
    " open_runs = states.open_runs + CASE WHEN t.inline THEN 0 ELSE t.opens END,"
    " in_flight = states.in_flight + CASE WHEN t.inline THEN 0 ELSE t.flies END,"
    " open_from = CASE WHEN t.inline OR states.open_runs + t.opens > 0 THEN states.open_from END"
    " FROM t LEFT JOIN f USING (capacity_group) WHERE states.number = t.number"
    " AND CASE WHEN t.inline THEN states.inline_at = t.run_at ELSE true END"
    " RETURNING states.number, states.shard, states.blocked"
)
_INLINE = ("number", "run_at", "ended_at")
_END_INLINE = (
    "UPDATE states SET succeeded_at = e.ended_at, ended_at = e.ended_at, inline_at = NULL,"
    " inline_epoch = NULL, version = states.version + 1 FROM e WHERE states.number = e.number"
    " AND CASE WHEN states.inline_at = e.run_at THEN true ELSE false END RETURNING states.number"
)
_ANSWER = "SELECT (SELECT count(*) FROM lead) = 1 AS leads, (SELECT array_agg(number) FROM after) AS applied"
_WOKEN = (
    "UPDATE states SET wake_at = f.ended_at, version = states.version + 1 FROM f, lead"
    " WHERE states.shard = lead.shard AND states.capacity_group = f.capacity_group AND states.blocked"
    " AND states.number NOT IN (SELECT number FROM t) RETURNING states.shard"
)


_ITS_SHARD = f"SELECT shard FROM states WHERE number = $2 AND NOT {IS_COPIED}"


async def settle(session: Session, fence: Fence, settlements: Sequence[Settlement]) -> list[bool]:
    """Record the outcomes of attempts, and return for each whether it applied."""
    if not settlements:
        await statements.check(session, fence)
        return []
    distinct = len({settlement.number for settlement in settlements}) == len(settlements)
    if distinct and all(each.keep for each in settlements):
        return await _settle_together(session, fence, settlements)
    if distinct and not any(each.keep or not _leaves_nothing(each) for each in settlements):
        return await _settle_inline(session, fence, settlements)
    async with session.transaction():
        await statements.check(session, fence)
        await give_rows(session, [each.number for each in settlements if not each.keep])
        if distinct:
            return await _settle_together(session, fence, settlements)
        return [(await _settle_together(session, fence, [each]))[0] for each in settlements]


async def _settle_inline(session: Session, fence: Fence, settlements: Sequence[Settlement]) -> list[bool]:
    """Record successes of runs of schedules without a ledger; nearly all of these runs are inline."""
    ended = await _end_inline(session, fence, settlements)
    left = [each for each in settlements if each.number not in ended]
    if left:
        applied = await _settle_together(session, fence, left)
        ended |= {each.number for each, there in zip(left, applied, strict=True) if there}
    return [each.number in ended for each in settlements]


async def _end_inline(session: Session, fence: Fence, settlements: Sequence[Settlement]) -> set[int]:
    """End inline runs and return the numbers of their schedules; runs with rows are left as they are."""
    values = Values(*fence)
    rows = values.rows(_INLINE, [(each.number, each.run.run_at, each.run.ended_at) for each in settlements])
    queries = {"lead": LEAD, "e": f"SELECT e.* FROM lead, {rows} AS e", "after": _END_INLINE}
    answer = await session.row(f"{with_queries(queries)} {_ANSWER}", *values.all)
    if not answer["leads"]:
        raise await statements.lost(session, fence)
    return {*(answer["applied"] or ())}


def _leaves_nothing(settlement: Settlement) -> bool:
    """Return whether a settlement of an inline run changes only the state of its schedule."""
    run = settlement.run
    return run.phase is _ENDED and run.status is _SUCCESS and run.attempt == 1


async def _settle_together(session: Session, fence: Fence, settlements: Sequence[Settlement]) -> list[bool]:
    rows = [_row(place, each.number, each, each.run.attempt) for place, each in enumerate(settlements)]
    values = Values(*fence)
    statement = _statement(
        LEAD, values.rows((*_SETTLED, *_EFFECTS), rows), inline=not all(each.keep for each in settlements)
    )
    answer = await session.row(statement, *values.all)
    if not answer["leads"]:
        raise await statements.lost(session, fence)
    applied = {*(answer["applied"] or ())}
    return [settlement.number in applied for settlement in settlements]


def _row(
    place: int, number: int, became: Settlement, attempt: int, phase: Phase = Phase.LAUNCHED,
    status: Status | None = None,
) -> Row:  # fmt: skip
    run = became.run
    ends = run.phase not in IN_FLIGHT
    opens = (run.phase in OPEN) - (phase in OPEN)
    flies = (run.phase in IN_FLIGHT) - (phase in IN_FLIGHT)
    gone = run.phase is _ENDED and not became.keep
    retry_at = run.fire_at if run.phase is Phase.RETRY else None
    stood = attempt, phase.value, None if status is None else status.value
    return place, number, *stood, *run_columns(run), gone, ends, became.timed, opens, flies, retry_at


def _statement(lead: str, rows: str, *, inline: bool) -> str:
    """Return the statement that writes runs and updates their schedules; each schedule at most once.

    Without `inline` all settlements are of runs that stay in the ledger.
    """
    hit = "SELECT number FROM kept"
    queries = {"lead": lead, "e": _HELD.format(rows), "kept": _KEPT}
    if inline:
        queries["gone"] = _GONE
        hit += " UNION ALL SELECT number FROM gone"
    applies = f"{_APPLIES} OR ({_IS_INLINE})" if inline else _APPLIES
    queries |= {"hit": hit, "t": applies, "f": _FREED, "after": _AFTER, "woken": _WOKEN}
    waking = "SELECT shard FROM after WHERE blocked UNION ALL SELECT shard FROM woken"
    return f"{with_queries(queries)} {_ANSWER}, (SELECT max(shard) FROM ({waking}) AS waking) AS waking"


async def report(session: Session, namespace: str, found: Run, became: Settlement) -> tuple[bool, int | None]:
    """Record an executor's report on a run, if its row is unchanged since it was found.

    Also returns the shard in which a schedule was blocked on the run.
    """
    number = await session.value(
        "SELECT number FROM declarations WHERE namespace = $1 AND id = $2", namespace, found.schedule_id
    )
    if number is None or found.phase is _ENDED:
        return False, None
    if became.keep:
        # A run that stays in a ledger has a row.
        return await _report(session, namespace, number, found, became)
    async with session.transaction():
        await refuse_copied(session, namespace)
        await give_rows(session, [number])
        return await _report(session, namespace, number, found, became)


async def _report(
    session: Session, namespace: str, number: int, found: Run, became: Settlement
) -> tuple[bool, int | None]:
    values = Values(namespace, number)
    row = _row(0, number, became, found.attempt, found.phase, found.status)
    rows = values.rows((*_SETTLED, *_EFFECTS), [row])
    answer = await session.row(_statement(_ITS_SHARD, rows, inline=not became.keep), *values.all)
    if not answer["leads"]:
        # The schedule was removed, or is being copied.
        await refuse_copied(session, namespace)
    return bool(answer["applied"]), answer["waking"]
