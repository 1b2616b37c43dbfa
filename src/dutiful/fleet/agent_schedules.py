"""The agents of a fleet as core schedules, with one capacity group per agent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, OnDemand
from dutiful.core.changes import Changes, Put
from dutiful.core.cron.zone import epoch_ms, from_epoch_ms
from dutiful.core.errors import OvertakenError
from dutiful.core.plan.clock_rollback import past_recorded
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.edit import upserted
from dutiful.core.plan.jitter import first_wake
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Reason, Retry
from dutiful.core.run import Phase, Run, Status
from dutiful.core.schedule import Schedule, Task
from dutiful.core.snapshot import Limits, Snapshot
from dutiful.fleet.errors import AgentNotFoundError, ScheduleNotFoundError
from dutiful.fleet.file.agents import problems_of_schedule
from dutiful.fleet.next_trigger import parse_cron_expression, parse_interval, when_it_runs
from dutiful.fleet.state.cache import StateCache
from dutiful.fleet.state.file import checked_state, write_states
from dutiful.fleet.types import AgentScheduleInfo, Problem, ScheduleState
from dutiful.fleet.view import Entry, View, shown
from dutiful.runtime.ledger_lookup import recalled
from dutiful.runtime.ports import Retention
from dutiful.runtime.registrar import Registrar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.schedule import State
    from dutiful.fleet.state.file import States
    from dutiful.fleet.types import Agent, AgentSchedule, SchedulerLogger
    from dutiful.runtime.ports import Clock, Store

INTERRUPTED = "interrupted: the process ended while the job was running"
# A pass may come late; an occurrence that is at most this old (ms) is not missed.
_GRACE = 60_000
_WAITING = (Phase.QUEUED, Phase.DELAYED)
# Newest rows of a schedule among which empty polls are merged.
_ROWS_LOOKED_AT = 10


def entries_of(agents: Iterable[Agent], states: States, zone: tzinfo, pace: int) -> Iterator[Entry]:
    """Yield the entry of every schedule; an unreadable one has a `problem` instead of a schedule."""
    for each in schedules_of(agents):
        yield entry_of(each, states, zone, pace)


def schedules_of(agents: Iterable[Agent]) -> Iterator[AgentScheduleInfo]:
    """Yield every schedule of every agent."""
    for agent in agents:
        for name, written in agent.schedules.items():
            yield AgentScheduleInfo(agent, name, written)


def entry_of(declared: AgentScheduleInfo, states: States, zone: tzinfo, pace: int) -> Entry:
    """Return the entry of one schedule."""
    agent, name, written = declared
    found = states.of(agent.name, name)
    if isinstance(found, Problem):
        return Entry(agent, name, written, ScheduleState(), None, found, when_it_runs(written, zone))
    problem = next(problems_of_schedule(written), None)
    entry = Entry(agent, name, written, found, None, problem, when_it_runs(written, zone))
    return entry if entry.problem else entry._replace(schedule=_schedule(entry, zone, pace))


def _schedule(entry: Entry, zone: tzinfo, pace: int) -> Schedule:
    written, agent = entry.written, entry.agent
    cadence = _cadence(written, zone)
    jitter = int(cadence.period * written.jitter_percent / 100) if isinstance(cadence, Every) else 0
    policy = Policy(
        overlap=Overlap.SKIP,
        catch_up=CatchUp.NONE,
        grace=max(_GRACE, 2 * pace),
        jitter=jitter,
        jitter_early=False,
        retry=_retry(written),
        capacity=Capacity(agent.name, agent.max_concurrent),
        on_orphan=OnOrphan.WAIT,
        run_timeout=None,
    )
    return Schedule(entry.id, Task(agent.name, entry.name), cadence, policy, paused=entry.disabled)


def _cadence(written: AgentSchedule, zone: tzinfo) -> Cadence:
    if written.type == "interval":
        return Every(_milliseconds(written.interval or ""))
    if written.type == "cron":
        return parse_cron_expression(written.expression or "", written.timezone or zone)
    return OnDemand()


def _retry(written: AgentSchedule) -> Retry | None:
    if not written.retries:
        return None
    return Retry(_milliseconds(written.retry_delay), written.retries, written.retry_backoff)


def _milliseconds(interval: str) -> int:
    return int(parse_interval(interval).total_seconds() * 1000)


def changes_to(
    stored: Mapping[str, Snapshot],
    entries: Iterable[Entry],
    before: Mapping[str, Entry],
    now: Instant,
    keep: int = Retention().age,
) -> Changes:
    """Return the changes that make the store hold these schedules; `before` are the previous entries.

    An entry that is not in `before` is new, or the fleet has just started: cron occurrences that passed
    meanwhile are recorded as missed. A schedule that cannot be read keeps its stored declaration. A schedule
    that the fleet no longer has is retired: its history and its running job stay for `keep` ms, in case it
    comes back.
    """
    puts, rows, seen = list[Put](), list[Run](), set[str]()
    for entry in entries:
        seen.add(entry.id)
        known = stored.get(entry.id)
        if entry.schedule is not None:
            changes = _changed(known, entry, entry.schedule, before.get(entry.id), now)
        else:
            changes = _held_back(known, entry)
        puts += changes.puts
        rows += changes.rows
    removes = list[str]()
    for id_, due in stored.items():
        if id_ not in seen and not _is_retired(due):
            changes = _retired(due, now)
            puts += changes.puts
            rows += changes.rows
        elif id_ not in seen and not due.runs and _last_used(due) < now - keep:
            removes.append(id_)
    return Changes(puts, removes, rows)


def _retired(due: Snapshot, now: Instant) -> Changes:
    """Return the changes that retire a schedule; its occurrences that wait for a place are skipped."""
    changes = upserted(due, due.schedule._replace(cadence=OnDemand(), paused=True), now)
    rows = {(row.run_at, row.kind): row for row in changes.rows}
    for run in [*due.runs, *changes.rows]:
        if run.phase in _WAITING and run.attempt == 0 and run.kind == "schedule":
            rows[run.run_at, run.kind] = run.ended(Status.SKIPPED, Reason.PAUSED, now)
    return changes._replace(rows=[*rows.values()])


def _is_retired(due: Snapshot) -> bool:
    """Return whether this schedule can only be triggered by hand; a disabled webhook looks the same."""
    return due.schedule.paused and isinstance(due.schedule.cadence, OnDemand)


def _last_used(due: Snapshot) -> Instant:
    return max(due.state.cursor, due.state.attempted_at or 0)


def _changed(
    known: Snapshot | None, entry: Entry, schedule: Schedule, before: Entry | None, now: Instant
) -> Changes:
    if known is None or (_is_retired(known) and known.schedule != schedule):
        [put] = upserted(known, schedule, now).puts
        state = _as_recorded(put.state, schedule, entry, now)
        wake_at = now if known is not None and known.runs else first_wake(schedule, state)
        return Changes([put._replace(state=state, wake_at=wake_at)])
    rows = list[Run]()
    due = known
    if before is None:
        due, rows = _without_missed(due, now)
    if before is None or before.state.last_run_at != entry.state.last_run_at:
        due = due._replace(state=_as_recorded(due.state, due.schedule, entry, now))
    if due.schedule != schedule or due.state.quarantine is not None:
        edited = upserted(due, schedule, now)
        return Changes(edited.puts, rows=[*rows, *edited.rows])
    if due.state == known.state:
        return Changes()
    wake_at = now if due.runs else first_wake(schedule, due.state)
    return Changes([Put(schedule, due.state, wake_at, due.version)], rows=rows)


def _held_back(known: Snapshot | None, entry: Entry) -> Changes:
    """Return the changes that quarantine a schedule that can no longer be read."""
    if known is None or entry.problem is None or known.state.quarantine is not None:
        return Changes()
    state = known.state._replace(quarantine=entry.problem.message)
    return Changes([Put(known.schedule, state, None, known.version)])


def _as_recorded(state: State, schedule: Schedule, entry: Entry, now: Instant) -> State:
    """Return the state with the last run of the state file, which users may have edited."""
    last_run_at = entry.state.last_run_at
    ended_at = None if last_run_at is None else min(epoch_ms(last_run_at), now)
    if not isinstance(schedule.cadence, Every):
        return state._replace(ended_at=ended_at)
    since = now - schedule.cadence.period if ended_at is None else ended_at
    return state._replace(ended_at=ended_at, cursor=min(state.cursor, since))


def _without_missed(due: Snapshot, now: Instant) -> tuple[Snapshot, list[Run]]:
    """Return the schedule without the ticks that passed while the fleet was down, and their ledger rows."""
    draft = Draft(due, now, Limits(), {})
    last = None if draft.from_completion or due.state.quarantine is not None else draft.last_due(now)
    if last is None:
        return due, []
    draft.skip_through(last, Reason.PAUSED if due.schedule.paused else Reason.MISSED)
    move = draft.move()
    return due._replace(state=move.state), [*move.inserts, *move.changes]


class AgentSchedules:
    """The agents of a running fleet, synchronized with the state file, the store and the view."""

    def __init__(
        self,
        state_dir: Path,
        store: Store,
        clock: Clock,
        logger: SchedulerLogger,
        pace: int,
        retention: Retention,
    ) -> None:
        self._state_dir, self._store, self._clock, self._logger = state_dir, store, clock, logger
        self._pace, self._retention = pace, retention
        # The fleet makes its passes itself, so no wake is needed.
        self.registrar = Registrar(store, clock, lambda: None)
        self.agents: Sequence[Agent] = ()
        self._agents_changed = True
        self._warned: dict[str, str] = {}
        self.reset()

    def reset(self) -> None:
        """Start with an empty view and state cache."""
        self.view = View(self._clock.timezone)
        self.cache = StateCache(self._state_dir, self._clock, self._logger, self._rebuilt)
        self._turn = asyncio.Lock()

    def set_agents(self, agents: Sequence[Agent]) -> None:
        """Replace the agents; the next `refresh` takes them over."""
        self.agents, self._agents_changed = agents, True

    async def open(self) -> None:
        """Take over the state file and the store; jobs of an earlier process count as interrupted."""
        await self.cache.read()
        for (agent, schedule), state in self.cache.states.records.items():
            if state.status == "running":
                self.cache.note(agent, schedule, {"status": "idle", "last_error": INTERRUPTED})
        await self.cache.flush()
        await self._refresh({})

    async def refresh(self) -> None:
        """Take over changed agents and a changed state file. Raises StateFileError."""
        async with self._turn:
            await self.cache.flush()
            if self._agents_changed or self.cache.has_changed():
                entries = self.view.entries
                before = {id_: entry._replace(state=self.record(entry)) for id_, entry in entries.items()}
                await self.cache.read()
                await self._refresh(before)
            if self.view.moved:
                await self._follow_moved()

    async def _follow_moved(self) -> None:
        """Update the next runs of schedules whose stored state was moved when the clock was set back."""
        moved, self.view.moved = self.view.moved, set()
        for due in await self._store.some(moved):
            known = await recalled(self._store, due, due.state.decided_until)
            self.view.follow(due.schedule.id, past_recorded(known))
            entry = self.view.entries.get(due.schedule.id)
            if entry is not None and not (entry.disabled or due.runs):
                next_run_at = {"next_run_at": self.view.next_idle_run(entry)}
                self.cache.note(entry.agent.name, entry.name, next_run_at)
        await self.cache.flush()

    async def _refresh(self, before: Mapping[str, Entry]) -> None:
        self._agents_changed = False
        now = self._now()
        entries = list(entries_of(self.agents, self.cache.states, self._clock.timezone, self._pace))
        known = [await recalled(self._store, due, now) for due in await self._store.every()]
        stored = {due.schedule.id: due for due in known}
        changes = changes_to(stored, entries, before, now, self._retention.age)
        if changes != Changes([], [], []):
            await self.registrar.apply(changes)
        for put in changes.puts:
            due = stored.get(put.schedule.id, Snapshot(put.schedule, put.state))
            stored[put.schedule.id] = due._replace(state=put.state)
        self.view.replace(entries, stored.values(), now)
        for entry in entries:
            self._warn(entry.id, None if entry.problem is None else shown(entry.problem))

    def _warn(self, subject: str, problem: str | None) -> None:
        """Warn once about each problem, and again after it has changed."""
        if problem is None:
            self._warned.pop(subject, None)
        elif self._warned.get(subject) != problem:
            self._logger.warning("%s: %s", subject, problem)
            self._warned[subject] = problem

    def entry(self, agent: str, schedule: str) -> Entry:
        """Return one entry, also of an agent that no pass has seen yet.

        Raises AgentNotFoundError, ScheduleNotFoundError.
        """
        found = self.view.entries.get(f"{agent}/{schedule}")
        if found is not None:
            return found
        own = self.agent(agent)
        if schedule not in own.schedules:
            raise ScheduleNotFoundError(agent, schedule, own.schedules)
        declared = AgentScheduleInfo(own, schedule, own.schedules[schedule])
        return entry_of(declared, self.cache.states, self._clock.timezone, self._pace)

    def agent(self, name: str) -> Agent:
        """Return one agent. Raises AgentNotFoundError."""
        named = {known.name: known for known in self.agents}
        if name not in named:
            raise AgentNotFoundError(name, named)
        return named[name]

    @property
    def revision(self) -> tuple[int, int]:
        """Return a value that is different after every change of a schedule, its runs or its record."""
        return self.view.changes, self.cache.changes

    def record(self, entry: Entry) -> ScheduleState:
        """Return the latest record of a schedule in the state file."""
        found = self.cache.states.of(entry.agent.name, entry.name)
        return entry.state if isinstance(found, Problem) else found

    def switch(self, agent: str, schedules: Iterable[str], *, enabled: bool) -> list[Entry]:
        """Enable or disable schedules of an agent in one write; return them."""
        entries = [self.entry(agent, name) for name in schedules]
        statuses = [_switched(self.view.is_running(entry.id), enabled) for entry in entries]
        keys = [(agent, entry.name) for entry in entries]
        states = write_states(
            self._state_dir, {key: {"status": status} for key, status in zip(keys, statuses, strict=True)}
        )
        switched = []
        for entry in entries:
            changed = entry._replace(state=checked_state(self._state_dir, states, agent, entry.name))
            self.view.switch(changed)
            if enabled and entry.disabled:
                self.view.resume(entry, self._now())
            switched.append(changed)
        return switched

    async def merge_empty_polls(self) -> None:
        """Merge the ledger rows of consecutive polls without work into one, to keep the ledger short."""
        polled, self.view.empty_polls = self.view.empty_polls, set()
        for due in await self._store.some(polled):
            polls = _last_polls(await self._store.ledger(due.schedule.id, None, _ROWS_LOOKED_AT))
            if len(polls) < 2:
                continue
            latest, earliest = polls[0], polls[-1]
            grown = earliest._replace(
                run_until=latest.run_until or latest.run_at, ticks=sum(poll.ticks for poll in polls),
                attempt=latest.attempt, ended_at=latest.ended_at, detail=latest.detail,
                updated_at=latest.updated_at,
            )  # fmt: skip
            wake_at = self._now() if due.runs else first_wake(due.schedule, due.state)
            put = Put(due.schedule, due.state, wake_at, due.version)
            # If a pass came first and moved the schedule, its next empty poll merges all these rows.
            with suppress(OvertakenError):
                await self.registrar.apply(Changes([put], rows=[grown], drops=polls[:-1]))
                self.view.changes += 1

    async def _rebuilt(self) -> dict[tuple[str, str], dict[str, object]]:
        """Return the records of all schedules from the history, for a state file that was lost."""
        records: dict[tuple[str, str], dict[str, object]] = {}
        for due in await self._store.every():
            state, (agent, _, name) = due.state, due.schedule.id.partition("/")
            failed = (state.failed_at or 0) > (state.succeeded_at or 0)
            rows = await self._store.ledger(due.schedule.id, None, 1) if failed else []
            ended_at = None if state.ended_at is None else from_epoch_ms(state.ended_at)
            error = (rows[0].detail or str(rows[0].reason)) if rows and rows[0].reason else None
            status = "disabled" if due.schedule.paused and not _is_retired(due) else "idle"
            records[agent, name] = {"status": status, "last_run_at": ended_at, "last_error": error}
        return records

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


def _last_polls(rows: Iterable[Run]) -> list[Run]:
    """Return the consecutive polls without work that ended last, newest first.

    A manual run is not among them: its caller may be waiting for its row.
    """
    ended = dropwhile(lambda run: run.phase is not Phase.ENDED, rows)
    return [*takewhile(lambda run: run.reason is Reason.NO_WORK and run.kind == "schedule", ended)]


def _switched(running: bool, enabled: bool) -> str:
    return "disabled" if not enabled else "running" if running else "idle"
