"""Why a tick ran, did not run, or will run: one answer for any instant, past or future.

The past is read from the ledger. For the future the planner itself decides on the schedule as it is now, so
that the explanation matches the later behaviour.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import Every, count_ticks, last_tick, next_tick
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.dialect import DIALECTS
from dutiful.core.cron.zone import epoch_ms, from_epoch_ms, rfc_3339
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.edit import end_of_pause
from dutiful.core.plan.jitter import fire_time, opening_cursor
from dutiful.core.plan.planner import decide
from dutiful.core.plan.upcoming import HORIZON
from dutiful.core.policy import Capacity, OnOrphan, Reason, Retry
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status
from dutiful.core.schedule import Window
from dutiful.core.snapshot import Limits, Snapshot

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule

_TOO_FAR = "is more than 50 years ahead; ask about an instant before that"

# Which setting of the policy decided, per reason.
_DECIDED_BY = {
    Reason.OVERLAP: "overlap",
    Reason.QUEUE_FULL: "queue_limit",
    Reason.REPLACED: "overlap",
    Reason.MISSED: "catch_up",
    Reason.COALESCED: "catch_up",
    Reason.CATCHUP_CAP: "catch_up_cap",
    Reason.OUTSIDE_WINDOW: "window",
    Reason.LIMIT_REACHED: "max_runs",
    Reason.AT_CAPACITY: "capacity",
    Reason.OUTCOME_UNKNOWN: "on_orphan",
    Reason.INTERRUPTED: "on_orphan",
    Reason.LOST_RUN: "run_timeout",
    Reason.TASK_FAILED: "retry",
    Reason.LAUNCH_FAILED: "launch_retry",
}


class Verdict(NamedTuple):
    """The explanation of one tick. `code` is a status, a reason, or one of these words:

    not_due, excluded, dst_gap, dst_fold, undecided, unrecorded.
    """

    at: Instant
    due: bool
    code: str
    # The setting that decided, as "name=value"; None where no setting was involved.
    setting: str | None
    text: str
    run: Run | None = None


def minute_of(schedule: Schedule, at: datetime) -> tuple[Instant, Instant]:
    """Return the first and last instant of the minute of `at`, or of its second for dense cadences."""
    instant, cadence = epoch_ms(at), schedule.cadence
    if isinstance(cadence, Cron):
        unit = 1000 if DIALECTS[cadence.dialect].seconds else 60_000
        begin = instant - (instant + cadence.zone.offset(instant // 1000) * 1000) % unit
    else:
        unit = 1000 if isinstance(cadence, Every) and cadence.period < 60_000 else 60_000
        begin = instant - instant % unit
    return begin, begin + unit - 1


def explain(due: Snapshot, row: Run | None, at: datetime, now: Instant) -> Verdict:
    """Return the verdict on the tick in the minute (or second) of `at`.

    `row` is the newest ledger row that begins before that minute is over, if there is one. Raises
    InvalidArgumentError for an instant more than 50 years ahead, where the search would take too long.
    """
    schedule, state = due.schedule, due.state
    if epoch_ms(at) > now + HORIZON:
        raise InvalidArgumentError("at", at.isoformat(), _TOO_FAR)
    begin, end = minute_of(schedule, at)
    if _is_imaginary(schedule, at):
        return _no_tick(schedule, at)
    tick = None if state.quarantine is not None else _tick_within(due, begin, end)
    recorded = _recorded_tick(row, tick, begin, end)
    if row is not None and recorded is not None:
        return _recorded(schedule, recorded, row)
    if state.quarantine is not None:
        text = f"cannot be computed: {state.quarantine}"
        return Verdict(begin, False, Reason.QUARANTINED, None, _sentence(schedule, begin, text))
    if _depends_on_a_run(due, begin):
        text = "depends on when the run before it ends"
        return Verdict(begin, False, "undecided", "cadence", _sentence(schedule, begin, text))
    if tick is None:
        return _no_tick(schedule, at)
    if not _in_window(schedule, tick):
        return _verdict(schedule, tick, False, Reason.OUTSIDE_WINDOW, "lies outside the schedule's window")
    if tick <= state.cursor:
        text = "was decided before; its row is no longer kept, or the schedule did not exist yet"
        return Verdict(tick, True, "unrecorded", None, _sentence(schedule, tick, text))
    return _forecast(due, tick, now)


def _tick_within(due: Snapshot, begin: Instant, end: Instant) -> Instant | None:
    """Return the tick from `begin` to `end`; the phase of a period follows from its cursor."""
    cadence, cursor = due.schedule.cadence, opening_cursor(due.schedule, due.state.cursor)
    if isinstance(cadence, Every) and cadence.anchor == "start":
        tick: Instant | None = end - (end - cursor) % cadence.period
    elif isinstance(cadence, Every):
        tick = last_tick(cadence, cursor, end, due.state.ended_at)
    else:
        tick = last_tick(cadence, begin - 1, end)
    return tick if tick is not None and tick >= begin else None


def _recorded_tick(row: Run | None, tick: Instant | None, begin: Instant, end: Instant) -> Instant | None:
    """Return the tick of the row in this minute; it may belong to a cadence that was edited since."""
    if row is None:
        return None
    last = row.run_until or row.run_at
    known = [row.run_at, last] if tick is None else [row.run_at, tick, last]
    return next((instant for instant in known if begin <= instant <= min(end, last)), None)


def _is_imaginary(schedule: Schedule, at: datetime) -> bool:
    """Return whether `at` is a wall time of the schedule's own zone that a change of offset skipped there."""
    cadence = schedule.cadence
    if not isinstance(cadence, Cron) or at.tzinfo != cadence.zone.tzinfo:
        return False
    return _skipped_wall(cadence, at) is not None


