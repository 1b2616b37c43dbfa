"""`PostgresStore`: the contract of `ports.Store` on a PostgreSQL database that many processes share."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, TypeVar

from dutiful.core.errors import StoreError
from dutiful.stores.integrity import Inconsistency
from dutiful.stores.postgres import migration, transfer
from dutiful.stores.postgres.connections import parse_address
from dutiful.stores.postgres.copied import wait_for_edits
from dutiful.stores.postgres.database import OpenDatabase
from dutiful.stores.postgres.membership import Membership
from dutiful.stores.postgres.namespace_store import NamespaceStore
from dutiful.stores.postgres.shard_store import Shard
from dutiful.stores.schema import migrations
from dutiful.stores.transfer import COPIER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Changes
    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.snapshot import Move
    from dutiful.runtime.cluster_ports import Member, View
    from dutiful.runtime.ports import Committed, Leader, Loaded, Retention
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.edits import Places
    from dutiful.stores.rows import Row
    from dutiful.stores.transfer import Facts

T = TypeVar("T")
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)
# One statement, and therefore one snapshot: a pass changes runs and counts in one transaction.
_COUNTS = (
    "SELECT id, open_runs, in_flight, open_from, count(phase) AS open,"
    " count(phase) FILTER (WHERE phase IN ('launched', 'accepted')) AS flying, min(run_at) AS first"
    " FROM declarations JOIN states USING (number) LEFT JOIN runs ON schedule = number AND phase <> 'ended'"
    " WHERE namespace = $1 GROUP BY number, id, open_runs, in_flight, open_from"
    " HAVING open_runs <> count(phase) OR min(run_at) < coalesce(open_from, min(run_at) + 1)"
    " OR in_flight <> count(phase) FILTER (WHERE phase IN ('launched', 'accepted'))"
)
_PLACED = "SELECT id, capacity_group, shard FROM declarations JOIN states USING (number) WHERE namespace = $1"
_UNDECLARED = (
    "SELECT states.number FROM states JOIN shards USING (shard)"
    " LEFT JOIN declarations ON declarations.number = states.number"
    " WHERE shards.namespace = $1 AND declarations.number IS NULL"
)


class PostgresStore(NamespaceStore):
    """Keeps everything in one schema of a database; schedules of different namespaces do not see each other.

    A namespace has `shards` shards, fixed when it is created. A namespace with one shard is led as a whole;
    with several shards each is led by itself. A leader that is silent for `lease` seconds loses its locks.
    One store belongs to one event loop.
    """

    def __init__(self, url: str, *, namespace: str = "default", shards: int = 1, lease: float = 5.0) -> None:
        self._address, self._namespace = parse_address(url), namespace
        self._shards_wanted, self._lease = shards, lease
        self._database_or_none: OpenDatabase | None = None
        self._process = os.getpid()
        self._shards: dict[int, Shard] = {}

    @property
    def _database(self) -> OpenDatabase:
        shown = self._address.shown
        if self._database_or_none is None:
            raise StoreError(f"The database {shown} is not open", "call open() first", store=shown)
        if self._process != os.getpid():
            problem = f"The database {shown} was opened by a parent process"
            raise StoreError(problem, "open a store of its own in each process", store=shown)
        return self._database_or_none

    async def open(self) -> None:
        """Migrate the schema, or raise StoreError and leave it as it is."""
        if self._database_or_none is not None:
            return
        schema = await migration.bring_up_to_date(self._address, migrations("postgres"))
        self._process = os.getpid()
        self._database_or_none = database = OpenDatabase(
            self._address, self._namespace, self._shards_wanted, self._lease, schema
        )
        self._membership = Membership(database)

    async def close(self) -> None:
        """Release the shards that this process leads, and close all connections."""
        if self._database_or_none is None:
            return
        database = self._database
        try:
            await self.leave()
        finally:
            self._database_or_none, self._shards = None, {}
            await database.close()

    async def _read(self, job: Callable[[Session], Awaitable[T]], *, soon: bool = False) -> T:
        # A namespace with one shard is led through this store, so its leader reads through it, too.
        if 0 in self._shards and len((await self._database.places()).shards) == 1:
            await self._shards[0].end_transit()
        return await super()._read(job, soon=soon)

    # A cluster

    async def join(self, me: Member, hinted: Callable[[Collection[int]], None]) -> None:
        """Make this process a member of the cluster; `hinted` is called when other processes write."""
        await self._joined().join(me, hinted)

    async def look(self) -> View:
        """Return the cluster as it is now, and keep the session of this process alive."""
        return await self._joined().look()

    async def drain(self, owner: str, draining: bool) -> bool:
        """Record whether a member must give its shards away."""
        return await self._joined().drain(owner, draining)

    async def leave(self) -> None:
        """Release every shard and end the membership; gives up after a lease without answers."""
        # By then the server ends the session, and frees its locks, by itself.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._lease / 2):
                await asyncio.gather(*(shard.close() for shard in self._shards.values()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._lease / 2):
                await self._joined().leave()

    def _joined(self) -> Membership:
        assert self._database.is_open
        return self._membership

    def shard(self, place: int) -> Shard:
        """Return the store of one shard, the same one each time; it is open while this store is."""
        if place not in self._shards:
            self._shards[place] = Shard(place, self._database)
        return self._shards[place]

    async def _only(self) -> Shard:
        places = await self._database.places()
        if len(places.shards) != 1:
            problem = (
                f"The namespace {self._namespace!r} of {self._address.shown} has {len(places.shards)} shards"
            )
            raise StoreError(
                problem, "lead each of them by itself, as `dutiful worker` does", store=self._address.shown
            )
        return self.shard(0)

    async def size(self) -> int:
        """Return how many bytes the tables of all namespaces and their indexes take on disk."""
        return int(await self._read(lambda session: session.value(_SIZE)))

    async def inconsistencies(self) -> list[Inconsistency]:
        """Return the schedules whose derived columns are not what they should be."""
        places = await self._database.find_places()
        if places is None:
            return []
        return await self._read(lambda session: _inconsistencies(session, self._namespace, places))

    # Copies

    async def begin_transfer(self) -> Facts | None:
        """Lead all shards and return the facts of the namespace; None while another process leads one."""
        places = await self._database.places()
        led = [await self.shard(place).lead(COPIER) for place in range(len(places.shards))]
        if None in led:
            return None
        await self._read(lambda session: wait_for_edits(session, self._namespace))
        return await self._read(lambda session: transfer.facts(session, self._namespace))

    async def read_rows(self, table: str, after: Row | None, limit: int) -> list[Row]:
        """Return rows in the order of their keys."""
        return await self._read(
            lambda session: transfer.read_rows(session, self._namespace, table, after, limit)
        )

    async def write_rows(self, table: str, rows: Sequence[Row], offset: int) -> None:
        """Write rows unchanged."""
        places = await self._database.places()
        await self._write(
            lambda session: transfer.write_rows(session, self._namespace, places, table, rows, offset)
        )

    async def highest_number(self) -> int:
        """Return the highest number that any schedule has had."""
        return await self._read(transfer.highest_number)

    async def clear(self) -> None:
        """Delete everything in the namespace, and mark it as a copy in progress."""
        await self._write(lambda session: transfer.clear(session, self._namespace))

    async def count_rows(self, table: str) -> int:
        """Return how many rows of the namespace a table has."""
        return await self._read(lambda session: transfer.count_rows(session, self._namespace, table))

    async def finish(self, facts: Facts) -> None:
        """Complete the derived values, and give the namespace to its door."""
        await self._write(lambda session: transfer.finish(session, self._namespace, facts))

    # A namespace of one shard is led as a whole.

    async def leader(self) -> Leader | None:
        """Return the process that leads the namespace; None where it has more than one shard."""
        places = await self._database.find_places()
        return await self.shard(0).leader() if places is not None and len(places.shards) == 1 else None

    async def lead(self, owner: str) -> int | None:
        """Return the epoch of `owner`, or None while another owner leads."""
        return await (await self._only()).lead(owner)

    def holds(self, epoch: int) -> bool:
        """Return whether this store leads under the epoch."""
        return 0 in self._shards and self._shards[0].holds(epoch)

    async def apply(self, changes: Changes) -> None:
        """Write and delete schedules."""
        await (super().apply(changes) if changes.under is None else (await self._only()).apply(changes))

    async def load(self, now: Instant, limit: int, also: Collection[str] = ()) -> Loaded:
        """Return the due schedules, and those with these ids."""
        return await (await self._only()).load(now, limit, also)

    async def commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        """Record the moves; return which were made, and the runs to launch."""
        return await (await self._only()).commit(moves, epoch)

    async def settle(self, settlements: Sequence[Settlement], epoch: int) -> Sequence[bool | None]:
        """Record the outcomes of attempts."""
        return await (await self._only()).settle(settlements, epoch)

    async def rearm(self, now: Instant, beyond: int) -> int:
        """Re-arm the schedules that are far ahead of `now`."""
        return await (await self._only()).rearm(now, beyond)

    async def prune(self, now: Instant, retention: Retention) -> int:
        """Delete ended rows beyond the retention."""
        return await (await self._only()).prune(now, retention)


async def _inconsistencies(session: Session, namespace: str, places: Places) -> list[Inconsistency]:
    """Return the schedules whose derived columns are not what they should be."""
    found = [
        Inconsistency(
            row["id"],
            f"its state has open_runs {row['open_runs']}, in_flight {row['in_flight']} and open_from"
            f" {row['open_from']}, and its ledger {row['open']}, {row['flying']} and {row['first']}",
        )
        for row in await session.rows(_COUNTS, namespace)
    ]
    for schedule_id, group, shard in await session.rows(_PLACED, namespace):
        right = places.shards[places.place(schedule_id, group)]
        if shard != right:
            found.append(Inconsistency(schedule_id, f"is in shard {shard}, and belongs to shard {right}"))
    rows = await session.rows(_UNDECLARED, namespace)
    return found + [Inconsistency("", f"the state {number} has no declaration") for (number,) in rows]
