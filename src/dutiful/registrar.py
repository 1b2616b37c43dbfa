"""The registrar: the only writer of schedules. An edit owns the ticks after it, never one before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, next_tick
from dutiful.core.draft import Draft, Due, Limits, first_wake, opening_cursor
from dutiful.core.errors import UnknownScheduleError
from dutiful.core.jitter import fire_time
from dutiful.core.policy import Reason
from dutiful.core.reconcile import Changes, Difference, Put, reconcile
from dutiful.core.schedule import State
from dutiful.core.verdict import Verdict, explain
from dutiful.core.zone import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule
    from dutiful.ports import Clock, Store


class Registrar:
    """Declares, edits, pauses and removes schedules, and answers questions about them."""

    def __init__(self, store: Store, clock: Clock, wake: Callable[[], None]) -> None:
        self._store, self._clock, self._wake = store, clock, wake

    async def declare(
        self, schedules: Iterable[Schedule], arm: Callable[[Schedule], State]
    ) -> list[Difference]:
        """Make the store hold exactly these schedules, in one transaction; return what changed."""
        stored = {due.schedule.id: due for due in await self._store.every()}
        differences, changes = reconcile(schedules, stored, arm)
        await self._apply(changes)
        return differences

    async def upsert(self, schedule: Schedule) -> Instant | None:
        """Store a schedule, new or edited, and return when it fires next."""
        now = self._now()
        known = await self._store.get(schedule.id)
        put = arm(schedule, now) if known is None else None
        changes = Changes([put]) if put else _edit(_known(schedule.id, known), schedule, now)
        await self._apply(changes)
        return changes.puts[0].wake_at

    async def pause(self, schedule_id: str, paused: bool) -> None:
        """Pause or resume; the ticks that pass meanwhile are written down as paused."""
        due = _known(schedule_id, await self._store.get(schedule_id))
        if due.schedule.paused != paused:
            await self._apply(_edit(due, replace(due.schedule, paused=paused), self._now()))

    async def remove(self, schedule_id: str) -> None:
        """Delete a schedule and its history."""
        _known(schedule_id, await self._store.get(schedule_id))
        await self._apply(Changes(removes=[schedule_id]))

    async def preview(self, schedule_id: str, count: int) -> list[Instant]:
        """Return the next fire times, as far as they are known."""
        due = _known(schedule_id, await self._store.get(schedule_id))
        cursor = opening_cursor(due.schedule, max(due.state.cursor, self._base(due)))
        end, times = due.schedule.window.end, list[int]()
        while len(times) < count:
            tick = next_tick(due.schedule.cadence, cursor, due.state.ended_at)
            if tick is None or (end is not None and tick > end):
                break
            times.append(fire_time(due.schedule, tick))
            cursor = tick
        return times

    async def explain(self, schedule_id: str, at: datetime) -> Verdict:
        """Return why the tick at `at` ran, did not run, or will run."""
        due = _known(schedule_id, await self._store.get(schedule_id))
        rows = await self._store.ledger(schedule_id, epoch_ms(at) + 59_999, 100)
        row = next((run for run in rows if run.kind == "schedule"), None)
        return explain(due, row, at, self._now())

    async def _apply(self, changes: Changes) -> None:
        with self._clock.hold():
            await self._store.apply(changes)
        self._wake()

    def _base(self, due: Due) -> Instant:
        # Ticks of a period are counted from the cursor; others from now.
        return due.state.cursor if isinstance(due.schedule.cadence, Every) else self._now()

    def _now(self) -> Instant:
        return epoch_ms(self._clock.now())


def _known(schedule_id: str, due: Due | None) -> Due:
    if due is None:
        raise UnknownScheduleError(schedule_id)
    return due


def arm(schedule: Schedule, now: Instant) -> Put:
    """Return a new schedule that owes nothing before `now`; a period runs at once."""
    state = State(cursor=now - schedule.cadence.period if isinstance(schedule.cadence, Every) else now)
    return Put(schedule, state, first_wake(schedule, state))


def _edit(due: Due, schedule: Schedule, now: Instant) -> Changes:
    """Return the changes that put `schedule` in place of what is stored, from `now` on.

    Ticks of the old schedule that nobody has decided yet are written down under the old schedule:
    they were passed while paused, or replaced by this edit.
    """
    draft = Draft(due, now, Limits(), {})
    last = draft.last_due(now) if due.schedule != schedule and not draft.waits_for_run() else None
    if last is not None:
        draft.skip_through(last, Reason.PAUSED if due.schedule.paused else Reason.REPLACED)
    move = draft.move()
    state = move.state
    if schedule.cadence != due.schedule.cadence and not isinstance(schedule.cadence, Every):
        state = state._replace(cursor=max(state.cursor, now), skipped=None)
    # Editing is also how a quarantined schedule gets another chance.
    state = state._replace(quarantine=None)
    wake_at = now if due.runs else first_wake(schedule, state)
    return Changes([Put(schedule, state, wake_at)], rows=[*move.inserts, *move.changes])
