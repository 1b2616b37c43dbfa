"""Convert the events of a scheduler to the alphabet of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NAMES = {
    "SchedulerInitializationStarted": "InitStart",
    "SchedulerInitializationCompleted": "InitSuccess",
    "SchedulerInitializationFailed": "InitFailure",
    "SchedulerStopRequested": "StopStart",
    "SchedulerStopped": "StopEnd",
    "TaskRunStarted": "RunStart",
    "TaskRetryStarted": "RunStart",
    "TaskRunCompleted": "RunSuccess",
    "TaskRunFailed": "RunFailure",
    "TaskRunCancelled": "RunCancelled",
    **{name: name for name in ("Crash", "Frozen", "Unfrozen")},
}


def from_events(events: Iterable[Mapping[str, Any]], lists: Sequence[str]) -> list[dict[str, Any]]:
    """Return the trace of a scheduler's events (as dicts); its nth initialize is given the nth list.

    An event that names its "list" is given that one. Events of several schedulers are told apart by
    "call". A standby enters the trace when it takes over. A crash leaves no event: put
    {"name": "Crash", "at": …} where it happened.
    """
    converter = _Converter(lists)
    for event in events:
        converter.see(event)
    return converter.trace


class _Converter:
    """Turns events of schedulers into steps of the model."""

    def __init__(self, lists: Sequence[str]) -> None:
        self.trace: list[dict[str, Any]] = []
        self._lists, self._inits = lists, 0
        self._given: dict[Any, str | None] = {}
        self._standing_by: set[Any] = set()

    def see(self, event: Mapping[str, Any]) -> None:
        call, name = event.get("call"), _NAMES.get(event["name"])
        if event["name"] == "SchedulerStandby":
            self._stand_by(call)
        if name is None:
            return
        if name == "InitStart":
            nth = self._lists[min(self._inits, len(self._lists) - 1)] if self._lists else None
            self._given[call] = event.get("list", nth)
            self._inits += 1
        if call in self._standing_by and name == "InitSuccess":
            self._standing_by.discard(call)
            self._add("InitStart", event)
        if call not in self._standing_by or name in ("Crash", "Frozen", "Unfrozen"):
            if name == "RunStart" and event.get("trigger") == "manual":
                self._add("RunRequest", event)
            self._add(name, event)
        elif name == "StopEnd":
            self._standing_by.discard(call)

    def _stand_by(self, call: Any) -> None:
        """Remove the call of a standby's initialize; it enters the trace at the takeover."""
        self._standing_by.add(call)
        begun = max(n for n, step in enumerate(self.trace) if step["call"] == call)
        while self.trace[begun]["name"] != "InitStart" or self.trace[begun]["call"] != call:
            begun -= 1
        later = [step for step in self.trace[begun + 1 :] if step["call"] != call]
        self.trace[begun:] = later

    def _add(self, name: str, event: Mapping[str, Any]) -> None:
        call = event.get("call")
        list_ = self._given.get(call) if name.startswith("Init") else None
        # Keep the other keys of the event, such as the line where it was read.
        step = {"name": name, "at": event["at"], "task": event.get("task"), "call": call, "list": list_}
        self.trace.append({**event, **step})