def _skipped_wall(cadence: Cron, at: datetime) -> datetime | None:
    """Return the wall time that `at` is written with, if a change of offset skipped it in the cron's zone.

    In another zone, such as a fixed offset, it has to have an offset that the cron's zone has then.
    """
    zone = cadence.zone.tzinfo
    for wall in (at.replace(tzinfo=zone, fold=0), at.replace(tzinfo=zone, fold=1)):
        real = wall.astimezone(UTC).astimezone(zone)
        if wall.utcoffset() == at.utcoffset() and wall.replace(tzinfo=None) != real.replace(tzinfo=None):
            return wall
    return None


def _no_tick(schedule: Schedule, at: datetime) -> Verdict:
    cadence, instant = schedule.cadence, epoch_ms(at)
    if isinstance(cadence, Cron):
        if _is_excluded(cadence, at):
            text = _sentence(schedule, instant, "is on a day that its calendar excludes")
            return Verdict(instant, False, "excluded", f"calendar={','.join(cadence.calendar)}", text)
        skipped = _skipped_wall(cadence, at)
        wall = skipped or at.astimezone(cadence.zone.tzinfo)
        if Cron.parse(cadence.text, cadence.dialect).matches(wall.replace(tzinfo=UTC)):
            shown = wall.replace(tzinfo=None).isoformat(" ")
            where = f"{schedule.id} at {shown} in {cadence.zone.name}"
            if skipped is not None:
                text = f"{where} does not exist on that day, decided by gap={cadence.gap}"
                return Verdict(instant, False, "dst_gap", f"gap={cadence.gap}", text)
            text = f"{where} happens twice, and the other one counts, decided by fold={cadence.fold}"
            return Verdict(instant, False, "dst_fold", f"fold={cadence.fold}", text)
    return Verdict(instant, False, "not_due", "cadence", _sentence(schedule, instant, "is not due"))


def _is_excluded(cron: Cron, at: datetime) -> bool:
    """Return whether only the calendar keeps the minute (or second) of `at` from being due."""
    if not cron.calendar:
        return False
    every_day = Cron.parse(cron.text, cron.dialect, cron.zone.tzinfo, cron.gap, cron.fold)
    return every_day.matches(at) and not cron.matches(at)


def _depends_on_a_run(due: Snapshot, begin: Instant) -> bool:
    """Return whether a tick of a period counted from completion depends on a run that has not ended."""
    cadence, state = due.schedule.cadence, due.state
    if not isinstance(cadence, Every) or cadence.anchor == "start" or begin <= state.cursor:
        return False
    next_known = next_tick(cadence, opening_cursor(due.schedule, state.cursor), state.ended_at)
    in_flight = any(run.phase in IN_FLIGHT for run in due.runs)
    return in_flight or next_known is None or begin > next_known


def _recorded(schedule: Schedule, tick: Instant, row: Run) -> Verdict:
    if row.reason is None:
        text = f"is {row.status}" + (f", attempt {row.attempt}" if row.attempt > 1 else "")
        return Verdict(tick, True, row.status, None, _sentence(schedule, tick, text), row)
    text = f"is {row.status}: {row.reason}" + (f" ({row.detail})" if row.detail else "")
    return _verdict(schedule, tick, True, row.reason, text, row)


