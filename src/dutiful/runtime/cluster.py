"""The worker of a cluster: one engine for every shard that this process leads.

Every half second the worker queries the store (`look`) for the living members, the leader and the next wake
of each shard, and the database's clock. The query is also the heartbeat that keeps the locks of this process.
`core/placement.py` decides which shards to take and to give. The locks and the fence of the store make sure
that a wrong decision costs work and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Protocol

from dutiful.core import event as happened
from dutiful.core.errors import DutifulError
from dutiful.core.placement import Scene, Seen, place
from dutiful.runtime.clock import SystemClock
from dutiful.runtime.cluster_clock import SamplingClock
from dutiful.runtime.cluster_ports import Sharded
from dutiful.runtime.engine import DEFAULTS
from dutiful.runtime.host import Host
from dutiful.runtime.in_flight import Drained
from dutiful.runtime.ports import Store
from dutiful.runtime.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from dutiful.core.cadence import Instant
    from dutiful.core.event import Event
    from dutiful.runtime.cluster_ports import Member, View
    from dutiful.runtime.engine import Settings
    from dutiful.runtime.ports import Clock, Launcher, Observer, Retention

_LOOK_S = 0.5
# While a shard is free, look this often (s) instead: two processes that looked at different moments may each
# leave the shard to the other. A shard that stays free longer than the second number (ms) is in trouble, and
# more looks do not help.
_FREE_LOOK_S, _FREE_LOOK_MS = 0.05, 3000
# For this many seconds after a lost session, a process takes only the shards that it had before: the other
# processes reconnect at the same time.
_REGAIN_S = 2.0
# A hand-over waits this many seconds for a run that was launched while it began.
_HAND_OVER_S = 1.0
# Engines that notice a clock step within this many ms of each other notice the same step.
_SAME_STEP_MS = 2000


class ShardedStore(Store, Sharded, Protocol):
    """A store that many processes share; each process leads some of its shards."""


class Cluster:
    """Owns the engines of one worker from `open` to `close`.

    A silent process keeps its locks for `lease_s` seconds. A shard with overdue work that has had no pass for
    twice as long is released.
    """

    def __init__(
        self,
        door: str,
        store: ShardedStore,
        launcher: Launcher,
        clock: Clock,
        observer: Observer,
        me: Member,
        *,
        pace: Settings = DEFAULTS,
        retention: Callable[[], Retention] | None = None,
        lease_s: float = 5.0,
    ) -> None:
        self._door, self._store, self._launcher, self._clock = door, store, launcher, clock
        self._observer, self._pace, self._retention, self.me = observer, pace, retention, me
        self._lease_s, self._patience_ms = lease_s, round(2000 * lease_s)
        # Checked once, because checking a protocol is slow and there are two looks a second.
        self._sampling = clock if isinstance(clock, SamplingClock) else None
        self._hosts: dict[int, Host] = {}
        self._taken_at: dict[int, Instant] = {}
        # Hand-overs in progress, by shard.
        self._leaving: dict[int, asyncio.Task[None]] = {}
        # Shards of this process that another process should lead, as of the last look.
        self.to_give: tuple[int, ...] = ()
        # Shards that made no progress here, each with the instant before which this process does not take it
        # again.
        self._shunned: dict[int, Instant] = {}
        self._due_before = 0
        self._seen = Seen()
        self._view: View | None = None
        self._followed_at: Instant | None = None
        self._regained_at: float | None = None
        self._trouble: str | None = None
        self._stepped_at: Instant | None = None
        self._woken: asyncio.Future[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._watchdog: Watchdog | None = None
        # Set while this process leaves: the task that marks it as draining for the other processes.
        self._marking: asyncio.Task[None] | None = None
        self._draining = False

    # Beginning and end

    async def open(self) -> None:
        """Open the store and join. Raises StoreError where the store, or its namespace, cannot be used."""
        try:
            with self._clock.hold():
                await self._store.open()
                await self._store.claim(self._door)
                await self._store.join(self.me, self._hinted)
        except BaseException:
            await self._close_store()
            raise

    def start(self) -> None:
        """Begin to query the cluster, to take shards, and to fire their schedules."""
        self._looking = asyncio.create_task(self._look_again_and_again(), name="dutiful-cluster")
        if isinstance(self._clock, SystemClock):
            self._watchdog = Watchdog(self._clock, self._observer)
            self._watchdog.start()

    async def drain(self, within: float | None = None) -> Drained:
        """Launch nothing more, and release each shard as soon as none of its runs is in flight.

        Waits `within` seconds for the runs in flight, and returns the runs that are left.
        """
        if self._marking is None:
            self._marking = asyncio.create_task(self._mark_draining(), name="dutiful-drain")
        self._draining = True
        await self._finish_hand_overs()
        drained = await asyncio.gather(*(self._drain(*each, within) for each in [*self._hosts.items()]))
        errors = [left.error for left in drained if left.error is not None]
        return Drained(
            [run for left in drained for run in left.in_flight],
            [run for left in drained for run in left.unrecorded],
            errors[0] if errors else None,
        )

    async def _mark_draining(self) -> None:
        """Tell the other processes that this one takes no shards, so that they do not wait for it."""
        # Not awaited: a database that does not answer must not delay the releases.
        with contextlib.suppress(DutifulError, OSError):
            await self._store.drain(self.me.owner, True)

    async def _drain(self, shard: int, host: Host, within: float | None) -> Drained:
        drained = await host.drain(within)
        if not drained.in_flight and not drained.unrecorded:
            await self._release(shard)
        return drained

    async def close(self) -> None:
        """Drop the runs in flight, as a crash would, leave the cluster and close the store."""
        self.abandon()
        with self._clock.hold(), contextlib.suppress(DutifulError, OSError):
            await self._store.leave()
        await self._close_store()

    def abandon(self) -> None:
        """Drop everything but the store at once, as a crash would: nothing more is launched or written."""
        self._draining = True
        for task in (self._looking, self._marking, *self._leaving.values()):
            if task is not None:
                task.cancel()
        for host in self._hosts.values():
            host.abandon()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._looking = self._watchdog = None
        self._hosts.clear()

    async def _close_store(self) -> None:
        with self._clock.hold():
            await self._store.close()

    # State, for the owner of the worker

    @property
    def is_started(self) -> bool:
        """Whether the worker was started and not yet closed."""
        return self._looking is not None

    @property
    def epoch(self) -> int | None:
        """The highest epoch under which this process leads a shard, None while it leads none."""
        return max(
            (epoch for host in self._hosts.values() if (epoch := host.epoch) is not None), default=None
        )

    @property
    def schedules_due(self) -> int:
        """How many schedules were found due, summed over all passes of all shards."""
        return self._due_before + sum(host.schedules_due for host in self._hosts.values())

    @property
    def in_flight(self) -> int:
        """How many runs are being launched, or run by this process."""
        return sum(host.in_flight for host in self._hosts.values())

    @property
    def passed_at(self) -> Instant | None:
        """The instant of the last look that the store answered and this process acted on."""
        return self._followed_at

    @property
    def pass_s(self) -> float:
        """How many seconds the last pass took, of the shard whose last pass took longest."""
        return max((host.pass_s for host in self._hosts.values()), default=0.0)

    def overdue(self) -> dict[int, int]:
        """Return how many ms each late shard of this process had waited at the last look."""
        view = self._view
        if view is None:
            return {}
        late = {shard: view.now_ms - wake for shard, wake in view.wakes.items() if wake is not None}
        return {shard: waited for shard, waited in late.items() if waited > 0}

    def wake(self) -> None:
        """Look now. An edit needs no call: the store notifies the leader of the shard."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    # Looking

    def _hinted(self, shards: Collection[int]) -> None:
        for shard in shards:
            if shard in self._hosts:
                self._hosts[shard].wake()
        if not shards:
            self.wake()

    async def _look_again_and_again(self) -> None:
        while True:
            self._woken = asyncio.get_running_loop().create_future()
            try:
                with self._clock.hold():
                    await self._follow(await self._look())
                self._trouble, self._followed_at = None, self._clock.epoch_ms()
            except Exception as error:  # noqa: BLE001 - whatever it was, the next look may succeed
                self._note_failure(f"{type(error).__name__}: {error}")
            await self._clock.wait(self._woken, self._pause_s())

    def _pause_s(self) -> float:
        """Return after how many seconds to look again if there is no hint."""
        others = [since for shard, since in self._seen.free.items() if shard not in self._hosts]
        is_new = any(self._seen.now - since < _FREE_LOOK_MS for since in others)
        return _FREE_LOOK_S if is_new and self._trouble is None else _LOOK_S

    async def _look(self) -> View:
        sent = self._clock.monotonic()
        view = await self._store.look()
        answered = self._clock.monotonic()
        if self._sampling is not None:
            self._sampling.sample(sent, answered, view.now_ms)
        if self._trouble is not None:
            self._regained_at = answered
        return view

    def _note_failure(self, trouble: str) -> None:
        """Report a look that failed, once for each different error; the engines stop by themselves."""
        if trouble != self._trouble:
            self._tell(happened.PassFailed(self._clock.epoch_ms(), trouble))
        self._trouble = trouble

    async def _follow(self, view: View) -> None:
        before, self._view = self._view, view
        self._seen = self._seen.after(view.now_ms, [member.owner for member in view.members], view.owners)
        await self._let_go_of_lost(view)
        await self._give_up_stuck(view)
        placement = place(self._scene(view))
        self.to_give = placement.give
        for shard in self._locked_in_vain(view):
            # This process holds the lock but has no engine: an earlier release did not reach the store.
            if shard in placement.give or shard in self._shunned:
                await self._store.shard(shard).close()
            else:
                await self._take(shard)
        for shard in placement.take:
            await self._take(shard)
        await self._give(placement.give)
        self._wake_due(view, before)

    def _scene(self, view: View) -> Scene:
        now = self._clock.epoch_ms()
        # A shard that stays free is taken again: the other processes shun it too, or have ended.
        free = {shard for shard, since in self._seen.free.items() if self._seen.now - since >= _FREE_LOOK_MS}
        self._shunned = {
            shard: until for shard, until in self._shunned.items() if until > now and shard not in free
        }
        # If all members drain, treat none as draining: there is no other member to give shards to.
        members = [member.owner for member in view.members if not member.draining]
        members = members or [member.owner for member in view.members]
        if self._draining:
            members = [member for member in members if member != self.me.owner]
        regained = self._regained_at is not None and self._clock.monotonic() < self._regained_at + _REGAIN_S
        shunned = {*self._shunned, *self._leaving}
        return Scene(self.me.owner, members, view.owners, view.claims, self._seen, regained, shunned)

    async def _let_go_of_lost(self, view: View) -> None:
        for shard in [*self._hosts]:
            if view.owners[shard] not in (None, self.me.owner) and shard not in self._leaving:
                await self._release(shard)

    async def _give_up_stuck(self, view: View) -> None:
        """Release shards with overdue work in which no pass has ended for two leases.

        Where no other process could lead them, a release would only cut their runs in flight short.
        """
        if all(member.draining for member in view.members if member.owner != self.me.owner):
            return
        for shard, wake in view.wakes.items():
            host = self._hosts.get(shard)
            # An engine that drains makes no pass on purpose: its shard stays until its runs have ended.
            if host is None or wake is None or self._draining or shard in self._leaving:
                continue
            last = max(wake, self._taken_at[shard], host.passed_at or 0)
            if view.now_ms - last > self._patience_ms:
                self._shunned[shard] = self._clock.epoch_ms() + 2 * self._patience_ms
                await self._release(shard)

    def _wake_due(self, view: View, before: View | None) -> None:
        """Wake the engines of shards that are due, or whose next wake is earlier than at the last look."""
        for shard, host in self._hosts.items():
            wake = view.wakes.get(shard)
            known = None if before is None else before.wakes.get(shard)
            nearer = wake is not None and (known is None or wake < known)
            # An engine without the lock has not led yet, or has lost its session; its next pass leads again.
            if nearer or view.owners[shard] is None or (wake is not None and wake <= view.now_ms):
                host.wake()

    def _locked_in_vain(self, view: View) -> list[int]:
        mine = [shard for shard, owner in enumerate(view.owners) if owner == self.me.owner]
        return [shard for shard in mine if shard not in self._hosts and shard not in self._leaving]

    # Taking and giving

    async def _take(self, shard: int) -> None:
        if shard in self._hosts or self._draining:
            return
        store = self._store.shard(shard)
        pace = self._pace._replace(beside=partial(self._occupied_beside, shard))
        host = Host(
            self._door,
            store,
            self._launcher,
            self._clock,
            partial(self._hear, shard),
            pace=pace,
            retention=self._retention,
            owner=self.me.owner,
            is_watched=False,
        )
        await host.open()
        self._hosts[shard], self._taken_at[shard] = host, self._clock.epoch_ms()
        host.start()

    def _occupied_beside(self, shard: int) -> int:
        return sum(host.occupied for other, host in self._hosts.items() if other != shard)

    async def _give(self, shards: Iterable[int]) -> None:
        """Begin to hand over the shards that have no run in flight; the others wait for a later look."""
        for shard in shards:
            host = self._hosts.get(shard)
            if host is None or shard in self._leaving:
                continue
            if host.in_flight:
                # Cancel runs of removed schedules: nothing else ends them, and they would keep the shard.
                await host.cancel_outlived()
            else:
                task = asyncio.create_task(self._hand_over(shard, host), name=f"dutiful-hand-over-{shard}")
                self._leaving[shard] = task
                task.add_done_callback(partial(self._note_hand_over, shard))

    def _note_hand_over(self, shard: int, _: asyncio.Task[None]) -> None:
        self._leaving.pop(shard, None)

    async def _hand_over(self, shard: int, host: Host) -> None:
        """Release a shard, unless the last pass of its engine has launched a run that takes longer."""
        left = await host.drain(_HAND_OVER_S)
        if not left.in_flight and not left.unrecorded:
            await self._release(shard)
        elif not self._draining:
            # Releasing now would drop the run. Its neighbours must not wait for it, so the engine goes on.
            self._taken_at[shard] = self._clock.epoch_ms()
            host.resume()

    async def _release(self, shard: int) -> None:
        """Release a shard; its runs in flight are dropped here, and adopted by the next leader.

        Gives up where the store does not answer: the end of the session, or a later look, frees the lock.
        """
        host = self._hosts.pop(shard, None)
        if host is not None:
            led = host.epoch is not None
            self._due_before += host.schedules_due
            with contextlib.suppress(DutifulError, OSError, TimeoutError):
                async with asyncio.timeout(self._lease_s / 2):
                    await host.close()
            if led:
                self._hear(shard, happened.LeadershipChanged(self._clock.epoch_ms(), None))

    async def _finish_hand_overs(self) -> None:
        if self._leaving:
            await asyncio.wait([*self._leaving.values()], timeout=0)

    # Events

    def _hear(self, shard: int, event: Event) -> None:
        match event:
            case happened.LeadershipChanged():
                event = happened.LeadershipChanged(event.at, event.epoch, shard)
            case happened.ClockStepped():
                # Every engine notices the same clock step, so report it once.
                told, self._stepped_at = self._stepped_at, event.at
                if told is not None and abs(event.at - told) < _SAME_STEP_MS:
                    return
        self._tell(event)

    def _tell(self, event: Event) -> None:
        # A broken observer must not end the looks, which keep the locks of this process alive.
        with contextlib.suppress(Exception):
            self._observer(event)
