"""Agents and their schedules as the engine knows them: a core schedule each, an agent as a capacity group."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import Every, OnDemand
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.plan.draft import Draft
from dutiful.core.plan.edit import upserted
from dutiful.core.plan.opening import first_wake
from dutiful.core.plan.reconcile import Changes, Put
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Reason
from dutiful.core.run import Run
from dutiful.core.schedule import Schedule, Task
from dutiful.core.snapshot import Limits
from dutiful.fleet.cron import parse_cron_expression
from dutiful.fleet.file.agents import problems_of_schedule
from dutiful.fleet.interval import parse_interval
from dutiful.fleet.types import Problem, ScheduleState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import tzinfo

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.schedule import State
    from dutiful.core.snapshot import Due
    from dutiful.fleet.state.file import States
    from dutiful.fleet.types import Agent, AgentSchedule

# A pass may come late; an occurrence that it finds within this time was not missed.
_GRACE = 60_000


class Entry(NamedTuple):
    """One schedule of one agent: as it was written, as its state is, and as the engine knows it."""

    agent: Agent
    name: str
    written: AgentSchedule
    state: ScheduleState
    schedule: Schedule | None
    # Why there is no schedule for the engine.
    problem: Problem | None = None

    @property
    def id(self) -> str:
        """The id under which the engine knows it, and people are told of it."""
        return f"{self.agent.name}/{self.name}"

    @property
    def disabled(self) -> bool:
        """Whether a person, or the file, has taken it out of service."""
        return self.state.status == "disabled" or not self.written.enabled


def entries_of(agents: Iterable[Agent], states: States, zone: tzinfo, pace: int) -> Iterator[Entry]:
    """Yield every schedule; one that cannot be read, or whose record cannot, says why and has no schedule."""
    for agent in agents:
        for name, written in agent.schedules.items():
            yield _entry(agent, name, written, states.of(agent.name, name), zone, pace)


def _entry(
    agent: Agent, name: str, written: AgentSchedule, found: ScheduleState | Problem, zone: tzinfo, pace: int
) -> Entry:
    if isinstance(found, Problem):
        return Entry(agent, name, written, ScheduleState(), None, found)
    entry = Entry(agent, name, written, found, None, next(problems_of_schedule(written), None))
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
        capacity=Capacity(agent.name, agent.max_concurrent),
        on_orphan=OnOrphan.WAIT,
        run_timeout=None,
    )
    return Schedule(entry.id, Task(agent.name, entry.name), cadence, policy, paused=entry.disabled)


def _cadence(written: AgentSchedule, zone: tzinfo) -> Cadence:
    if written.type == "interval":
        return Every(int(parse_interval(written.interval or "").total_seconds() * 1000))
    if written.type == "cron":
        return parse_cron_expression(written.expression or "", zone)
    return OnDemand()


def changes_to(
    stored: Mapping[str, Due], entries: Iterable[Entry], before: Mapping[str, Entry], now: Instant
) -> Changes:
    """Return what makes the store hold these schedules; `before` are the entries of the last time.

    An entry without one before is of a fleet that has just started, or new to it: cron occurrences that
    passed meanwhile are written down as missed. One that cannot be read keeps what is stored of it.
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
    return Changes(puts, [id_ for id_ in stored if id_ not in seen], rows)


def _changed(
    known: Due | None, entry: Entry, schedule: Schedule, before: Entry | None, now: Instant
) -> Changes:
    if known is None:
        [put] = upserted(None, schedule, now).puts
        state = _as_told(put.state, schedule, entry, now)
        return Changes([put._replace(state=state, wake_at=first_wake(schedule, state))])
    rows = list[Run]()
    due = known
    if before is None:
        due, rows = _without_missed(due, now)
    if before is None or before.state.last_run_at != entry.state.last_run_at:
        due = due._replace(state=_as_told(due.state, due.schedule, entry, now))
    if due.schedule != schedule or due.state.quarantine is not None:
        edited = upserted(due, schedule, now)
        return Changes(edited.puts, rows=[*rows, *edited.rows])
    if due.state == known.state:
        return Changes()
    wake_at = now if due.runs else first_wake(schedule, due.state)
    return Changes([Put(schedule, due.state, wake_at, due.version)], rows=rows)


def _held_back(known: Due | None, entry: Entry) -> Changes:
    """Return the changes that keep the engine's hands off a schedule that can no longer be read."""
    if known is None or entry.problem is None or known.state.quarantine is not None:
        return Changes()
    state = known.state._replace(quarantine=entry.problem.message)
    return Changes([Put(known.schedule, state, None, known.version)])


def _as_told(state: State, schedule: Schedule, entry: Entry, now: Instant) -> State:
    """Return the state with the last run that the file tells of: the file is the truth, also when edited."""
    last_run_at = entry.state.last_run_at
    ended_at = None if last_run_at is None else min(epoch_ms(last_run_at), now)
    if not isinstance(schedule.cadence, Every):
        return state._replace(ended_at=ended_at)
    since = now - schedule.cadence.period if ended_at is None else ended_at
    return state._replace(ended_at=ended_at, cursor=min(state.cursor, since))


def _without_missed(due: Due, now: Instant) -> tuple[Due, list[Run]]:
    """Return the schedule with what passed while nobody was there written down, and none of it owed."""
    draft = Draft(due, now, Limits(), {})
    last = None if draft.from_completion or due.state.quarantine is not None else draft.last_due(now)
    if last is None:
        return due, []
    draft.skip_through(last, Reason.PAUSED if due.schedule.paused else Reason.MISSED)
    move = draft.move()
    return due._replace(state=move.state), [*move.inserts, *move.changes]
