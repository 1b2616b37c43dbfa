"""The scheduler's named events: as structured log records, as metrics, and for an observer."""

from __future__ import annotations

import inspect
import logging
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful.core import event as happened
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import LOGGED_MAX, InvalidArgumentError, quoted
from dutiful.core.policy import Policy, Reason
from dutiful.core.run import Phase, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.run import Run

Observer: TypeAlias = "Callable[[SchedulerEvent], None]"

logger = logging.getLogger("dutiful")

_WARNINGS = {
    *("TaskRunFailed", "TaskRunOverran", "TaskStartLate", "SchedulerInitializationFailed", "ClockStepped"),
    *("ClockOff", "ScheduleQuarantined", "PassFailed", "LoopBlocked", "SchedulerStandby"),
}
_ERRORS = {"EngineStopped": logging.ERROR, "ScheduleDamaged": logging.ERROR}


@dataclass(frozen=True, slots=True)
class SchedulerEvent:
    """An event of the scheduler, under its documented name."""

    name: str
    at: datetime
    task: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    # The exception of the callback, for a TaskRunFailed; its traceback is logged.
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain values."""
        return {"name": self.name, "at": self.at.isoformat(), "task": self.task, **self.details}


class EventCounts:
    """An observer that counts events by name, and adds up the lateness of late starts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.late_seconds_sum = self.late_seconds_max = 0.0
        # LoopBlocked comes from the watchdog's thread.
        self._lock = threading.Lock()

    def __call__(self, event: SchedulerEvent) -> None:
        """Count one event."""
        late = event.details["lateMs"] / 1000 if event.name == "TaskStartLate" else 0.0
        with self._lock:
            self.counts[event.name] += 1
            self.late_seconds_sum += late
            self.late_seconds_max = max(self.late_seconds_max, late)

    def text(self) -> str:
        """Return all counts in the text format of Prometheus."""
        with self._lock:
            events = [
                f'dutiful_events_total{{event="{name}"}} {n}' for name, n in sorted(self.counts.items())
            ]
            late = f"dutiful_start_late_seconds_sum {self.late_seconds_sum:g}"
            most = f"dutiful_start_late_seconds_max {self.late_seconds_max:g}"
        types = [f"# TYPE {line.split()[0]} {kind}" for line, kind in ((late, "counter"), (most, "gauge"))]
        lines = ["# TYPE dutiful_events_total counter", *events, types[0], late, types[1], most]
        return "\n".join(lines) + "\n"


def log(event: SchedulerEvent) -> None:
    """Write the event as one structured log record."""
    level = _ERRORS.get(event.name) or (logging.WARNING if event.name in _WARNINGS else logging.INFO)
    if logger.isEnabledFor(level):
        task = f" {event.task}" if event.task is not None else ""
        # An error may hold several lines, and control characters; the record's `event` has it as it is.
        details = "".join(f" {key}={quoted(value, LOGGED_MAX)}" for key, value in event.details.items())
        extra = {"event": event.as_dict()}
        logger.log(level, "%s%s%s", event.name, task, details, exc_info=event.exception, extra=extra)


def translate(event: Event) -> SchedulerEvent | None:
    """Return the event under the names of the declarative scheduler; None for other events."""
    match event:
        case happened.RunLaunched(run=run):
            if event.before is Phase.RETRY:
                return _of("TaskRetryStarted", event.at, run.schedule_id)
            details = {"trigger": "manual"} if run.kind == "manual" else {}
            return _of("TaskRunStarted", event.at, run.schedule_id, **details)
        case happened.RunSettled(run=run, error=error):
            name = "TaskRunCompleted" if run.status is Status.SUCCESS else "TaskRunFailed"
            details = {} if run.detail is None else {"error": run.detail}
            told = _of(name, event.at, run.schedule_id, **details)
            return told if error is None else replace(told, exception=error)
        case happened.RunEndedByPlan(run=run) | happened.RunHeld(run=run):
            return _planned(event.at, run)
        case happened.RunOutlasted(run=run):
            ran = event.at - (run.started_at or event.at)
            return _of("TaskRunOverran", event.at, run.schedule_id, runningMs=ran)
        case happened.ClockStepped() | happened.ClockOff():
            return _of(type(event).__name__, event.at, byMs=event.by)
        case happened.ScheduleQuarantined():
            return _of("ScheduleQuarantined", event.at, event.schedule_id, error=event.error)
        case happened.ScheduleDamaged():
            return _of("ScheduleDamaged", event.at, event.schedule_id, problem=event.problem)
        case happened.PassFailed():
            return _of("PassFailed", event.at, error=event.error)
        case happened.EngineStopped():
            return _of("EngineStopped", event.at, error=event.error)
        case happened.LoopBlocked():
            return _of("LoopBlocked", event.at, event.task, seconds=event.seconds)
        case _:
            return None


