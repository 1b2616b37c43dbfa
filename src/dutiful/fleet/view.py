"""The present state of a fleet, kept up to date by the engine's events, so that queries need no store.

`check` is the sequence of conditions for triggering a schedule; the engine decides by the same facts.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.zone import epoch_ms, from_epoch_ms
from dutiful.core.event import (
    ClockStepped,
    LeadershipChanged,
    RunEndedByPlan,
    RunHeld,
    RunLaunched,
    RunSettled,
    TicksSkipped,
)
from dutiful.core.plan.jitter import first_wake
from dutiful.core.policy import Reason
from dutiful.core.run import Phase, Status
from dutiful.fleet.types import ScheduleCheckResult, ScheduleInfo
from dutiful.fleet.types import ScheduleSkipReason as Skip

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.run import Run
    from dutiful.core.schedule import Schedule, State
    from dutiful.core.snapshot import Snapshot
    from dutiful.fleet.types import Agent, AgentSchedule, Problem, ScheduleState, ScheduleStatus

_AUTOMATIC = ("interval", "cron")
_GO = ScheduleCheckResult(should_trigger=True)
_ENDINGS = {Status.SUCCESS: "done", Status.FAILED: "failed", Status.SKIPPED: "no_work"}
_LOG_AGAIN = timedelta(minutes=1)
# A later instant may lie outside datetime's years in some zone. The next run of a schedule with such an
# interval is not shown.
_SHOWN_MAX = epoch_ms(datetime(9999, 12, 30, tzinfo=UTC))


def shown(problem: Problem) -> str:
    """Return a problem of a schedule in one line, with its path."""
    place = ".".join(map(str, problem.path))
    return f"{place}: {problem.message}" if place else problem.message


class Entry(NamedTuple):
    """One schedule of one agent: as declared, as recorded in the state file, and as the core schedule."""

    agent: Agent
    name: str
    written: AgentSchedule
    state: ScheduleState
    schedule: Schedule | None
    # Why the engine has no schedule for this entry.
    problem: Problem | None = None
    # When it runs, in words.
    when: str = ""

    @property
    def id(self) -> str:
        """The id of the core schedule, also used in messages."""
        return f"{self.agent.name}/{self.name}"

    @property
    def disabled(self) -> bool:
        """Whether a user, or the fleet file, has disabled the schedule."""
        return self.state.status == "disabled" or not self.written.enabled


class Job(NamedTuple):
    """A running job: which run of which schedule, and since when."""

    entry: Entry
    run_at: Instant
    kind: str
    started_at: Instant
    prompt: str


class Stall(NamedTuple):
    """Failing passes: since when, the problem, and when the problem was last logged."""

    since: datetime
    problem: str
    logged_at: datetime


class View:
    """The entries, the engine's states of them, and the running jobs."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.entries: dict[str, Entry] = {}
        self.jobs: dict[tuple[str, Instant, str], Job] = {}
        # The numbers of jobs by agent and by schedule, because every check needs both.
        self._of_agent: Counter[str] = Counter()
        self._of_schedule: Counter[str] = Counter()
        # Recorded manual runs that begin with the next pass -> the agent whose slot each run takes.
        self._reserved: dict[tuple[str, Instant], str] = {}
        # The latest manual run of each schedule that has begun.
        self._begun: dict[str, Instant] = {}
        # Runs that ended since the start, by agent and by "done", "failed" or "no_work".
        self.counts: Counter[tuple[str, str]] = Counter()
        # Schedules whose latest run found no work; their ledger rows will be merged.
        self.empty_polls: set[str] = set()
        self.stall: Stall | None = None
        # Counts the changes of facts that are shown to people.
        self.changes = 0
        self._states: dict[str, State] = {}
        # Schedules whose stored state must be read again: a clock that was set back has moved it.
        self.moved: set[str] = set()
        # When a failed run of a schedule is retried.
        self._retry_at: dict[str, Instant] = {}
        # Since when a schedule has its present skip reason, and since when an agent has no free slot.
        self._since: dict[str, tuple[Skip, Instant]] = {}
        self._full_since: dict[str, Instant] = {}

    def replace(self, entries: Iterable[Entry], stored: Iterable[Snapshot], now: Instant) -> None:
        """Take over a new set of schedules with their stored states and runs."""
        self.changes += 1
        self.entries = {entry.id: entry for entry in entries}
        known_to_engine = [due for due in stored if due.schedule.id in self.entries]
        self._states = {due.schedule.id: due.state for due in known_to_engine}
        self.moved = {id_ for id_, state in self._states.items() if _repeats(state)}
        self.moved |= {entry.id for entry in self.entries.values() if _ran_after(entry, now)}
        self._reserved = {
            (run.schedule_id, run.run_at): self.entries[run.schedule_id].agent.name
            for due in known_to_engine
            for run in due.runs
            if run.kind == "manual" and run.phase is Phase.DELAYED
        }
        self._retry_at = {
            run.schedule_id: run.fire_at
            for due in known_to_engine
            for run in due.runs
            if run.phase is Phase.RETRY
        }
        held = {entry.id: self._held(entry) for entry in self.entries.values()}
        known = self._since
        self._since = {
            id_: known[id_] if id_ in known and known[id_][0] is reason else (reason, now)
            for id_, reason in held.items()
            if reason is not None
        }

    def _held(self, entry: Entry) -> Skip | None:
        """Return why a schedule can never run as it stands, or None."""
        if entry.problem is not None:
            return Skip.QUARANTINED
        if entry.written.type not in _AUTOMATIC:
            return Skip.UNSUPPORTED_TYPE
        return Skip.DISABLED if entry.disabled else None

    def reserve(self, run: Run, agent: str) -> None:
        """Keep a slot of the agent for a manual run until the pass that begins it."""
        # A pass may begin the run before its caller learns that the run is recorded.
        if run.run_at > self._begun.get(run.schedule_id, 0):
            self._reserved[run.schedule_id, run.run_at] = agent
            self.changes += 1

    # Events

    def hear(self, event: Event) -> None:
        """Update the states and the counts from an event of the engine."""
        ended = _ended_run(event)
        if ended is not None:
            self._count(ended)
        if isinstance(event, RunLaunched | RunSettled | TicksSkipped | RunHeld | RunEndedByPlan):
            self.changes += 1
            run = event.run
            self._note_retry(run)
            state = self._states.get(run.schedule_id)
            if state is not None:
                self._states[run.schedule_id] = _followed(state, run)
                if _repeats(state):
                    self.moved.add(run.schedule_id)
        elif isinstance(event, ClockStepped | LeadershipChanged):
            self.moved |= {id_ for id_, state in self._states.items() if _is_ahead(state, event.at)}

    def follow(self, schedule_id: str, state: State) -> None:
        """Take over the state of a schedule from the store."""
        if schedule_id in self._states:
            self.changes += 1
            self._states[schedule_id] = state

    def _note_retry(self, run: Run) -> None:
        if run.phase is Phase.RETRY:
            self._retry_at[run.schedule_id] = run.fire_at
        elif run.status is not Status.SKIPPED:
            # Any run that is launched is the retry, or takes its place.
            self._retry_at.pop(run.schedule_id, None)

    def _count(self, run: Run) -> None:
        entry = self.entries.get(run.schedule_id)
        if entry is not None:
            self.counts[entry.agent.name, _ENDINGS[run.status]] += 1
        if run.reason is Reason.NO_WORK:
            self.empty_polls.add(run.schedule_id)

    def note_pass(self, now: datetime, problem: str | None) -> str | None:
        """Record whether a pass failed; return the text to log, at most once a minute per problem."""
        if problem is None:
            recovered = self.stall is not None
            self.stall = None
            self.changes += recovered
            return "passes succeed again" if recovered else None
        stall = self.stall
        if stall is not None and stall.problem == problem and now - stall.logged_at < _LOG_AGAIN:
            return None
        since = now if stall is None else stall.since
        self.stall = Stall(since, problem, now)
        self.changes += 1
        return f"no schedule is triggered, because passes fail since {since:%Y-%m-%d %H:%M:%S%z}: {problem}"

    def switch(self, entry: Entry) -> None:
        """Take over a schedule that was enabled or disabled."""
        self.changes += 1
        self.entries[entry.id] = entry

    def resume(self, entry: Entry, now: Instant) -> None:
        """Resume a schedule; occurrences that passed meanwhile are not owed."""
        state = self._states.get(entry.id)
        if state is not None and entry.written.type == "cron":
            self._states[entry.id] = state._replace(cursor=max(state.cursor, now))

    def begin(self, job: Job) -> None:
        """Record that a job has begun and takes a slot of its agent."""
        self.changes += 1
        agent = job.entry.agent
        self.jobs[job.entry.id, job.run_at, job.kind] = job
        self._of_agent[agent.name] += 1
        self._of_schedule[job.entry.id] += 1
        self._reserved.pop((job.entry.id, job.run_at), None)
        if job.kind == "manual":
            self._begun[job.entry.id] = job.run_at
        if self.taken(agent.name) >= agent.max_concurrent:
            self._full_since.setdefault(agent.name, job.started_at)

    def end(self, job: Job) -> None:
        """Record that a job has ended and frees its slot."""
        self.changes += 1
        del self.jobs[job.entry.id, job.run_at, job.kind]
        self._of_agent[job.entry.agent.name] -= 1
        self._of_schedule[job.entry.id] -= 1
        self._full_since.pop(job.entry.agent.name, None)

    # Questions

    def running(self, agent: str) -> int:
        """Return how many jobs of an agent are running."""
        return self._of_agent[agent]

    def taken(self, agent: str) -> int:
        """Return how many slots of an agent are taken, including runs that begin with the next pass."""
        return self.running(agent) + sum(owner == agent for owner in self._reserved.values())

    def is_running(self, id_: str) -> bool:
        """Return whether a job of a schedule is running."""
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
        """Return a schedule for display; `record` is its record in the state file."""
        running = self.is_running(entry.id)
        status: ScheduleStatus = "disabled" if entry.disabled else "running" if running else "idle"
        wake = None if status != "idle" or entry.problem is not None else self._next(entry)
        reason = self.check(entry, now).skip_reason
        return ScheduleInfo(
            entry.agent.name, entry.name, entry.written.type, status, record.last_run_at,
            None if wake is None else self.told(max(wake, now)), record.last_error, reason,
            self._reason_since(entry, record, reason), self._problem(entry), entry.when,
        )  # fmt: skip

    def _problem(self, entry: Entry) -> str | None:
        """Return why a schedule is quarantined, by its declaration, its record or the engine."""
        if entry.problem is not None:
            return shown(entry.problem)
        state = self._states.get(entry.id)
        return None if state is None else state.quarantine

    def _next(self, entry: Entry) -> Instant | None:
        state = self._states.get(entry.id)
        if entry.schedule is None or state is None or state.quarantine is not None:
            return None
        wake, retry_at = _shown(first_wake(entry.schedule, state)), self._retry_at.get(entry.id)
        return min((at for at in (wake, retry_at) if at is not None), default=None)

    def next_idle_run(self, entry: Entry) -> datetime | None:
        """Return when a schedule without a running job is due next by the clock."""
        wake = self._next(entry)
        return None if wake is None else self.told(wake)

    def next_run(self, entry: Entry, ended_at: Instant) -> datetime | None:
        """Return when a schedule whose job has just ended is due next by the clock."""
        state = self._states.get(entry.id)
        if entry.schedule is None or state is None:
            return None
        cursor = state.cursor if entry.written.type == "interval" else max(state.cursor, ended_at)
        wake = _shown(first_wake(entry.schedule, state._replace(ended_at=ended_at, cursor=cursor)))
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
        """Return an instant in the zone of the fleet."""
        return from_epoch_ms(instant).astimezone(self._zone)


