"""Why a tick ran, did not run, or will run: one answer for any instant, past or future.

The past is read off the ledger; the future is asked of the planner itself, on the schedule as it is
now, so that what is explained is what happens.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import last_tick
from dutiful.core.cron import Cron
from dutiful.core.draft import Due, Limits, Move
from dutiful.core.jitter import fire_time
from dutiful.core.planner import decide
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Run, Status
from dutiful.core.zone import epoch_ms

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule

# Which setting of the policy decided, per reason.
_DECIDED_BY = {
    Reason.OVERLAP: "overlap",
    Reason.QUEUE_FULL: "queue_limit",
    Reason.REPLACED: "overlap",
    Reason.MISSED: "catch_up",
    Reason.COALESCED: "catch_up",
    Reason.CATCHUP_CAP: "catch_up_cap",
    Reason.PAUSED: "paused",
    Reason.OUTSIDE_WINDOW: "window",
    Reason.LIMIT_REACHED: "max_runs",
    Reason.AT_CAPACITY: "capacity",
    Reason.OUTCOME_UNKNOWN: "on_orphan",
    Reason.INTERRUPTED: "on_orphan",
    Reason.LOST_RUN: "run_timeout",
    Reason.TASK_FAILED: "retry",
    Reason.LAUNCH_FAILED: "retry",
}


class Verdict(NamedTuple):
    """The answer. `code` is a status, a reason, or not_due, dst_gap, dst_fold, undecided, unrecorded."""

    at: Instant
    due: bool
    code: str
    # The setting that decided, as "name=value"; None where no setting had a say.
    setting: str | None
    text: str
    run: Run | None = None


def explain(due: Due, row: Run | None, at: datetime, now: Instant) -> Verdict:
    """Return the verdict on the tick in the minute (or second) of `at`.

    `row` is the newest ledger row of a tick at or before `at`, if there is one.
    """
    schedule = due.schedule
    instant = epoch_ms(at)
    tick = _tick_at(due, at, instant)
    if tick is None:
        return _no_tick(schedule, at, instant)
    if row is not None and row.run_at <= tick <= (row.run_until or row.run_at):
        return _recorded(schedule, tick, row)
    if not _in_window(schedule, tick):
        return _verdict(schedule, tick, False, Reason.OUTSIDE_WINDOW, "lies outside the schedule's window")
    if tick <= due.state.cursor:
        text = "was decided before; its row is no longer kept, or the schedule did not exist yet"
        return Verdict(tick, True, "unrecorded", None, _sentence(schedule, tick, text))
    return _forecast(due, tick, now)


def _tick_at(due: Due, at: datetime, instant: Instant) -> Instant | None:
    """Return the tick in the minute of `at`; a period's ticks are counted from the cursor."""
    schedule = due.schedule
    if isinstance(schedule.cadence, Cron):
        if _is_imaginary(at) or not schedule.cadence.matches(at):
            return None
        return schedule.cadence.previous_epoch(instant // 1000) * 1000
    tick = last_tick(schedule.cadence, due.state.cursor, instant + 59_999, due.state.ended_at)
    if tick is not None and tick >= instant:
        return tick
    return next((run.run_at for run in due.runs if instant <= run.run_at < instant + 60_000), None)


def _is_imaginary(at: datetime) -> bool:
    """Return whether a change of offset jumped over this wall time."""
    return at.replace(tzinfo=None) != at.astimezone(UTC).astimezone(at.tzinfo).replace(tzinfo=None)


def _no_tick(schedule: Schedule, at: datetime, instant: Instant) -> Verdict:
    cadence = schedule.cadence
    if isinstance(cadence, Cron):
        literal = Cron.parse(cadence.text, cadence.dialect, UTC)
        wall = at.astimezone(cadence.zone.tzinfo) if not _is_imaginary(at) else at
        if literal.matches(wall.replace(tzinfo=UTC)):
            code = "dst_gap" if _is_imaginary(at) else "dst_fold"
            setting = f"gap={cadence.gap}" if code == "dst_gap" else f"fold={cadence.fold}"
            text = (
                "does not exist on that day"
                if code == "dst_gap"
                else "happens twice, and the other one counts"
            )
            return Verdict(instant, False, code, setting, _sentence(schedule, instant, text))
    return Verdict(instant, False, "not_due", "cadence", _sentence(schedule, instant, "is no tick of it"))


def _recorded(schedule: Schedule, tick: Instant, row: Run) -> Verdict:
    if row.reason is None:
        text = f"is {row.status}" + (f", attempt {row.attempt}" if row.attempt > 1 else "")
        return Verdict(tick, True, row.status, None, _sentence(schedule, tick, text), row)
    text = f"is {row.status}: {row.reason}" + (f" ({row.detail})" if row.detail else "")
    return _verdict(schedule, tick, True, row.reason, text, row)


def _forecast(due: Due, tick: Instant, now: Instant) -> Verdict:
    """Ask the planner what it would do at the tick's fire time."""
    schedule = due.schedule
    fire_at = fire_time(schedule, tick)
    move = _imagine(due, tick, max(fire_at, now), keep_runs=fire_at <= now)
    made = next((run for run in (*move.inserts, *move.changes) if run.run_at <= tick), None)
    if made is None:
        text = "is due and waits for a run in flight to end"
        return Verdict(tick, True, "undecided", "overlap", _sentence(schedule, tick, text))
    if made.status is Status.SKIPPED and made.reason is not None:
        return _verdict(schedule, tick, True, made.reason, f"will be SKIPPED: {made.reason}")
    verb = "will fire" if made.phase is Phase.LAUNCHED else "will be held and fire later, from"
    return Verdict(
        tick, True, "undecided", None, _sentence(schedule, tick, f"{verb} at {_iso(made.fire_at)}")
    )


def _imagine(due: Due, tick: Instant, at: Instant, *, keep_runs: bool) -> Move:
    before = due.state.cursor if keep_runs else max(due.state.cursor, tick - 1)
    state = due.state._replace(cursor=before, skipped=None)
    return decide(due._replace(state=state, runs=due.runs if keep_runs else ()), at, Limits(), {})


def _in_window(schedule: Schedule, tick: Instant) -> bool:
    start, end = schedule.window.start, schedule.window.end
    return (start is None or tick >= start) and (end is None or tick <= end)


def _verdict(
    schedule: Schedule, tick: Instant, due: bool, reason: Reason, text: str, run: Run | None = None
) -> Verdict:
    name = _DECIDED_BY.get(reason)
    setting = f"{name}={_value(schedule, name)}" if name is not None else None
    return Verdict(tick, due, reason, setting, _sentence(schedule, tick, text, setting), run)


def _value(schedule: Schedule, name: str) -> object:
    return getattr(schedule.policy, name) if hasattr(schedule.policy, name) else getattr(schedule, name)


def _sentence(schedule: Schedule, instant: Instant, text: str, setting: str | None = None) -> str:
    because = f", decided by {setting}" if setting else ""
    return f"{schedule.id} at {_iso(instant)} {text}{because}"


def _iso(instant: Instant) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat().replace("+00:00", "Z")