def _forecast(due: Snapshot, tick: Instant, now: Instant) -> Verdict:
    """Return the verdict on a future tick, by planning the schedule at the tick's fire time."""
    fire_at = fire_time(due.schedule, tick, due.state.ended_at)
    ended = end_of_pause(due, fire_at)
    if ended is not None:
        due = due._replace(schedule=ended.puts[0].schedule, state=ended.puts[0].state)
    schedule = due.schedule
    imagined = due if fire_at <= now else _shortly_before(due, tick)
    if not schedule.paused and Draft(imagined, now, Limits(), {}).limit_reached():
        # A schedule at its limit is never woken, so its later ticks get no rows.
        return _verdict(schedule, tick, True, Reason.LIMIT_REACHED, "will not run")
    move = decide(imagined, max(fire_at, now), Limits(), {})
    rows = (*move.inserts, *move.changes)
    made = next((run for run in rows if run.run_at <= tick <= (run.run_until or run.run_at)), None)
    if made is None:
        text = "is due and waits for a run in flight to end" if move.blocked else "is due"
        setting = f"overlap={schedule.policy.overlap}" if move.blocked else None
        return Verdict(tick, True, "undecided", setting, _sentence(schedule, tick, text))
    if made.status is Status.SKIPPED and made.reason is not None:
        return _verdict(schedule, tick, True, made.reason, f"will be SKIPPED: {made.reason}")
    fires = f"fire at {_iso(max(made.fire_at, now))}"
    text = f"will {fires}" if made.phase is Phase.LAUNCHED else f"will be held, and {fires} or later"
    return Verdict(tick, True, "undecided", None, _sentence(schedule, tick, text))


def _shortly_before(due: Snapshot, tick: Instant) -> Snapshot:
    """Return the schedule as it will be if every tick before `tick` has run and ended."""
    cadence, cursor = due.schedule.cadence, opening_cursor(due.schedule, due.state.cursor)
    before = tick - cadence.period if isinstance(cadence, Every) else tick - 1
    waiting = sum(run.attempt == 0 for run in due.runs)
    # Ticks in between need counting only where the number of runs is limited.
    between = 0 if due.schedule.policy.max_runs is None else count_ticks(cadence, cursor, tick - 1)
    started = due.state.runs_started + waiting + between
    return due._replace(state=due.state._replace(cursor=before, runs_started=started, skipped=None), runs=())


def _in_window(schedule: Schedule, tick: Instant) -> bool:
    start, end = schedule.window.start, schedule.window.end
    return (start is None or tick >= start) and (end is None or tick <= end)


def _verdict(
    schedule: Schedule, tick: Instant, due: bool, reason: Reason, text: str, run: Run | None = None
) -> Verdict:
    setting = _setting(schedule, reason)
    return Verdict(tick, due, reason, setting, _sentence(schedule, tick, text, setting), run)


def _setting(schedule: Schedule, reason: Reason) -> str | None:
    """Return the setting behind a reason with its present value; for PAUSED always "paused=True"."""
    name = _DECIDED_BY.get(reason)
    if reason is Reason.PAUSED:
        return "paused=True"
    if name is None:
        return None
    if reason is Reason.INTERRUPTED and schedule.policy.on_orphan is not OnOrphan.WAIT:
        name = "overlap"
    return f"{name}={_shown(getattr(schedule if name == 'window' else schedule.policy, name))}"


def _shown(value: object) -> object:
    """Return the value of a setting as text, for settings that have several parts."""
    match value:
        case Retry(delay, limit, backoff):
            growing = f", {backoff} times longer each time" if backoff > 1 else ""
            return f"after {delay / 1000:g} s{growing}" + (
                "" if limit is None else f", at most {limit} times"
            )
        case Capacity(group, limit):
            return f"{group}, at most {limit}"
        case Window(start, end):
            return f"{'open' if start is None else _iso(start)} to {'open' if end is None else _iso(end)}"
        case None:
            return "none"
        case _:
            return value


def _sentence(schedule: Schedule, instant: Instant, text: str, setting: str | None = None) -> str:
    because = f", decided by {setting}" if setting else ""
    return f"{schedule.id} at {_iso(instant)} {text}{because}"


def _iso(instant: Instant) -> str:
    return rfc_3339(from_epoch_ms(instant))