def _shown(wake: Instant | None) -> Instant | None:
    """Return an instant that a datetime can hold, or None."""
    return None if wake is None or wake > _SHOWN_MAX else wake


def _is_ahead(state: State, now: Instant) -> bool:
    return max(state.cursor, state.ended_at or 0) > now


def _ran_after(entry: Entry, now: Instant) -> bool:
    """Return whether the state file has a run later than now, because the clock was set back."""
    return entry.state.last_run_at is not None and epoch_ms(entry.state.last_run_at) > now


def _repeats(state: State) -> bool:
    """Return whether ticks come again, because the clock was set back."""
    return state.decided_until > state.cursor


def _ended_run(event: Event) -> Run | None:
    """Return the run that an event ends: by the result of its job, or as failed because no retry follows."""
    if isinstance(event, RunSettled):
        return event.run if event.run.phase is Phase.ENDED else None
    return event.run if isinstance(event, RunEndedByPlan) and event.run.status is Status.FAILED else None


def _followed(state: State, run: Run) -> State:
    last = run.run_until or run.run_at
    cursor = max(state.cursor, last) if run.kind == "schedule" else state.cursor
    if not run.attempt or run.ended_at is None:
        return state._replace(cursor=cursor)
    # The next interval after an interrupted run counts from the start of that run.
    ended = run.started_at if run.reason is Reason.INTERRUPTED else run.ended_at
    return state._replace(cursor=cursor, ended_at=ended)
