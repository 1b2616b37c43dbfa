"""The log of the worker: one structured record per decision, with its reason."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dutiful.core import event as happened
from dutiful.core.errors import LOGGED_MAX, quoted
from dutiful.core.run import Status
from dutiful.runtime.cluster_clock import CLOCK_ALARM_MS
from dutiful.service.views import moment

if TYPE_CHECKING:
    from dutiful.core.event import Event
    from dutiful.core.run import Run

logger = logging.getLogger("dutiful.service")


def write(event: Event) -> None:
    """Log an event: decisions and runs at INFO, trouble at WARNING or ERROR."""
    match event:
        case happened.RunLaunched(run=run):
            _log(logging.INFO, "launched", event, **_of(run), lateMs=event.late)
        case happened.RunHeld(run=run):
            _log(logging.INFO, "held", event, **_of(run), fireAt=moment(run.fire_at).isoformat())
        case happened.TicksSkipped(run=run):
            _log(logging.INFO, "skipped", event, **_of(run), ticks=run.ticks)
        case happened.RunSettled(run=run) | happened.RunEndedByPlan(run=run):
            level = logging.WARNING if run.status is Status.FAILED else logging.INFO
            error = event.error if isinstance(event, happened.RunSettled) else None
            _log(level, run.status.value.lower(), event, error, **_of(run), detail=run.detail)
        case happened.LeadershipChanged():
            name = "leading" if event.epoch is not None else "standby"
            _log(logging.INFO, name, event, epoch=event.epoch, shard=event.shard)
        case _:
            _write_trouble(event)


def _write_trouble(event: Event) -> None:
    match event:
        case happened.ScheduleQuarantined():
            _log(logging.WARNING, "quarantined", event, schedule=event.schedule_id, error=event.error)
        case happened.ExpectationMissed():
            since = moment(event.since).isoformat()
            facts: dict[str, Any] = {"expectation": event.expectation, "since": since}
            _log(logging.WARNING, "expectation missed", event, schedule=event.schedule_id, **facts)
        case happened.PassFailed():
            _log(logging.WARNING, "pass failed", event, error=event.error)
        case happened.ScheduleDamaged():
            _log(logging.ERROR, "damaged", event, schedule=event.schedule_id, problem=event.problem)
        case happened.EngineStopped():
            _log(logging.ERROR, "engine stopped", event, error=event.error)
        case happened.ClockStepped():
            _log(logging.WARNING, "clock stepped", event, byMs=event.by)
        case happened.ClockOff():
            level = logging.ERROR if abs(event.by) >= CLOCK_ALARM_MS else logging.WARNING
            _log(level, "clock off", event, byMs=event.by)
        case happened.LoopBlocked():
            _log(logging.WARNING, "event loop blocked", event, task=event.task, seconds=event.seconds)


def _of(run: Run) -> dict[str, Any]:
    reason = None if run.reason is None else run.reason.value
    return {
        "schedule": run.schedule_id,
        "runAt": moment(run.run_at).isoformat(),
        "attempt": run.attempt,
        "trigger": run.trigger,
        "reason": reason,
        "key": run.key,
    }


class _Facts:
    """The facts of a record as text, made when a handler asks: most formats show them in another way."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def __str__(self) -> str:
        # A detail may hold several lines, and control characters; the record's `event` has it as it is.
        return "".join(f" {key}={quoted(value, LOGGED_MAX)}" for key, value in self._told.items())


def _log(level: int, name: str, event: Event, raised: BaseException | None = None, **facts: Any) -> None:
    if logger.isEnabledFor(level):
        told = {key: value for key, value in facts.items() if value is not None}
        extra = {"event": {"name": name, "at": moment(event.at).isoformat(), **told}}
        logger.log(level, "%s%s", name, _Facts(told), exc_info=raised, extra=extra)
