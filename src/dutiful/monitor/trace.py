"""Traces for the monitor: converts scheduler events to the model's events, and writes trace files."""

from __future__ import annotations

import json
import os
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from dutiful.core.cron.zone import zone
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.name import exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo
    from io import FileIO


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
    """Return the trace of a scheduler's events (as dicts); its nth initialize gets the nth list.

    An event that names its "list" gets that one. The key "call" separates the events of several schedulers. A
    standby enters the trace when it takes over. A crash leaves no event: insert {"name": "Crash", "at": …}
    where it happened.
    """
    converter = _Converter(lists)
    for event in events:
        converter.see(event)
    return converter.trace


class _Converter:
    """Converts events of schedulers to steps of the model."""

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
            if name in ("RunStart", "RunCancelled") and event.get("trigger") == "manual":
                # The scheduler reports a request only when its run begins, or is cancelled before that.
                self._add("RunRequest", event)
            self._add(name, event)
        elif name == "StopEnd":
            self._standing_by.discard(call)

    def _stand_by(self, call: Any) -> None:
        """Remove the call of a standby's initialize; it enters the trace at the takeover."""
        self._standing_by.add(call)
        calls = [
            n for n, step in enumerate(self.trace) if (step["name"], step["call"]) == ("InitStart", call)
        ]
        if not calls:
            # The trace begins after the call.
            return
        begun = calls[-1]
        later = [step for step in self.trace[begun + 1 :] if step["call"] != call]
        self.trace[begun:] = later

    def _add(self, name: str, event: Mapping[str, Any]) -> None:
        call = event.get("call")
        list_ = self._given.get(call) if name.startswith("Init") else None
        # Keep the other keys of the event, such as the line where it was read.
        step = {"name": name, "at": event["at"], "task": event.get("task"), "call": call, "list": list_}
        self.trace.append({**event, **step})


# The first bytes of every trace, and how many bytes are read at first from its end.
_OPENING, _BLOCK = b'{"registrations": ', 65_536


class Told(Protocol):
    """An event, as observers receive it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the event as plain values."""


class TraceFile:
    """An observer of one scheduler: `Scheduler(…, observer=TraceFile(path, registrations))`.

    Lines are appended to an existing file. If its last scheduler did not stop, a Crash is added first.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        registrations: Sequence[tuple[Any, ...]],
        timezone: str | tzinfo = "UTC",
        dialect: str = "posix",
    ) -> None:
        self._list = uuid.uuid4().hex[:8]
        # A zone is recorded by its name; a zone without one is refused here.
        where = zone(zone(timezone).name).name
        lists = {self._list: [plain(each) for each in registrations]}
        header = {"registrations": lists, "timezone": where, "dialect": dialect}
        self._file = _opened(os.fspath(path))
        for line in (*_mend(self._file, os.fspath(path)), header):
            self._write(line)

    def __call__(self, event: Told) -> None:
        """Add one event."""
        self._write(event.as_dict() | {"call": self._list, "list": self._list})

    def close(self) -> None:
        """Close the file; later events are lost."""
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


def _opened(path: str) -> FileIO:
    try:
        # Unbuffered: a line is one write, so a killed process loses nothing and threads do not mix lines.
        return open(path, "a+b", buffering=0)
    except OSError as error:
        raise InvalidArgumentError("trace", path, error.strerror or str(error)) from None


def plain(registration: Sequence[Any]) -> tuple[Any, ...]:
    """Return a registration in the form that `check` takes: without callback, with any retry options."""
    name, cron, *_, delay = registration
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    options = getattr(registration, "options", None)
    if options is None or (options.retry_limit, options.retry_backoff) == (None, 1):
        return exact(name), exact(cron), seconds
    retries = {"retry_limit": options.retry_limit, "retry_backoff": options.retry_backoff}
    return exact(name), exact(cron), seconds, retries


def _mend(file: FileIO, path: str) -> list[dict[str, Any]]:
    """Cut off an incomplete last line, and return a Crash event if the last scheduler did not stop."""
    number, size = file.fileno(), os.fstat(file.fileno()).st_size
    if not size:
        return []
    if not os.pread(number, len(_OPENING), 0).startswith(_OPENING):
        file.close()
        raise InvalidArgumentError("trace", path, "is there and is no trace; name another file")
    *lines, torn = _tail(number, size).split(b"\n")
    if torn:
        os.ftruncate(number, size - len(torn))
    last = json.loads(lines[-1]) if lines else {}
    ended = last.get("name") in ("SchedulerStopped", "SchedulerInitializationFailed", None)
    return [] if ended else [{"name": "Crash", "at": last["at"], "task": None}]


def _tail(number: int, size: int) -> bytes:
    """Return the end of a file from the last whole line on, or from the start of the file."""
    length = _BLOCK
    tail = os.pread(number, length, max(0, size - length))
    # Registrations are one line, which may be long: read more until the end of the line before it is there.
    while length < size and tail.count(b"\n") < 2:
        length *= 2
        tail = os.pread(number, length, max(0, size - length))
    return tail
