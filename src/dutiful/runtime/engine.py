"""The engine: lead, settle, load, plan, commit, launch, sleep. The planner makes all decisions.

`pass_once` is the same code in production, in tests, in the simulator and in `simulate`. One coroutine does
all the writing, in this order: a run is launched only after its record is durable, so a pass that fails has
launched no unrecorded run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core import event as happened
from dutiful.core.errors import LostLeadershipError
from dutiful.core.plan.outcome import Failed, Unreached, checked, raised, settlement
from dutiful.core.plan.planner import plan
from dutiful.core.policy import NO_OVERRIDES, Overrides
from dutiful.core.run import Phase, Status
from dutiful.core.snapshot import Limits
from dutiful.runtime import in_flight
from dutiful.runtime.clock import ClockWatch
from dutiful.runtime.gc_pause import Collector
from dutiful.runtime.in_flight import Drained, Flight, Flights, is_over, key_of, named
from dutiful.runtime.ledger_lookup import all_recalled
from dutiful.runtime.ports import CancellingLauncher, Launch
from dutiful.runtime.registrar import without_ended_pauses

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractContextManager

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.core.plan.outcome import Outcome, TimedOut
    from dutiful.core.plan.planner import Batch
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Move
    from dutiful.runtime.in_flight import Key
    from dutiful.runtime.ports import Clock, Committed, Launcher, Loaded, Observer, Store

# Load this many schedules more than there is room for launches: some of them launch no run.
_SPARE = 16
# A clock step back by more than this (ms) re-arms the schedules; ticks that have run do not run again.
_REARM_BEYOND = 86_400_000
# Without a planned wake the engine sleeps until `wake` is called.
_FOREVER = float("inf")
# Cached: enum attribute access is slow, and nearly all runs are LAUNCHED.
_LAUNCHED = Phase.LAUNCHED
# tuple.__new__ takes half as long as the named tuple's constructor.
_new = tuple.__new__

carried_run: ContextVar[tuple[Engine, Key] | None] = ContextVar("carried_run", default=None)
"""The engine and the key of the run that the current task belongs to, also in tasks that the run started."""


class Settings(NamedTuple):
    """The pace of the engine; durations in milliseconds."""

    # Most schedules in one pass: small enough that the event loop keeps turning.
    batch: int = 2000
    # Wait this long after a failed pass, and while another instance leads.
    retry_after: int = 1000
    lookahead: int = 60_000
    overrides: Overrides = NO_OVERRIDES
    in_flight_max: int | None = None
    # Longest time between two passes, for stores that other processes may write to.
    tick: int | None = None
    # Returns how much of `in_flight_max` the other engines of this process use; None without other engines.
    beside: Callable[[], int] | None = None


DEFAULTS = Settings()


async def nothing_to_do(epoch: int) -> None:
    """Do nothing when leadership begins."""


def no_checkpoint(label: str) -> None:
    """Do nothing: only tests that simulate a crash at a labelled step pass another function."""


class Engine:
    """One loop over one store. `start` it, `wake` it after an edit, `stop` it."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        clock: Clock,
        observer: Observer,
        owner: str,
        settings: Settings = DEFAULTS,
        on_lead: Callable[[int], Awaitable[None]] = nothing_to_do,
        checkpoint: Callable[[str], None] = no_checkpoint,
    ) -> None:
        self._store, self._launcher, self._clock, self._observer = store, launcher, clock, observer
        self._now, self._owner, self._settings = clock.epoch_ms, owner, settings
        # Called when leadership begins, before the first decision: a standby declares its schedules then.
        self._on_lead, self._checkpoint = on_lead, checkpoint
        self._epoch: int | None = None
        # Done when the loop must pass before the planned time; replaced at each pass.
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Whether the event loop has turned since the last pass; it must turn once before the next pass plans.
        self._waited = self._stopping = False
        self._loop: asyncio.Task[None] | None = None
        self._running = Flights()
        self._cancelling: set[asyncio.Task[None]] = set()
        self._finished: list[tuple[Launch, Outcome | TimedOut, Instant]] = []
        # Launches that the present pass has reserved, so that no other engine of the process uses them.
        self._reserved = 0
        # Moves of commits that were not acknowledged: each may or may not be stored.
        self._unsure: list[Move] = []
        # Whether the present pass left something unwritten, because another transaction keeps rows locked.
        self._locked_out = False
        # Done when the leadership is certain again; set only while launches wait for that.
        self._certain: asyncio.Future[None] | None = None
        self._damaged: set[str] = set()
        self._watch, self._rearm, self._led_at = ClockWatch(), True, 0
        self._collector = Collector()
        self.counts: Counter[str] = Counter()
        # When the last pass was completed, leading or not, and how many seconds it took.
        self.passed_at: Instant | None = None
        self.pass_s = 0.0

    @property
    def in_flight(self) -> int:
        """Return how many runs are being launched or run here."""
        return len(self._running)

    @property
    def occupied(self) -> int:
        """Return how much of `in_flight_max` this engine uses, or has reserved for the present pass."""
        return len(self._running) + len(self._finished) + self._reserved

    # Life

    def start(self) -> asyncio.Task[None]:
        """Start the loop of passes, also after `stop`, in a task of the running event loop; return it."""
        self._stopping = False
        self._loop = asyncio.create_task(self._run(), name="dutiful-engine")
        return self._loop

    def wake(self) -> None:
        """Make the next pass begin now: after an edit, or when a run has ended."""
        if not self._woken.done():
            self._woken.set_result(None)

    async def stop(self, within: float | None = None) -> Drained:
        """Launch no more runs, wait `within` seconds for the runs in flight; return the rest."""
        self._stopping = True
        self._end_doubt()
        self.wake()
        if self._loop is not None:
            # `asyncio.wait` does not raise: also a loop task cancelled from outside leaves runs to drain.
            await asyncio.wait([self._loop])
        deadline = _FOREVER if within is None else self._clock.monotonic() + within
        while self._running and (left := deadline - self._clock.monotonic()) > 0:
            await self.idle(min(left, self._running.seconds_left(self._clock.monotonic())))
            self._finished += self._running.time_out(self._clock.monotonic(), self._now())
        error = await self._try_to_settle()
        return Drained(self._running.runs(), [launch.run for launch, *_ in self._finished], error)

    def carries(self, key: Key) -> bool:
        """Return whether the run of this key is in flight here."""
        return key in self._running

    async def idle(self, seconds: float) -> None:
        """Settle ended runs, then wait this long, or until a run ends or `wake` is called."""
        if self._woken.done():  # If not, another caller waits for the same runs, and shares the future.
            self._woken = asyncio.get_running_loop().create_future()
        await self._try_to_settle()
        await self._clock.wait(self._woken, seconds)

    def hold(self) -> AbstractContextManager[None]:
        """Keep virtual time from moving while a task is at work outside the event loop."""
        return self._clock.hold()

    def abandon(self) -> None:
        """Drop everything at once, as a crash would: nothing more is launched or written."""
        self._stopping = True
        self._collector.hold(False)
        if self._loop is not None:
            self._loop.cancel()
        for task in self._cancelling:
            task.cancel()
        self._drop_runs()

    async def _run(self) -> None:
        while not self._stopping:
            self._woken, began = asyncio.get_running_loop().create_future(), self._clock.monotonic()
            try:
                wake_at = await self.pass_once()
                self.passed_at, self.pass_s = self._now(), self._clock.monotonic() - began
            except Exception as error:  # noqa: BLE001 - a failure ends one pass only
                self._emit(happened.PassFailed(self._now(), f"{type(error).__name__}: {error}"))
                wake_at = self._now() + self._settings.retry_after
            await self._sleep(wake_at)
        self._collector.hold(False)

    async def _sleep(self, wake_at: Instant | None) -> None:
        if self._settings.tick is not None:
            tick_at = self._now() + self._settings.tick
            wake_at = tick_at if wake_at is None else min(wake_at, tick_at)
        # The clock returns early from waits, so that a step of the wall clock is noticed.
        while not self._woken.done():
            now = self._now()
            left = _FOREVER if wake_at is None else wake_at - now
            if left <= 0 or self._note_step(now):
                break
            await self._clock.wait(self._woken, left / 1000)
            self._waited = True

    # One pass

    async def pass_once(self) -> Instant | None:
        """Settle ended runs, decide the due ticks, launch their runs; return when to pass again."""
        with self._clock.hold():
            return await self._pass()

    async def _pass(self) -> Instant | None:
        now = self._now()
        self._note_step(now)
        epoch = await self._lead(now)
        if epoch is None:
            return now + self._settings.retry_after
        await self._resolve_unsure()
        # The runs of the last pass begin now, while a store with its own thread writes.
        await self._settle_finished(epoch, now)
        if not self._waited:
            await asyncio.sleep(0)
        self._waited = False
        wake_at = await self._plan_and_launch(self._now(), epoch)
        if not self._locked_out:
            return wake_at
        return min([now + self._settings.retry_after, *([] if wake_at is None else [wake_at])])

    async def _lead(self, now: Instant) -> int | None:
        epoch = await self._store.lead(self._owner)
        if epoch != self._epoch:
            # The new leader adopts the runs in flight; two processes must not carry the same run.
            self._drop_runs()
            self._epoch, self._rearm, self._led_at = epoch, True, now
            self._emit(happened.LeadershipChanged(now, epoch))
        self._end_doubt()
        if epoch is not None and self._rearm:
            await self._on_lead(epoch)
            await self._store.rearm(now, _REARM_BEYOND)
            self._rearm = False
            self._checkpoint("led")
        return epoch

    async def _plan_and_launch(self, now: Instant, epoch: int) -> Instant | None:
        self._reserved = 0
        most = self._loaded_at_once()
        loaded = await self._load(now, most)
        self._tell_damage(loaded.damaged, now)
        self._collector.hold(len(loaded.batch.due) >= self._settings.batch)
        self._checkpoint("loaded")
        self.counts["schedules_due"] += len(loaded.batch.due)
        if not loaded.batch.due:
            return loaded.next_wake
        moves = plan(loaded.batch, now, self._limits(epoch, loaded.batch, now))
        self._checkpoint("planned")
        made, launches, locked = committed = await self._commit(moves, epoch)
        self._locked_out = self._locked_out or locked > 0
        self._watch.shown_before = 0
        self._checkpoint("committed")
        if cancelling := [move for move in made if move.cancels]:
            for move in cancelling:
                self._cancel(move)
            await in_flight.let_cancelled_runs_end()
        for event in happened.of_moves(made, now):
            self._emit(event)
        before = {key_of(run): run.phase for move in made if move.changes for run in move.due.runs}
        free_at = {move.due.schedule.id: ended for move in made if (ended := move.due.state.ended_at)}
        for launch in launches:
            could = max(launch.run.fire_at, free_at.get(launch.schedule.id, 0), self._led_at)
            self._start(launch, now, max(0, now - could), before.get(key_of(launch.run)) if before else None)
        self._reserved = 0
        return await self._when_next(committed, loaded, now, most)

    async def _load(self, now: Instant, most: int) -> Loaded:
        """Return the due schedules; after a clock step also those with timeouts, which the step has moved."""
        before = self._watch.shown_before
        loaded = await self._store.load(max(now, before), most, self._running.timed() if before else ())
        loaded = await all_recalled(self._store, loaded, now)
        return await without_ended_pauses(self._store, loaded, now, self._epoch)

    async def _when_next(self, done: Committed, loaded: Loaded, now: Instant, most: int) -> Instant | None:
        if self._room() == 0:
            # Due schedules wait for a run to end; cancel runs past their timeouts meanwhile.
            await self.cancel_outlived()
            return now + self._settings.retry_after
        ended = any(run.phase is Phase.ENDED for move in done.made for run in move.changes)
        due = len(loaded.batch.due)
        if ended or len(done.made) + done.locked < due or (due >= most and done.made):
            # Pass again at once: a run ended by the planner may have woken other schedules, an edit may have
            # overtaken a move, or the batch was full.
            return now
        wakes = [move.wake_at for move in done.made if move.wake_at is not None]
        return min([*wakes, *([] if loaded.next_wake is None else [loaded.next_wake])], default=None)

    async def _commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        try:
            return await self._store.commit(moves, epoch)
        except LostLeadershipError:
            raise
        except BaseException:
            # The commit may have been stored although its answer was lost: check in the next pass.
            self._unsure += moves
            raise

    async def _resolve_unsure(self) -> None:
        """After a commit that was not acknowledged, launch and cancel the runs that the store did record."""
        if not self._unsure:
            return
        ids = {move.due.schedule.id for move in self._unsure}
        known = {due.schedule.id: due for due in await self._store.some(ids)}
        unsure, self._unsure = self._unsure, []
        # Skip removed schedules: the store no longer shows whether their runs ended before the removal.
        recorded = [(move, due) for move in unsure[::-1] if (due := known.get(move.due.schedule.id))]
        # Cancel before launching: a run that timed out may have been launched again under the same key.
        for move, due in recorded:
            self._running.cancel(run for run in move.cancels if is_over(run, in_flight.row_of(run, due)))
        await in_flight.let_cancelled_runs_end()
        for launch in in_flight.recorded_launches(recorded):
            self._start(launch, self._now(), 0)
            # Let this run begin before the pass plans: a run that the plan ends must not begin afterwards.
            self._waited = False

    def _limits(self, epoch: int, batch: Batch, now: Instant) -> Limits:
        status = Status.STARTED if self._launcher.in_process else Status.ENQUEUED
        began = self._running.began(batch.due, now, self._clock.monotonic()) if self._watch.stepped else None
        room, settings = self._reserve(len(batch.due)), self._settings
        return Limits(epoch, settings.lookahead, status, room, began, settings.overrides)

    def _reserve(self, due: int) -> int | None:
        """Return how many runs this pass may launch, and reserve them before other engines of the process."""
        room = self._room()
        if room is not None and self._settings.beside is not None:
            self._reserved = room = min(room, due + _SPARE)
        return room

    def _loaded_at_once(self) -> int:
        """Return how many schedules to load: while there is room, hardly more than can be launched.

        Loading and planning schedules that must wait took a quarter of the CPU of a burst of launches.
        Without room a full batch is loaded, because ending a timed-out run makes room.
        """
        room, batch = self._room(), self._settings.batch
        return min(batch, room + _SPARE) if room else batch

    def _room(self) -> int | None:
        most, beside = self._settings.in_flight_max, self._settings.beside
        if most is None:
            return None
        # Ended but unsettled runs still count: the planner sees them in flight, and may end them and reuse
        # the slot.
        return max(0, most - len(self._running) - len(self._finished) - (0 if beside is None else beside()))

    # Runs

    def _start(self, launch: Launch, now: Instant, late: int, before: Phase | None = None) -> None:
        run = launch.run
        key = key_of(run)
        began = self._clock.monotonic()
        # Record the flight and emit before the task exists: an eager task factory starts it inside
        # create_task.
        self._running[key] = _new(Flight, (None, launch, began))
        self._emit(_new(happened.RunLaunched, (now, run, late, before)))
        loop, carrying = asyncio.get_running_loop(), self._carry(launch, key)
        if loop.get_task_factory() is not None:
            carrying = named(carrying, run.schedule_id)
        # Not asyncio.create_task, which generates a default name before it sets this one.
        task = loop.create_task(carrying, name=run.schedule_id)
        if key in self._running:
            self._running[key] = _new(Flight, (task, launch, began))

    async def _carry(self, launch: Launch, key: Key) -> None:
        carried_run.set((self, key))
        self._checkpoint("launching")
        try:
            # The process may have been frozen since the commit, and another process may lead by now.
            if self._store.holds(launch.run.epoch) or await self._is_certain(launch.run):
                outcome = checked(await self._launcher.launch(launch))
            else:
                outcome = Unreached("stopped while it was in doubt whether this process leads")
        except BaseException as error:  # noqa: BLE001 - any exception is the failure of its task
            outcome = raised(error)
        flight = self._running.get(key)
        # A run that is no longer in flight was cancelled: it has ended, or gets another attempt. Under a new
        # epoch its row may still show this attempt, which the cancellation would record as failed.
        if flight is not None and flight.launch is launch:
            del self._running[key]
            self._finished.append((launch, outcome, self._now()))
        self.wake()

    async def _is_certain(self, run: Run) -> bool:
        """Wait until it is certain that this process leads; return False where the engine stops first."""
        # The run stays in flight meanwhile; if another leader's epoch begins, it is cancelled.
        while not self._store.holds(run.epoch):
            if self._stopping:
                return False
            if self._certain is None or self._certain.done():
                self._certain = asyncio.get_running_loop().create_future()
                self.wake()
            await asyncio.shield(self._certain)
        return True

    def _end_doubt(self) -> None:
        if self._certain is not None and not self._certain.done():
            self._certain.set_result(None)

    async def _settle_finished(self, epoch: int, now: Instant) -> None:
        finished, self._finished = self._finished, []
        self._locked_out = False
        if not finished:
            return
        settlements = [
            settlement(run, outcome, policy, ended_at, number, self._settings.overrides)
            for ((_, _, _, policy, *_), run, number), outcome, ended_at in finished
        ]
        self._checkpoint("settling")
        try:
            applied = await self._store.settle(settlements, epoch)
        except BaseException:
            self._finished = finished + self._finished
            raise
        self._checkpoint("settled")
        if None in applied:
            left = [each for each, written in zip(finished, applied, strict=True) if written is None]
            self._finished, self._locked_out = left + self._finished, True
        for (run, *_), written, (_, outcome, _) in zip(settlements, applied, finished, strict=True):
            if written:
                error = outcome.error if type(outcome) is Failed else None
                self._emit(_new(happened.RunSettled, (now, run, error)))

    async def _try_to_settle(self) -> Exception | None:
        """Record the runs that have ended; return the error that prevented it, if any."""
        try:
            with self._clock.hold():
                if self._epoch is not None:
                    await self._settle_finished(self._epoch, self._now())
        except Exception as error:  # noqa: BLE001 - the next pass tries again, and reports the failure
            return error
        return None

    async def cancel_outlived(self) -> None:
        """Cancel runs past their timeout that no plan will end, because their schedule was removed."""
        outlived = self._running.outlived(self._clock.monotonic())
        if outlived:
            known = await self._store.some({run.schedule_id for run in outlived})
            # Leave open runs to the planner: the plan that ends such a run frees its slot, exactly once.
            still_open = {key_of(run) for due in known for run in due.runs}
            self._running.cancel(run for run in outlived if key_of(run) not in still_open)

    def _cancel(self, move: Move) -> None:
        """Cancel the runs that a move has ended: in this process, and at the system that accepted them."""
        self._running.cancel(move.cancels)
        if isinstance(self._launcher, CancellingLauncher):
            for run in move.cancels:
                asked = self._launcher.cancel(Launch(move.due.schedule, run, move.due.number))
                task = asyncio.get_running_loop().create_task(asked, name=f"cancel {run.schedule_id}")
                # Keep a reference until the task is done: the event loop holds only weak references.
                self._cancelling.add(task)
                task.add_done_callback(self._cancelling.discard)

    def _drop_runs(self) -> None:
        """Cancel and forget all runs; no outcome of them is recorded."""
        self._running.cancel(self._running.runs())
        self._finished.clear()
        self._unsure.clear()

    # Events

    def _tell_damage(self, damaged: Sequence[tuple[str, str]], now: Instant) -> None:
        """Report each damaged schedule once, and again if it was repaired and is damaged anew."""
        for schedule_id, problem in damaged:
            if schedule_id not in self._damaged:
                self._emit(happened.ScheduleDamaged(now, schedule_id, problem))
        self._damaged = {schedule_id for schedule_id, _ in damaged}

    def _emit(self, event: Event) -> None:
        try:
            self._observer(event)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - an observer must not stop it
            self.counts["observer_errors"] += 1

    # Time

    def _note_step(self, now: Instant) -> bool:
        """Return whether the wall clock was stepped since the last look; emit ClockStepped if so."""
        step = self._watch.step(now, self._clock.monotonic())
        if step:
            self._emit(happened.ClockStepped(now, step))
            self._rearm = self._rearm or step < -_REARM_BEYOND
        return step != 0
