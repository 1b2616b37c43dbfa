"""The runs in flight in this process, with their tasks and start times."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dutiful.core.plan.outcome import TimedOut
from dutiful.core.run import IN_FLIGHT, Phase
from dutiful.runtime.clock import STEP_MIN
from dutiful.runtime.ports import Launch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.plan.outcome import Outcome
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Move, Snapshot

Key: TypeAlias = "tuple[str, Instant, str]"
"""The unique key of a run: schedule, tick and kind."""


class Flight(NamedTuple):
    """The task that carries a run."""

    # None during the first step under an eager task factory: the task object does not exist yet.
    task: asyncio.Task[None] | None
    launch: Launch
    # Monotonic seconds.
    began: float

    def age(self, now: float) -> int:
        """Return for how many milliseconds the run has been in flight."""
        return round((now - self.began) * 1000)

    def left(self, now: float) -> float:
        """Return the milliseconds until the timeout of the run, below zero after it."""
        timeout = self.launch.schedule.policy.run_timeout
        return inf if timeout is None else timeout - self.age(now)

    def outlived(self, now: float) -> bool:
        """Return whether the run has been in flight for longer than its timeout."""
        return self.left(now) < -STEP_MIN


class Flights(dict[Key, Flight]):
    """All runs in flight in this process, by key."""

    def timed(self) -> set[str]:
        """Return the schedules whose runs have a timeout."""
        schedules = [flight.launch.schedule for flight in self.values()]
        return {schedule.id for schedule in schedules if schedule.policy.run_timeout is not None}

    def began(self, schedules: Iterable[Snapshot], wall: Instant, now: float) -> dict[Key, Instant]:
        """Return the start times of these schedules' runs in flight, on a clock that now shows `wall`."""
        keys = [key for due in schedules for key in map(key_of, due.runs) if key in self]
        return {key: wall - self[key].age(now) for key in keys}

    def runs(self) -> list[Run]:
        """Return all runs in flight."""
        return [flight.launch.run for flight in self.values()]

    def seconds_left(self, now: float) -> float:
        """Return how long it is until the next timeout."""
        return max(0, min((flight.left(now) for flight in self.values()), default=inf) / 1000)

    def time_out(self, now: float, wall: Instant) -> list[tuple[Launch, Outcome | TimedOut, Instant]]:
        """Cancel and forget the runs whose timeout has come; return them with their outcomes."""
        late = [flight.launch for flight in self.values() if flight.left(now) <= 0]
        self.cancel(launch.run for launch in late)
        return [(launch, TimedOut(), wall) for launch in late]

    def outlived(self, now: float) -> list[Run]:
        """Return the runs that have been in flight for longer than their timeout."""
        return [flight.launch.run for flight in self.values() if flight.outlived(now)]

    def cancel(self, runs: Iterable[Run]) -> None:
        """Cancel those of these runs that are in flight here, and forget them."""
        for run in runs:
            flight = self.pop(key_of(run), None)
            if flight is not None and flight.task is not None:
                flight.task.cancel()


class Drained(NamedTuple):
    """The runs left after a drain: runs still in flight, and ended runs that could not be recorded."""

    in_flight: Sequence[Run]
    unrecorded: Sequence[Run]
    # Why the ended runs could not be recorded.
    error: Exception | None


def key_of(run: Run) -> Key:
    """Return the key of a run."""
    return run.schedule_id, run.run_at, run.kind


def row_of(run: Run, due: Snapshot) -> Run | None:
    """Return the stored row of a run."""
    return next((found for found in due.runs if key_of(found) == key_of(run)), None)


def is_over(run: Run, found: Run | None) -> bool:
    """Return whether an attempt of a run has ended, given its row in the store."""
    return found is None or found.phase not in IN_FLIGHT or found.attempt != run.attempt


def recorded_launches(moves: Iterable[tuple[Move, Snapshot]]) -> list[Launch]:
    """Return the launches of these moves that the store has recorded, given each schedule as it is stored."""
    return [
        Launch(move.due.schedule, found, due.number)
        for move, due in moves
        for run in (*move.inserts, *move.changes)
        if run.phase is Phase.LAUNCHED
        and (found := row_of(run, due)) is not None
        and _standing(found) == _standing(run)
    ]


def _standing(run: Run) -> tuple[Phase, int, int]:
    """Return the fields by which a launched run and its stored row are recognised as the same attempt."""
    return run.phase, run.attempt, run.epoch


async def named(work: Coroutine[Any, Any, None], name: str) -> None:
    """Name the current task before its work begins.

    Event loops name a task when its factory has returned, and an eager factory has begun the task by then.
    Only tasks of a factory come here, because every run would pay for the lookup of the current task.
    """
    task = asyncio.current_task()
    if task is not None:
        task.set_name(name)
    await work


async def let_cancelled_runs_end() -> None:
    """Turn the event loop once if its task factory may start the next runs at once, before those end."""
    if asyncio.get_running_loop().get_task_factory() is not None:
        await asyncio.sleep(0)
