"""The formal model as a monitor: reads a trace of events and reports each broken axiom.

A trace is a sequence of mappings with `name` (InitStart, InitSuccess, InitFailure, StopStart, StopEnd,
RunRequest, RunStart, RunSuccess, RunFailure, RunCancelled, Crash; Frozen and Unfrozen around time that was
not granted), `at` (epoch seconds, an ISO text or an aware datetime), and where it applies `task`, `call` and
`list`. The monitor computes from the registered cron texts when a task is due; pulses are ignored.

Per task name the model keeps five facts: `mark`, the last start; `retry`, an instant or none; `orphan`,
whether a crash cut its run short; `requested`, whether a user requested a run; and whether it runs. A task
is owed a start while it does not run and is an orphan, or was requested, or its retry has come, or a minute
that its cron matches lies after the mark. RunCancelled ends a run, or a waiting retry, and owes no retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dutiful.monitor.model import Monitor, Violation
from dutiful.monitor.obligation import instant_of
from dutiful.monitor.trace import TraceFile, from_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta, tzinfo

    from dutiful.monitor.model import Registrations

__all__ = ["Monitor", "TraceFile", "Violation", "check", "from_events"]


def check(
    events: Iterable[Mapping[str, Any]],
    *,
    registrations: Registrations,
    timezone: str | tzinfo = "UTC",
    lag: timedelta | float = 60,
    end: Any = None,
    dialect: str = "posix",
) -> list[Violation]:
    """Return the violations in a trace; after the last event nothing happened until `end`, if given."""
    monitor = Monitor(registrations, timezone, lag, dialect)
    for event in events:
        monitor.see(event)
    if end is not None:
        monitor.pass_time(instant_of(end))
    return monitor.violations
