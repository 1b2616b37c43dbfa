"""A move under construction: the bookkeeping behind the planner's decisions about one schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.cadence import Every, count_ticks, last_tick, next_tick
from dutiful.core.plan.clock_rollback import recorded
from dutiful.core.plan.jitter import fire_time, not_after_pause, opening_cursor
from dutiful.core.policy import Overlap, Reason
from dutiful.core.run import IN_FLIGHT, Phase, Run, Status
from dutiful.core.schedule import SkippedRange, State
from dutiful.core.snapshot import Limits, Move, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.core.cadence import Instant

# A paused schedule records its skipped ticks at most this often (ms), not one by one.
_PAUSED_LOT = 60_000


# The engine's own limit is counted beside the capacity groups, under a name that no group can have.
ENGINE = ""


class Slots:
    """The slots taken in a plan, by capacity group; a slot that a move frees is available to that move only.

    An edit may prevent the commit of the move, and then the run that has the slot keeps it.
    """

    __slots__ = ("_freed", "_used")

    def __init__(self, used: dict[str, int]) -> None:
        self._used = used
        self._freed: dict[str, int] = {}

    def taken(self, name: str) -> int:
        """Return how many slots of this name are not available to the present move."""
        return self._used.get(name, 0) - self._freed.get(name, 0)

    def take(self, name: str, slots: int) -> None:
        """Take slots for the rest of the plan; a negative number frees them for the rest of the move."""
        freed = self._freed.get(name, 0)
        own = min(slots, freed)
        self._freed[name] = freed - own
        self._used[name] = self._used.get(name, 0) + slots - own


def gives_way(retry: Run) -> bool:
    """Return whether a run that waits for its retry gives way to the next tick: its task has failed."""
    return retry.reason is Reason.TASK_FAILED


class Draft:
    """Collects the planner's decisions about one schedule; `move()` returns the result."""

    __slots__ = (
        *("schedule", "state", "now", "limits", "policy", "cadence", "cursor", "from_completion", "blocked"),
        *(
            "unfinished",
            "launched",
            "cancels",
            "was_blocked",
            "ended_at",
            "failed_at",
            "_due",
            "_slots",
            "_skipped",
        ),
        *("_open", "_opening", "_busy", "_inserts", "_changes", "_first_attempts", "_noted", "_promised"),
        *("_looks_again", "holds"),
    )

    def __init__(self, due: Snapshot, now: Instant, limits: Limits, used: dict[str, int]) -> None:
        self.schedule, self.state, self.now, self.limits = due.schedule, due.state, now, limits
        self.policy, self.cadence = due.schedule.policy, due.schedule.cadence
        self.cursor = self._opening = opening_cursor(due.schedule, due.state.cursor)
        # The time at which new rows are written; only rows of a ledger record it.
        self._noted = now if due.schedule.policy.ledger else None
        self.from_completion = isinstance(self.cadence, Every) and self.cadence.anchor == "completion"
        self.blocked = self.unfinished = False
        self.launched = 0
        self.cancels: list[Run] = []
        self._due, self._slots = due, Slots(used)
        self._promised = self._slots_promised()
        self._looks_again = False
        # Whether ticks that may run are held for the engine instead of launched.
        self.holds = False
        self.was_blocked = due.blocked
        self._skipped, self.ended_at, self.failed_at = (
            due.state.skipped,
            due.state.ended_at,
            due.state.failed_at,
        )
        self._open = {(run.run_at, run.kind): run for run in due.runs} if due.runs else {}
        self._busy = sum(map(self._occupies, due.runs)) if due.runs else 0
        self._inserts: list[Run] = []
        self._changes: dict[tuple[Instant, str], Run] = {}
        self._first_attempts = 0

    # Questions

    def runs(self, *phases: Phase) -> list[Run]:
        """Return the runs in these phases, oldest first."""
        return [run for run in self._open.values() if run.phase in phases]

    def busy(self) -> bool:
        """Return whether a run of this schedule is in flight, or waits for a retry that keeps its slot."""
        return self._busy > 0

    def _occupies(self, run: Run) -> bool:
        return run.phase in IN_FLIGHT or (run.phase is Phase.RETRY and not gives_way(run))

    def waits_for_run(self) -> bool:
        """Return whether no tick can be decided before the run in flight has ended."""
        return (self.from_completion or self.policy.overlap is Overlap.BUFFER_ONE) and self.busy()

    def engine_is_full(self) -> bool:
        """Return whether the engine can take no more runs in this pass."""
        return self.limits.room is not None and self._slots.taken(ENGINE) >= self.limits.room

    def at_capacity(self) -> bool:
        """Return whether the capacity group has no room."""
        capacity = self.policy.capacity
        return capacity is not None and self._slots.taken(capacity.group) >= capacity.limit

    def _slots_promised(self) -> int:
        """Return how many slots of the group this plan has given to schedules before this one."""
        group = self.policy.group
        return 0 if group is None else self._slots.taken(group) - self.limits.stored.get(group, 0)

    def expires_at(self, run: Run) -> Instant | None:
        """Return when a run in flight times out; a run of this engine ages by elapsed time, not wall time."""
        ours = run.phase is Phase.LAUNCHED and run.epoch == self.limits.epoch
        # A launched run of an earlier epoch waits while the engine is full; it does not time out meanwhile.
        if self.policy.run_timeout is None or not (ours or run.phase is Phase.ACCEPTED):
            return None
        return self._began(run, ours) + self.policy.run_timeout

    def _began(self, run: Run, ours: bool) -> Instant:
        if ours and self.limits.began is not None:
            # A run that is missing from `began` has just ended, and is settled before the next plan.
            return self.limits.began.get((run.schedule_id, run.run_at, run.kind), self.now)
        return run.started_at or self.now

    def runs_left(self) -> int | None:
        """Return how many more runs may begin, beside the runs already waiting; None is without limit."""
        if self.policy.max_runs is None:
            return None
        held = sum(run.attempt == 0 for run in self.runs(Phase.QUEUED, Phase.DELAYED))
        return max(0, self.policy.max_runs - self.state.runs_started - self._first_attempts - held)

    def limit_reached(self) -> bool:
        """Return whether as many runs as allowed have started or are waiting to."""
        return self.policy.max_runs is not None and self.runs_left() == 0

    def next_tick(self) -> Instant | None:
        """Return the first tick after the cursor, within the window."""
        return self._within_window(next_tick(self.cadence, self.cursor, self.ended_at))

    def last_due(self, now: Instant) -> Instant | None:
        """Return the latest tick after the cursor that has fired by `now`.

        Jitter reaches at most half-way to a neighbour, so three ticks around `now` decide it.
        """
        end = self.schedule.window.end
        until = now if end is None else min(now, end)
        last = self._last(until)
        if not self.policy.jitter:
            return last
        # A period counted from completion has no further tick until the run of this tick has ended.
        only = self.from_completion and last is not None
        after = None if only else next_tick(self.cadence, last or self.cursor, self.ended_at)
        after = self._within_window(after)
        if after is not None and fire_time(self.schedule, after, self.ended_at) <= now:
            return after
        fired = last is None or fire_time(self.schedule, last, self.ended_at) <= now
        return last if fired or last is None else self._last(last - 1)

    def last_before(self, now: Instant) -> Instant | None:
        """Return the latest tick after the cursor that lies before `now` and has fired by then.

        Jitter may fire a tick early or hold it back; a tick that has not fired by `now` does not count.
        """
        last = self._last(now - 1)
        held_back = last is not None and fire_time(self.schedule, last, self.ended_at) >= now
        return self._last(last - 1) if held_back and last is not None else last

    def _last(self, until: Instant) -> Instant | None:
        return last_tick(self.cadence, self.cursor, until, self.ended_at)

    def _within_window(self, tick: Instant | None) -> Instant | None:
        end = self.schedule.window.end
        return None if tick is None or (end is not None and tick > end) else tick

    def catch_up_cap(self) -> int:
        """Return how many ticks of this schedule may be listed in one pass."""
        cap = self.limits.overrides.catch_up_cap
        return self.policy.catch_up_cap if cap is None else cap

    def grace(self) -> int:
        """Return by how much a tick may be late (ms) and count as on time."""
        return max(self.policy.grace, self.limits.overrides.grace_min)

    def newest(self, last: Instant) -> list[Instant]:
        """Return the newest ticks up to `last`, oldest first, at most `catch_up_cap` of them."""
        ticks, cap = [last], self.catch_up_cap()
        while len(ticks) < cap and (before := self._last(ticks[-1] - 1)) is not None:
            ticks.append(before)
        return ticks[::-1]

    # Decisions

    def launch(self, tick: Instant) -> None:
        """Record a run of this tick and hand it to the launcher."""
        if self._comes_again(tick):
            return
        fire_at = fire_time(self.schedule, tick, self.ended_at)
        status, epoch = self.limits.launch_status, self.limits.epoch
        self._insert(Run.launched(self.schedule.id, tick, fire_at, self.now, epoch, status, self._noted))
        self.launched += 1
        self._first_attempts += 1
        self._take_room(1)

    def launch_waiting(self, run: Run) -> None:
        """Hand a run that is already recorded to the launcher, for one more attempt."""
        orphan = run.phase in IN_FLIGHT
        if self.engine_is_full():
            self.unfinished = True
            return
        if not orphan and self.at_capacity():
            self.wait_for_room()
            return
        # An orphan still holds its slot in the group, but has none in this engine.
        self._take_room(1, in_group=not orphan)
        again = run.to(
            Phase.LAUNCHED, status=self.limits.launch_status, attempt=run.attempt + 1,
            epoch=self.limits.epoch, started_at=self.now, updated_at=run.noted(self.now),
        )  # fmt: skip
        self.change(again)
        self.launched += 1
        self._first_attempts += again.attempt == 1

    def wait_for_room(self) -> None:
        """Mark the schedule as waiting for its group; look again at once if slots were only promised."""
        capacity = self.policy.capacity
        assert capacity is not None
        self.blocked = True
        # A planned slot may fail to commit, and then no run's end wakes this schedule: check again.
        in_flight = self._slots.taken(capacity.group) - self._promised
        self._looks_again = in_flight < capacity.limit

    def hold(self, tick: Instant, phase: Phase, fire_at: Instant) -> None:
        """Record a run of this tick that is launched later."""
        if self._comes_again(tick):
            return
        run = Run(
            self.schedule.id, tick, "schedule", Status.ENQUEUED, phase, fire_at, None, 0, self.limits.epoch,
            created_at=self._noted, updated_at=self._noted,
        )  # fmt: skip
        self._insert(run)

    def end(self, run: Run, status: Status, reason: Reason, ended_at: Instant | None = None) -> None:
        """End a run that has a row."""
        if run.phase in IN_FLIGHT:
            self._free_room(run)
            self.ended_at = self.now if ended_at is None else ended_at
        self.change(run.ended(status, reason, self.now, run.detail))

    def fail(self, became: Run) -> None:
        """Record the failure of a run in flight of this engine: ended, or waiting for a retry."""
        self._take_room(-1)
        self.ended_at = self.failed_at = self.now
        self.change(became)

    def change(self, run: Run) -> None:
        """Record a new phase of a run that has a row."""
        key = run.run_at, run.kind
        self._busy += self._occupies(run) - self._occupies(self._open.pop(key))
        self._changes[key] = run
        if run.phase is not Phase.ENDED:
            self._open[key] = run

    def skip_before(self, tick: Instant, reason: Reason) -> None:
        """Skip every tick after the cursor that is older than `tick`."""
        before = self._last(tick - 1)
        if before is not None:
            self.skip_through(before, reason)

    def skip_through(self, last: Instant, reason: Reason) -> None:
        """Skip every tick in (cursor, last] for one reason, except ticks that already have rows."""
        for begins, ends in recorded(self.cadence, self._due.repeated, self.cursor, last):
            self._skip(begins - 1, reason)
            self.cursor, self._skipped = max(self.cursor, min(ends, last)), None
        self._skip(last, reason)
        self.cursor = last

    def _skip(self, until: Instant, reason: Reason) -> None:
        """Skip every tick in (cursor, until], as a new range or as an extension of the last one."""
        first, last = next_tick(self.cadence, self.cursor, self.ended_at), self._last(until)
        if first is None or last is None:
            return
        ticks = count_ticks(self.cadence, self.cursor, last)
        grows = self._skipped is not None and self._skipped.reason is reason
        if self._skipped is not None and grows:
            first, ticks = self._skipped.run_at, ticks + self._skipped.ticks
        if self.policy.ledger:
            self._skipped = SkippedRange(first, reason, ticks)
            self._record_skip(grows, last if ticks > 1 else None)

    def _record_skip(self, grows: bool, run_until: Instant | None) -> None:
        assert self._skipped is not None
        first, reason, ticks = self._skipped
        row = Run(
            self.schedule.id, first, "schedule", Status.SKIPPED, Phase.ENDED, first, reason,
            0, self.limits.epoch, None, self.now, run_until, ticks,
            created_at=self._noted, updated_at=self._noted,
        )  # fmt: skip
        if grows and self._inserts and self._inserts[-1].run_at == first:
            self._inserts[-1] = row
        elif grows:
            self._changes[first, row.kind] = row
        else:
            self._inserts.append(row)

    def _comes_again(self, tick: Instant) -> bool:
        """Return whether a tick already has a row, because the clock was set back; if so, move past it."""
        again = (tick, "schedule") in self._open or any(
            (row.run_at, row.kind) == (tick, "schedule") for row in self._due.repeated
        )
        if again:
            self.cursor = tick
        return again

    def _insert(self, run: Run) -> None:
        self._inserts.append(run)
        self._open[run.run_at, run.kind] = run
        self._busy += self._occupies(run)
        self.cursor, self._skipped = run.run_at, None

    def _free_room(self, run: Run) -> None:
        self._take_room(-1, in_engine=run.phase is Phase.LAUNCHED and run.epoch == self.limits.epoch)

    def _take_room(self, runs: int, in_engine: bool = True, in_group: bool = True) -> None:
        if in_engine and self.limits.room is not None:
            self._slots.take(ENGINE, runs)
        if in_group and self.policy.capacity is not None:
            self._slots.take(self.policy.capacity.group, runs)

    # The result

    def move(self) -> Move:
        """Return the drafted move, with the instant at which to look at the schedule again."""
        old = self.state
        state = State(
            self._decided_cursor(),
            old.runs_started + self._first_attempts,
            self.now if self.launched else old.attempted_at,
            old.succeeded_at,
            self.failed_at,
            self.ended_at,
            self._skipped,
            None,
            old.decided_until,
        )
        tick_wake = not_after_pause(self.schedule, self._tick_wake())
        wakes = [*self._run_wakes(), *([] if tick_wake is None else [tick_wake])]
        wake_at = self.now if self.unfinished or self._looks_again else min(wakes, default=None)
        idle_wake_at = tick_wake if wake_at != tick_wake and len(self._open) == 1 else None
        blocked = self.blocked or self._next_needs_end() or self._has_queue()
        changes = list(self._changes.values())
        return Move(self._due, state, wake_at, idle_wake_at, blocked, self._inserts, changes, self.cancels)

    def _decided_cursor(self) -> Instant:
        """Return the cursor; before the window begins at most `now`, as an edit may remove the window."""
        undecided = self.cursor == self._opening
        return opening_cursor(self.schedule, self.state.cursor, self.now) if undecided else self.cursor

    def _next_needs_end(self) -> bool:
        """Return whether the next tick is unknown until the run in flight has ended."""
        return self.from_completion and self.busy()

    def _has_queue(self) -> bool:
        """Return whether runs wait for a run in flight: queued runs, and backfill runs that are due."""
        return any(
            run.phase is Phase.QUEUED
            or (run.phase is Phase.DELAYED and run.backfill is not None and run.fire_at <= self.now)
            for run in self._open.values()
        )

    def _run_wakes(self) -> Iterator[Instant]:
        for run in self._open.values():
            if run.phase in (Phase.DELAYED, Phase.RETRY) and run.fire_at > self.now:
                yield run.fire_at
            elif run.phase in IN_FLIGHT and (expires_at := self.expires_at(run)) is not None:
                yield expires_at

    def _tick_wake(self) -> Instant | None:
        waits = self._next_needs_end() or (self.blocked and self.waits_for_run())
        held = self.from_completion and self.schedule.paused
        if waits or held or self.limit_reached():
            return None
        # A run's end wakes a tick that waits for room. Also wake at the tick after it, which replaces it.
        passed = self.last_due(self.now) if self.blocked else None
        if passed is not None and self.from_completion:
            return None
        after = self.cursor if passed is None else passed
        tick = self._within_window(next_tick(self.cadence, after, self.ended_at))
        if tick is None:
            return None
        fire_at = fire_time(self.schedule, tick, self.ended_at)
        return max(fire_at, self.now + _PAUSED_LOT) if self.schedule.paused else fire_at
