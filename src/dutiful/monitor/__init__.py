"""The formal model as a monitor: reads a trace of events and says which axiom broke, and where.

A trace is a sequence of mappings with `name` (InitStart, InitSuccess, InitFailure, StopStart, StopEnd,
RunStart, RunSuccess, RunFailure, Crash; Frozen and Unfrozen around time that was not granted), `at`
(epoch seconds, an ISO text or an aware datetime), and where it applies `task`, `call` and `list`. When
a task is due is computed from the registered cron texts; pulses in the trace are passed over.

Per task name the model keeps four facts: `mark`, the last start; `retry`, an instant or none; `orphan`,
whether a crash cut its run short; and whether it runs. A task is owed a start while it does not run and
is an orphan, or its retry has come, or a minute that its cron matches lies after the mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dutiful.monitor.model import Monitor, Violation
from dutiful.monitor.obligation import epoch_seconds
from dutiful.monitor.record import TraceFile
from dutiful.monitor.trace import from_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import tzinfo

    from dutiful.monitor.model import Registrations

__all__ = ["Monitor", "TraceFile", "Violation", "check", "from_events"]


def check(
    events: Iterable[Mapping[str, Any]],
    *,
    registrations: Registrations,
    timezone: str | tzinfo = "UTC",
    lag: float = 60,
    end: Any = None,
) -> list[Violation]:
    """Return the violations in a trace; `end` is until when nothing more happened, if that is known."""
    monitor = Monitor(registrations, timezone, lag)
    for event in events:
        monitor.see(event)
    if end is not None:
        monitor.pass_time(epoch_seconds(end))
    return monitor.violations
