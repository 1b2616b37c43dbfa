"""The checks that every tick passes, in the planner's order, each with the fact that decided it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.cron import Cron
from dutiful.core.policy import Reason
from dutiful.core.run import Status

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.plan.verdict import Verdict
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Snapshot

TICK, WINDOW, PAUSED, IN_TIME, OVERLAP, ROOM, TAKEN, SUCCEEDED = (
    *("A tick of the cron", "In its window", "Not paused", "In time", "No run in the way"),
    *("Room for it", "Executor took it", "Task succeeded"),
)
GATES = (TICK, WINDOW, PAUSED, IN_TIME, OVERLAP, ROOM, TAKEN, SUCCEEDED)
"""The names of the checks, in the order in which the planner makes them."""

_STOPPED_AT: dict[str, str] = {
    **dict.fromkeys(("not_due", "excluded", "dst_gap", "dst_fold", Reason.QUARANTINED), TICK),
    Reason.OUTSIDE_WINDOW: WINDOW,
    Reason.PAUSED: PAUSED,
    **dict.fromkeys((Reason.MISSED, Reason.COALESCED, Reason.CATCHUP_CAP), IN_TIME),
    **dict.fromkeys((Reason.OVERLAP, Reason.QUEUE_FULL, Reason.REPLACED), OVERLAP),
    **dict.fromkeys((Reason.LIMIT_REACHED, Reason.AT_CAPACITY, Reason.NO_WORK), ROOM),
    **dict.fromkeys((Reason.LAUNCH_REFUSED, Reason.LAUNCH_FAILED, Reason.UNKNOWN_WORKFLOW), TAKEN),
    Reason.OUTCOME_UNKNOWN: TAKEN,
    **dict.fromkeys((Reason.TASK_FAILED, Reason.LOST_RUN, Reason.INTERRUPTED), SUCCEEDED),
}
_REFUSALS = {
    "not_due": "the cron has no tick at this time",
    "excluded": "its calendar excludes that day",
    "dst_gap": "the clock jumps over it that day",
    "dst_fold": "it comes twice that day, and the other one counts",
    Reason.QUARANTINED: "it cannot be computed",
    Reason.PAUSED: "it was paused",
    Reason.COALESCED: "one run stands for all that were missed",
    Reason.CATCHUP_CAP: "more were missed than are made up for",
    Reason.OVERLAP: "a run was in flight",
    Reason.QUEUE_FULL: "the queue was full",
    Reason.REPLACED: "a newer tick, or an edit, took its place",
    Reason.LIMIT_REACHED: "it has started as many runs as it may",
    Reason.AT_CAPACITY: "its group had no room",
    Reason.NO_WORK: "there was nothing to work on",
    Reason.LAUNCH_REFUSED: "it was refused",
    Reason.LAUNCH_FAILED: "it could not be reached, as often as it was tried",
    Reason.UNKNOWN_WORKFLOW: "there is no such workflow",
    Reason.OUTCOME_UNKNOWN: "whether it arrived is not known",
    Reason.TASK_FAILED: "it failed, as often as it was tried",
    Reason.LOST_RUN: "it never reported back",
    Reason.INTERRUPTED: "its process ended first",
}


class Step(NamedTuple):
    """One check, whether the tick passed it, and why; `passed` is None while that is open."""

    name: str
    passed: bool | None
    fact: str


def steps(due: Snapshot, verdict: Verdict, now: Instant) -> list[Step]:
    """Return the checks up to the deciding one, which is last."""
    stopped = _STOPPED_AT.get(verdict.code)
    passed = GATES if stopped is None else GATES[: GATES.index(stopped)]
    facts = _facts(due, verdict)
    listed = [Step(name, _passed(name, verdict, now), facts[name]) for name in passed]
    if stopped is not None:
        listed.append(Step(stopped, False, _refusal(due.schedule, verdict)))
    return listed


def _passed(name: str, verdict: Verdict, now: Instant) -> bool | None:
    """Return True for a check known to be passed, None where the future decides."""
    known_now = {TICK, WINDOW, PAUSED}
    if verdict.run is None:
        return None if verdict.code == "unrecorded" or (name not in known_now and verdict.at > now) else True
    if verdict.run.status is Status.SUCCESS or name not in {TAKEN, SUCCEEDED}:
        return True
    return True if name == TAKEN and verdict.run.status in {Status.STARTED, Status.FAILED} else None


def _facts(due: Snapshot, verdict: Verdict) -> dict[str, str]:
    policy, run = due.schedule.policy, verdict.run
    return {
        TICK: _wall(due.schedule, verdict.at),
        WINDOW: _window(due.schedule),
        PAUSED: _pause(due.schedule, verdict.at),
        IN_TIME: _lateness(due.schedule, verdict),
        OVERLAP: f"overlap={policy.overlap}",
        ROOM: "no limit" if policy.capacity is None else f"at most {policy.capacity.limit} in its group",
        TAKEN: "" if run is None else _attempts(run.attempt, run.run_id),
        SUCCEEDED: _end(verdict),
    }


def _refusal(schedule: Schedule, verdict: Verdict) -> str:
    if verdict.code == Reason.MISSED:
        return f"it was late by more than {schedule.policy.grace / 1000:g} s"
    if verdict.code == Reason.OUTSIDE_WINDOW:
        return _window(schedule)
    return _REFUSALS[verdict.code]


def _wall(schedule: Schedule, at: Instant) -> str:
    cadence = schedule.cadence
    if not isinstance(cadence, Cron):
        return "by its period"
    wall = datetime.fromtimestamp(at / 1000, UTC).astimezone(cadence.zone.tzinfo)
    return (
        f"{wall:%H:%M:%S} " * bool(wall.second)
        + f"{wall:%H:%M} " * (not wall.second)
        + f"in {cadence.zone.name}"
    )


def _window(schedule: Schedule) -> str:
    start, end = schedule.window.start, schedule.window.end
    if start is None and end is None:
        return "it has no start and no end"
    begins = "no start" if start is None else f"from {_date(start)}"
    return f"{begins}, {'no end' if end is None else f'until {_date(end)}'}"


def _pause(schedule: Schedule, at: Instant) -> str:
    if schedule.pause_until is not None and schedule.pause_until <= at:
        return f"now paused, until {_date(schedule.pause_until)}"
    return "now paused" if schedule.paused else "it runs"


def _date(at: Instant) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _lateness(schedule: Schedule, verdict: Verdict) -> str:
    allowed = f"{schedule.policy.grace / 1000:g} s allowed"
    run = verdict.run
    if run is None or run.started_at is None:
        return allowed
    return f"{_length(max(0, run.started_at - run.fire_at))} late, {allowed}"


def _attempts(attempt: int, run_id: str | None) -> str:
    named = f"run {run_id}, " if run_id else ""
    return f"{named}attempt {attempt}" if attempt else "not launched yet"


def _end(verdict: Verdict) -> str:
    run = verdict.run
    if run is None or run.started_at is None or run.ended_at is None:
        return "" if run is None or run.status is not Status.STARTED else "it is running"
    return f"after {_length(run.ended_at - run.started_at)}"


def _length(milliseconds: int) -> str:
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [
        f"{hours} h" * bool(hours),
        f"{minutes} min" * bool(minutes),
        f"{seconds} s" * bool(seconds and not hours),
    ]
    return " ".join(part for part in parts if part)
