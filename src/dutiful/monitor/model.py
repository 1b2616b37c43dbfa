"""The formal model: takes one event at a time and collects violations."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import InvalidCronExpressionError
from dutiful.core.name import name_flaw
from dutiful.monitor.obligation import NEVER, Task, due_in, instant_of, iso, just_before, length_of
from dutiful.monitor.trace import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    # List name -> (name, cron text, delay) of each task, with an optional mapping of retry options. The
    # registrations that a scheduler takes are accepted as well.
    Registrations = Mapping[str, Sequence[tuple[Any, ...]]]

# Beyond this many tasks the bound on a start grows by 6 ms (in microseconds) per task.
_TASKS_IN_LAG, _LAG_PER_TASK = 10_000, 6000


_LONG_AGO = instant_of(datetime.min.replace(tzinfo=UTC))


class Violation(NamedTuple):
    """A broken axiom; `position` is the index of the event in the trace, None where an event never came."""

    axiom: str
    position: int | None
    message: str


class _Registered(NamedTuple):
    """The registration of one task."""

    cron: Cron
    delay: int
    retry_limit: int | None = None
    retry_backoff: int = 1


@dataclass(slots=True)
class Monitor:
    """The state of the model, and the violations found so far."""

    registrations: Registrations
    timezone: str | tzinfo
    lag: timedelta | float
    dialect: str = "posix"
    violations: list[Violation] = field(default_factory=list)
    _tasks: dict[str, Task] = field(default_factory=dict)
    _position: int = -1
    # The time of the last event.
    _now: int = _LONG_AGO
    _active_since: int | None = None
    _initialized: bool = False
    # Open calls of initialize: call -> (list, whether something else was active when it began, deadline).
    _initializing: dict[Any, tuple[str, bool, float]] = field(default_factory=dict)
    _stopping: dict[Any, int] = field(default_factory=dict)
    _stop_deadline: float | None = None
    _frozen_since: int | None = None
    # Count by name of runs that broke S1: of no registered task, or beside another run of the same task.
    _strays: Counter[str] = field(default_factory=Counter)
    _deadlines: list[tuple[float, str, int]] = field(default_factory=list)

    def see(self, event: Mapping[str, Any]) -> None:
        """Process the next event."""
        self._position += 1
        at = instant_of(event["at"])
        if at < self._now:
            self._violate("EA3", f"time goes back from {iso(self._now)} to {iso(at)}")
            at = self._now
        name = event["name"]
        if self._frozen_since is not None and name not in ("Unfrozen", "Crash"):
            self._violate("EA2", f"{name} while frozen")
        self.pass_time(at)
        self._step(name, event)

    def _step(self, name: str, event: Mapping[str, Any]) -> None:
        match name:
            case "InitStart":
                self._init_start(event)
            case "InitSuccess":
                self._init_success(event)
            case "InitFailure":
                self._init_failure(event)
            case "StopStart":
                self._stop_start(event)
            case "StopEnd":
                self._stop_end(event)
            case "RunStart":
                self._run_start(event["task"], manual=event.get("trigger") == "manual")
            case "RunSuccess" | "RunFailure" | "RunCancelled":
                self._run_end(name, event["task"])
            case "RunRequest":
                self._run_request(event["task"])
            case "Crash":
                self._crash()
            case "Frozen":
                self._frozen_since = self._now
            case "Unfrozen":
                self._unfreeze()

    def pass_time(self, now: int) -> None:
        """Advance the time; every deadline that has passed breaks a liveness axiom."""
        self._now = now
        if self._frozen_since is not None:
            return
        while self._deadlines and self._deadlines[0][0] < now:
            deadline, name, version = heapq.heappop(self._deadlines)
            task = self._tasks.get(name)
            if task is not None and task.version == version and self._active_since is not None:
                self._violate("L1", f"{name} was owed a start by {iso(deadline)}", never=True)
        for call, (list_, other, deadline) in list(self._initializing.items()):
            if deadline < now:
                self._violate("L2", f"initialize({list_}) did not return by {iso(deadline)}", never=True)
                self._initializing[call] = list_, other, NEVER
        if self._stop_deadline is not None and self._stop_deadline < now:
            self._violate("L3", f"stop did not return by {iso(self._stop_deadline)}", never=True)
            self._stop_deadline = None

    # Steps

    def _init_start(self, event: Mapping[str, Any]) -> None:
        busy = bool(self._initializing or self._stopping or self._initialized)
        self._initializing[event.get("call")] = event["list"], busy, self._now + self._bound()

    def _init_success(self, event: Mapping[str, Any]) -> None:
        list_ = self._end_init(event)
        if self._initialized:
            self._violate("S6", "a second initialize succeeded before a stop or a crash")
        tasks = self._valid_tasks(list_)
        if tasks is None:
            self._violate("S4", f"initialize accepted the invalid list {list_}")
            return
        self._initialized = True
        self._register(tasks)
        self._active_since = None if self._stopping else self._now
        # The old deadlines belong to the previous registrations.
        self._deadlines.clear()
        for name in self._tasks:
            self._changed(name)

    def _init_failure(self, event: Mapping[str, Any]) -> None:
        _, busy, _ = self._initializing.get(event.get("call"), (event.get("list"), True, 0.0))
        list_ = self._end_init(event)
        if not busy and self._valid_tasks(list_) is not None:
            self._violate("S5", f"initialize refused the valid list {list_} though nothing was active")

    def _end_init(self, event: Mapping[str, Any]) -> str:
        if event.get("call") not in self._initializing:
            self._violate("EA7", f"{event['name']} without an open InitStart")
            return str(event["list"])
        return self._initializing.pop(event.get("call"))[0]

    def _stop_start(self, event: Mapping[str, Any]) -> None:
        self._stopping[event.get("call")] = self._now
        self._active_since = None
        self._await_quiescence()

    def _stop_end(self, event: Mapping[str, Any]) -> None:
        if self._stopping.pop(event.get("call"), None) is None:
            self._violate("EA7", "StopEnd without an open StopStart")
        started = {name for name, task in self._tasks.items() if task.started is not None}
        running = sorted(started | {*self._strays})
        if running:
            self._violate("S3", f"stop returned while {', '.join(running)} ran")
        self._initialized, self._stop_deadline = False, None
        self._await_quiescence()

    def _run_start(self, name: str, *, manual: bool) -> None:
        task = self._tasks.get(name)
        problem = self._no_obligation(task)
        if problem is not None:
            self._violate("S1", f"{name} started {problem}")
        if task is None or task.started is not None:
            self._strays[name] += 1
        if task is not None:
            task.begin(self._now, manual=manual)
            self._changed(name)

    def _run_request(self, name: str) -> None:
        task = self._tasks.get(name)
        if task is not None:
            # A requested run may succeed without a due minute since the last success.
            task.requested, task.succeeded = self._now, None
            self._changed(name)

    def _no_obligation(self, task: Task | None) -> str | None:
        if task is None:
            return "though it is not registered"
        if self._active_since is None:
            return "while the scheduler was not active"
        pending = task.pending_since()
        if pending is None:
            return "while it was running"
        return "without being due" if pending > self._now else None

    def _run_end(self, event_name: str, name: str) -> None:
        task = self._tasks.get(name)
        if task is None or task.started is None:
            self._end_without_start(event_name, name, task)
            return
        if event_name == "RunFailure":
            task.fail(self._now)
        elif event_name == "RunSuccess":
            self._succeed(name, task, task.started)
        task.started, task.ended = None, self._now
        self._changed(name)
        self._await_quiescence()

    def _succeed(self, name: str, task: Task, started: int) -> None:
        if task.succeeded is not None and not due_in(task.cron, task.succeeded, started):
            self._violate("S2", f"{name} succeeded twice without a due minute in between")
        # A tick that was owed before a requested run still follows it, so that run is not compared with.
        task.succeeded = None if task.manual else started

    def _end_without_start(self, event_name: str, name: str, task: Task | None) -> None:
        """Handle the end of a run that broke S1 when it began, or the cancellation of a run that waits."""
        if self._strays[name] > 0:
            self._strays[name] -= 1
            self._strays += Counter()  # Drop names whose count is zero.
            self._await_quiescence()
        elif event_name == "RunCancelled" and task is not None and task.waits():
            task.cancel()
            self._changed(name)
        else:
            self._violate("EA7", f"{event_name} of {name}, which does not run")

    def _crash(self) -> None:
        for task in self._tasks.values():
            task.orphan = task.orphan or task.started is not None
            task.started = None
            task.version += 1
        self._strays.clear()
        self._initializing.clear()
        self._stopping.clear()
        self._active_since, self._stop_deadline, self._initialized = None, None, False
        self._frozen_since = None

    def _unfreeze(self) -> None:
        """Move every deadline by the time that was frozen."""
        lost = self._now - (self._frozen_since if self._frozen_since is not None else self._now)
        self._frozen_since = None
        self._deadlines = [(deadline + lost, name, version) for deadline, name, version in self._deadlines]
        heapq.heapify(self._deadlines)
        for call, (list_, other, deadline) in self._initializing.items():
            self._initializing[call] = list_, other, deadline + lost
        if self._stop_deadline is not None:
            self._stop_deadline += lost

    # Facts

    def _register(self, tasks: dict[str, _Registered]) -> None:
        previous, self._tasks = self._tasks, {}
        self._strays.update(
            name for name, task in previous.items() if task.started is not None and name not in tasks
        )
        for name, given in tasks.items():
            known = previous.get(name)
            if known is None:
                before = just_before(self._now, given.cron)
                known = Task(given.cron, given.delay, before, before)
            if known.succeeded is not None and due_in(known.cron, known.succeeded, self._now):
                # A minute was due under the old cron, so the next success needs no other one.
                known.succeeded = None
            if known.cron != given.cron:
                # A new cron is compared with the last start, requested or not.
                known.mark = known.attempted
            known.cron, known.delay, known.retry_limit, known.retry_backoff = given
            self._tasks[name] = known

    def _valid_tasks(self, list_: str) -> dict[str, _Registered] | None:
        tasks: dict[str, _Registered] = {}
        # The list of a scheduler has the callback as third part.
        given = (
            plain(each) if len(each) > 2 and callable(each[2]) else each for each in self.registrations[list_]
        )
        for name, text, delay, *more in given:
            seconds = delay.total_seconds() if isinstance(delay, timedelta) else float(delay)
            try:
                cron = Cron.parse(text, self.dialect, self.timezone)
            except InvalidCronExpressionError:
                return None
            if name in tasks or name_flaw(name) is not None or not 0 <= seconds < math.inf:
                return None
            tasks[name] = _Registered(cron, length_of(delay), **(more[0] if more else {}))
        return tasks

    def _changed(self, name: str) -> None:
        """Set the deadline of the start that the task is owed now or next."""
        task = self._tasks[name]
        task.version += 1
        pending = task.pending_since()
        if pending is not None and pending != NEVER and self._active_since is not None:
            since = max(pending, self._active_since, task.ended)
            heapq.heappush(self._deadlines, (since + self._bound(), name, task.version))

    def _await_quiescence(self) -> None:
        if not self._stopping or self._stop_deadline is not None:
            return
        if not self._strays and all(task.started is None for task in self._tasks.values()):
            self._stop_deadline = self._now + self._bound()

    def _bound(self) -> float:
        return length_of(self.lag) + _LAG_PER_TASK * max(0, len(self._tasks) - _TASKS_IN_LAG)

    def _violate(self, axiom: str, message: str, *, never: bool = False) -> None:
        self.violations.append(Violation(axiom, None if never else self._position, message))