def _planned(at: Instant, run: Run) -> SchedulerEvent | None:
    """Return the event of a run that the planner ended, or that it made wait."""
    if run.phase is Phase.RETRY or run.reason is Reason.LOST_RUN:
        # The planner fails a run, with or without a retry, only after its timeout.
        return _of("TaskRunFailed", at, run.schedule_id, error=run.detail or "timed out")
    if run.phase is Phase.ENDED and run.reason is Reason.INTERRUPTED:
        never_began = run.kind == "manual" and run.attempt == 0
        details = {"trigger": "manual"} if never_began else {}
        return _of("TaskRunCancelled", at, run.schedule_id, **details)
    preempted = run.phase is Phase.ENDED and run.reason is Reason.TASK_FAILED
    return _of("TaskRetryPreempted", at, run.schedule_id) if preempted else None


def changes_in_words(changed: Iterable[tuple[str, object, object]]) -> dict[str, str]:
    """Return the changed parts of a registration, under their documented names, as "old -> new"."""
    told: dict[str, str] = {}
    for part, old, new in changed:
        if isinstance(old, Policy) and isinstance(new, Policy):
            before, after = _options(old), _options(new)
            told |= {
                name: f"{before[name]} -> {after[name]}" for name in before if before[name] != after[name]
            }
        elif isinstance(old, Cron) and isinstance(new, Cron):
            told["cronExpression"] = " -> ".join(_cron_texts(old, new))
        else:
            told[part] = f"{old} -> {new}"
    return told


def _options(policy: Policy) -> dict[str, object]:
    """Return the options of a registration beside its name, cron text and callback."""
    retry = policy.retry
    return {
        "retryDelayMs": retry and retry.delay,
        "retryLimit": retry and retry.limit,
        "retryBackoff": retry and retry.backoff,
        "timeoutMs": policy.run_timeout,
        "ledger": policy.ledger,
    }


def _cron_texts(old: Cron, new: Cron) -> tuple[str, str]:
    """Return both texts, with their zones and dialects where those changed."""
    if (old.zone, old.dialect) == (new.zone, new.dialect):
        return str(old), str(new)
    if old.dialect == new.dialect:
        return f"{old} ({old.zone.tzinfo})", f"{new} ({new.zone.tzinfo})"
    return f"{old} ({old.zone.tzinfo}, {old.dialect})", f"{new} ({new.zone.tzinfo}, {new.dialect})"


def checked_observer(observer: Observer | None) -> Observer | None:
    """Return the observer, or raise InvalidArgumentError where it cannot be called with an event."""
    if observer is None:
        return None
    if not callable(observer):
        raise InvalidArgumentError("observer", observer, "must be a function that takes an event")
    if inspect.iscoroutinefunction(observer) or inspect.iscoroutinefunction(type(observer).__call__):
        raise InvalidArgumentError("observer", observer, "must be a plain function; nothing would await it")
    return observer


def _of(name: str, at: Instant, task: str | None = None, **details: Any) -> SchedulerEvent:
    return SchedulerEvent(name, datetime.fromtimestamp(at / 1000, UTC), task, details)
