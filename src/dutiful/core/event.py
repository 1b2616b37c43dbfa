"""The events of the engine: one frozen class per kind of event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dutiful.core.cadence import next_tick
from dutiful.core.policy import Overlap
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Move

# Cached: enum attribute access is slow, and nearly all runs are LAUNCHED.
_LAUNCHED = Phase.LAUNCHED


# RunLaunched and RunSettled happen for every run, so they are tuples, which are faster to create. They differ
# in length, so that the two kinds never compare equal.
class RunLaunched(NamedTuple):
    """A run was recorded and handed to the launcher.

    `late` is by how many ms the run could have started earlier: since its fire time, the end of the previous
    run, and the beginning of leadership. `before` is the phase of the run before the launch, None for a new
    run.
    """

    at: Instant
    run: Run
    late: int
    before: Phase | None = None


class RunSettled(NamedTuple):
    """An attempt ended or was accepted; `run` is the new row, and `error` the task's exception, if any."""

    at: Instant
    run: Run
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class TicksSkipped:
    """One tick, or a stretch of them, was skipped; the run carries the reason."""

    at: Instant
    run: Run


@dataclass(frozen=True, slots=True)
class RunHeld:
    """A run was recorded for later: spread, queued, or to be retried."""

    at: Instant
    run: Run


@dataclass(frozen=True, slots=True)
class RunEndedByPlan:
    """The planner ended a run: lost, interrupted, pre-empted or replaced."""

    at: Instant
    run: Run


@dataclass(frozen=True, slots=True)
class RunOutlasted:
    """A run is still in flight when the next tick of its schedule is due; that tick waits for its end."""

    at: Instant
    run: Run
    tick: Instant


@dataclass(frozen=True, slots=True)
class ScheduleQuarantined:
    """A schedule cannot be computed and is left alone until it is edited."""

    at: Instant
    schedule_id: str
    error: str


@dataclass(frozen=True, slots=True)
class ScheduleDamaged:
    """The stored rows of a schedule cannot be read; it does not run until it is stored again."""

    at: Instant
    schedule_id: str
    problem: str


@dataclass(frozen=True, slots=True)
class ExpectationMissed:
    """A schedule did not start, end or succeed in the time that its policy expects, counted from `since`."""

    at: Instant
    schedule_id: str
    expectation: str
    since: Instant


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The wall clock moved by `by` ms more than time passed."""

    at: Instant
    by: int


@dataclass(frozen=True, slots=True)
class ClockOff:
    """The host's clock is ahead of the database's by `by` ms, or behind it if negative."""

    at: Instant
    by: int


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    """This instance began to lead under `epoch`, or (None) stands by; in a cluster, for one `shard`."""

    at: Instant
    epoch: int | None
    shard: int | None = None


@dataclass(frozen=True, slots=True)
class PassFailed:
    """A pass failed; nothing it decided was launched, and the next pass tries again."""

    at: Instant
    error: str


@dataclass(frozen=True, slots=True)
class EngineStopped:
    """The engine ended without being asked to; nothing fires until it is stopped and started again."""

    at: Instant
    error: str


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """A task has kept the event loop from turning for `seconds`."""

    at: Instant
    task: str
    seconds: float


Event: TypeAlias = (
    RunLaunched
    | RunSettled
    | TicksSkipped
    | RunHeld
    | RunEndedByPlan
    | RunOutlasted
    | ScheduleQuarantined
    | ScheduleDamaged
    | ExpectationMissed
    | ClockStepped
    | ClockOff
    | LeadershipChanged
    | PassFailed
    | EngineStopped
    | LoopBlocked
)


def of_moves(moves: Sequence[Move], now: Instant) -> Iterator[Event]:
    """Yield the events of the recorded moves of a pass, except the launches."""
    for move in moves:
        for run in chain(move.inserts, move.changes):
            if run.phase is _LAUNCHED:
                continue
            if run.status is Status.SKIPPED:
                yield TicksSkipped(now, run)
            else:
                yield RunEndedByPlan(now, run) if run.phase is Phase.ENDED else RunHeld(now, run)
        if move.blocked and not move.due.blocked:
            yield from _overrun(move, now)
        if move.state.quarantine is not None and move.due.state.quarantine is None:
            yield ScheduleQuarantined(now, move.due.schedule.id, move.state.quarantine)


def _overrun(move: Move, now: Instant) -> Iterator[Event]:
    """Yield RunOutlasted where a run is in flight at the next tick; once, as the schedule is then blocked."""
    schedule = move.due.schedule
    if schedule.policy.overlap is not Overlap.BUFFER_ONE:
        return
    tick = next_tick(schedule.cadence, move.state.cursor, move.state.ended_at)
    run = next((run for run in move.due.runs if run.phase in IN_FLIGHT), None)
    if run is not None and tick is not None and tick <= now:
        yield RunOutlasted(now, run, tick)
