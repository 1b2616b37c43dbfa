"""The nodes of a simulated cluster: each with a wrong clock, a way to the database, and a launcher."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from tests.sim.executor import Executor
from tests.sim.recorder import key_of
from tests.sim.sharded import LEASE, NodeStore

from dutiful.core.run import IN_FLIGHT, Phase
from dutiful.runtime.cluster import Cluster
from dutiful.runtime.cluster_clock import SampledClock
from dutiful.runtime.cluster_ports import Member
from dutiful.runtime.engine import Settings

if TYPE_CHECKING:
    import asyncio

    from tests.sim.town import Town

    from dutiful.core.event import Event
    from dutiful.runtime.ports import Launch
    from dutiful.testing import VirtualClock


class NodeClock:
    """A node's clock: its own wall clock is wrong, and the database's is read through samples."""

    def __init__(self, true: VirtualClock, skew: int) -> None:
        self._true, self._skew, self._database = true, skew, SampledClock()
        self.timezone = true.timezone

    def sample(self, sent: float, answered: float, said: int) -> None:
        self._database.sample(sent, answered, said)

    def offset_ms(self) -> int | None:
        return self._skew

    def epoch_ms(self) -> int:
        known = self._database.is_set
        return self._database.read(self._true.monotonic()) if known else self._true.epoch_ms() + self._skew

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.epoch_ms() / 1000, UTC)

    def monotonic(self) -> float:
        return self._true.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._true.sleep(seconds)

    async def wait(self, woken: asyncio.Future[None], seconds: float) -> None:
        await self._true.wait(woken, seconds)

    def hold(self) -> Any:
        """Time goes on during a call of the store, as it does in a network."""
        return nullcontext()


class NodeExecutor(Executor):
    """The launcher of one node, which judges each call by what the node could know."""

    def __init__(self, town: Town, store: NodeStore, *args: Any) -> None:
        super().__init__(*args)
        self._town, self._store = town, store

    async def launch(self, launch: Launch) -> Any:
        key, now = key_of(launch.run), self._clock.epoch_ms()
        if launch.run.attempt == 1 and now < launch.run.fire_at and launch.run.kind == "schedule":
            self._recorder.complain("early", f"{key} was launched at {now}, before {launch.run.fire_at}")
        if self._clock.monotonic() >= self._store.trusted_until:
            self._recorder.complain("doubt", f"{key} was launched when the session might have ended")
        return await super().launch(launch)

    async def _note(self, launch: Launch, manner: str) -> None:
        run, key = launch.run, key_of(launch.run)
        row = await self._recorder.peek(key)
        self._tell("call", *key, run.attempt, manner)
        self._town.note_call(self, key, run.attempt, manner)
        self._recorder.record.pending.discard((key, run.attempt))
        standing = row is not None and (row.attempt, row.phase) == (run.attempt, Phase.LAUNCHED)
        # A session that the server ended is believed until the node hears of it: one more call can be made.
        excused = self._town.is_deceived(self._store) or key[0] in self._recorder.record.removed
        if not standing and not excused:
            self._recorder.complain("durable", f"{key} was launched while its row was {row}")
        self._check_group(launch)

    def _check_group(self, launch: Launch) -> None:
        """A group has no more runs in flight than allowed, counted over all shards."""
        capacity = launch.schedule.policy.capacity
        if capacity is None or launch.run.attempt > 1:
            return
        rows = [row for shard in self._town.database.shards for row in shard.memory._rows.values()]
        group = [row for row in rows if row.group() == capacity.group]
        # Schedules may name different limits for their group; each keeps to its own when it begins.
        most = max(row.schedule.policy.capacity.limit for row in group)
        used = [run for row in group for run in row.open.values() if run.phase in IN_FLIGHT]
        if len(used) > most:
            self._recorder.complain("capacity", f"{key_of(launch.run)} began beside {used}")

    def _check_given_up(self, run: Any) -> None:
        """A node drops what it carries when it has lost the shard; the row says so only afterwards."""


class Node:
    """A process: a cluster, its way to the database, its launcher."""

    def __init__(self, town: Town, number: int) -> None:
        self.town, self.number = town, number
        self.name = f"node-{number}"
        skew = town.plan.skews[number % len(town.plan.skews)]
        self.store = NodeStore(town.database, Random(f"way:{town.plan.world.seed}:{number}"))
        self.executor = NodeExecutor(
            town, self.store, town.plan.world, town.clock, town.namespace, lambda: None,
            town.now, town.tell, town.look_after,
        )  # fmt: skip
        self.executor.engine = number
        self.executor.reports, self.executor.healing = town.reports, town.healing
        settings = Settings(
            batch=town.plan.world.batch, in_flight_max=town.plan.world.in_flight_max, retry_after=1000
        )
        self.cluster = Cluster(
            "service", self.store, self.executor, NodeClock(town.clock, skew), self._hear,
            Member(f"owner-{number}", self.name, "1", number), pace=settings, lease_s=LEASE,
        )  # fmt: skip

    def _hear(self, event: Event) -> None:
        self.town.hear(self, event)

    async def start(self) -> None:
        await self.cluster.open()
        self.cluster.start()
        self.cluster._looking.add_done_callback(self.town.look_after)

    def kill(self) -> None:
        """End the process: its socket closes, so the server ends the session at once."""
        self.executor.engine = None
        self.cluster.abandon()
        if self.store.session is not None:
            self.store.session.ended = True
        self.store.dead = True

    async def stop(self) -> None:
        drained = await self.cluster.drain(within=0)
        if drained.in_flight:
            drained = await self.cluster.drain(within=5)
        self.executor.engine = None
        await self.cluster.close()
        self.store.dead = True
