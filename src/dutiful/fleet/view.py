"""The fleet as it is at this moment: kept from what happens, so that nobody has to ask the store.

`check` is the pipeline of conditions that a schedule must meet to be triggered, in their order; the
engine decides by the same facts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.zone import from_epoch_ms
from dutiful.core.event import RunEndedByPlan, RunHeld, RunLaunched, RunSettled, TicksSkipped
from dutiful.core.plan.opening import first_wake
from dutiful.core.policy import Reason
from dutiful.core.run import Phase
from dutiful.fleet.types import ScheduleCheckResult, ScheduleInfo
from dutiful.fleet.types import ScheduleSkipReason as Skip

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.run import Run
    from dutiful.core.schedule import State
    from dutiful.core.snapshot import Due
    from dutiful.fleet.roster import Entry
    from dutiful.fleet.types import ScheduleState, ScheduleStatus

_AUTOMATIC = ("interval", "cron")
_GO = ScheduleCheckResult(should_trigger=True)


class Job(NamedTuple):
    """A job that is running: which run of which schedule, since when."""

    entry: Entry
    run_at: Instant
    kind: str
    started_at: Instant
    prompt: str


class View:
    """Entries, the engine's states of them, and the jobs that run."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.entries: dict[str, Entry] = {}
        self.jobs: dict[tuple[str, Instant, str], Job] = {}
        # The same jobs, counted by agent and by schedule: the pipeline asks for both all the time.
        self._of_agent: Counter[str] = Counter()
        self._of_schedule: Counter[str] = Counter()
        # Manual runs that are recorded and begin with the next pass: whose place each takes.
        self.reserved: dict[tuple[str, Instant], str] = {}
        self._states: dict[str, State] = {}
        # When a schedule came to be as it is now, or an agent to have no place left.
        self._since: dict[str, tuple[Skip, Instant]] = {}
        self._full_since: dict[str, Instant] = {}

    def replace(self, entries: Iterable[Entry], stored: Iterable[Due], now: Instant) -> None:
        """Take over a new set of schedules, and what the store has of them."""
        self.entries = {entry.id: entry for entry in entries}
        known_to_engine = [due for due in stored if due.schedule.id in self.entries]
        self._states = {due.schedule.id: due.state for due in known_to_engine}
        self.reserved = {
            (run.schedule_id, run.run_at): self.entries[run.schedule_id].agent.name
            for due in known_to_engine
            for run in due.runs
            if run.kind == "manual" and run.phase is Phase.DELAYED
        }
        held = {entry.id: self._held(entry) for entry in self.entries.values()}
        known = self._since
        self._since = {
            id_: known[id_] if id_ in known and known[id_][0] is reason else (reason, now)
            for id_, reason in held.items()
            if reason is not None
        }

    def _held(self, entry: Entry) -> Skip | None:
        """Return why a schedule is out of service, whatever the time."""
        if entry.problem is not None:
            return Skip.QUARANTINED
        if entry.written.type not in _AUTOMATIC:
            return Skip.UNSUPPORTED_TYPE
        return Skip.DISABLED if entry.disabled else None

    # What happens

    def hear(self, event: Event) -> None:
        """Follow the engine."""
        if isinstance(event, RunLaunched | RunSettled | TicksSkipped | RunHeld | RunEndedByPlan):
            run = event.run
            state = self._states.get(run.schedule_id)
            if state is not None:
                self._states[run.schedule_id] = _followed(state, run)

    def resume(self, entry: Entry, now: Instant) -> None:
        """A schedule is put back into service; the occurrences that passed meanwhile are not owed."""
        state = self._states.get(entry.id)
        if state is not None and entry.written.type == "cron":
            self._states[entry.id] = state._replace(cursor=max(state.cursor, now))

    def begin(self, job: Job) -> None:
        """A job begins; a place is taken."""
        agent = job.entry.agent
        self.jobs[job.entry.id, job.run_at, job.kind] = job
        self._of_agent[agent.name] += 1
        self._of_schedule[job.entry.id] += 1
        self.reserved.pop((job.entry.id, job.run_at), None)
        if self.taken(agent.name) >= agent.max_concurrent:
            self._full_since.setdefault(agent.name, job.started_at)

    def end(self, job: Job) -> None:
        """A job has ended; its place is free."""
        del self.jobs[job.entry.id, job.run_at, job.kind]
        self._of_agent[job.entry.agent.name] -= 1
        self._of_schedule[job.entry.id] -= 1
        self._full_since.pop(job.entry.agent.name, None)

    # Questions

    def running(self, agent: str) -> int:
        """Return how many jobs of an agent run."""
        return self._of_agent[agent]

    def taken(self, agent: str) -> int:
        """Return how many places of an agent are taken, also by what begins with the next pass."""
        return self.running(agent) + sum(owner == agent for owner in self.reserved.values())

    def is_running(self, id_: str) -> bool:
        """Return whether a job of a schedule runs."""
        return self._of_schedule[id_] > 0

    def check(self, entry: Entry, now: Instant) -> ScheduleCheckResult:
        """Return whether a pass at `now` would trigger the schedule, or the first reason why not."""
        held = self._held(entry)
        if held is not None:
            return ScheduleCheckResult(False, held)
        if self.is_running(entry.id):
            return ScheduleCheckResult(False, Skip.ALREADY_RUNNING)
        if self.taken(entry.agent.name) >= entry.agent.max_concurrent:
            return ScheduleCheckResult(False, Skip.AT_CAPACITY)
        wake = self._next(entry)
        return _GO if wake is not None and wake <= now else ScheduleCheckResult(False, Skip.NOT_DUE)

    def info(self, entry: Entry, record: ScheduleState, now: Instant) -> ScheduleInfo:
        """Return a schedule as it is shown to people; `record` is what the state file says of it."""
        running = self.is_running(entry.id)
        status: ScheduleStatus = "disabled" if entry.disabled else "running" if running else "idle"
        wake = None if status != "idle" or entry.problem is not None else self._next(entry)
        reason = self.check(entry, now).skip_reason
        return ScheduleInfo(
            entry.agent.name, entry.name, entry.written.type, status, record.last_run_at,
            None if wake is None else self.told(max(wake, now)), record.last_error, reason,
            self._reason_since(entry, record, reason),
        )  # fmt: skip

    def _next(self, entry: Entry) -> Instant | None:
        state = self._states.get(entry.id)
        if entry.schedule is None or state is None or state.quarantine is not None:
            return None
        return first_wake(entry.schedule, state)

    def next_run(self, entry: Entry, ended_at: Instant) -> datetime | None:
        """Return when a schedule whose job has just ended is due next, by the clock alone."""
        state = self._states.get(entry.id)
        if entry.schedule is None or state is None:
            return None
        cursor = state.cursor if entry.written.type == "interval" else max(state.cursor, ended_at)
        wake = first_wake(entry.schedule, state._replace(ended_at=ended_at, cursor=cursor))
        return None if wake is None else self.told(wake)

    def _reason_since(self, entry: Entry, record: ScheduleState, reason: Skip | None) -> datetime | None:
        since: Instant | None
        match reason:
            case None:
                return None
            case Skip.ALREADY_RUNNING:
                since = min(job.started_at for key, job in self.jobs.items() if key[0] == entry.id)
            case Skip.AT_CAPACITY:
                since = self._full_since.get(entry.agent.name)
            case Skip.NOT_DUE:
                return record.last_run_at
            case _:
                since = self._since[entry.id][1] if entry.id in self._since else None
        return None if since is None else self.told(since)

    def told(self, instant: Instant) -> datetime:
        """Return an instant as people of this zone read it."""
        return from_epoch_ms(instant).astimezone(self._zone)


def _followed(state: State, run: Run) -> State:
    last = run.run_until or run.run_at
    cursor = max(state.cursor, last) if run.kind == "schedule" else state.cursor
    if not run.attempt or run.ended_at is None:
        return state._replace(cursor=cursor)
    # One that was interrupted counts from its start.
    ended = run.started_at if run.reason is Reason.INTERRUPTED else run.ended_at
    return state._replace(cursor=cursor, ended_at=ended)
