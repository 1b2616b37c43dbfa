"""An open database: its connections, lock session, texts, and outgoing hints."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections import defaultdict
from typing import TYPE_CHECKING

from dutiful.core.errors import StoreError
from dutiful.runtime.clock import boottime
from dutiful.runtime.ports import Leader
from dutiful.stores.postgres import migration
from dutiful.stores.postgres.connections import EDITS, PASS_SETTINGS, PASSES, Connections
from dutiful.stores.postgres.due_index import DueFrom
from dutiful.stores.postgres.edits import Places
from dutiful.stores.postgres.interned_texts import Texts
from dutiful.stores.postgres.lock_session import LockSession, pooled
from dutiful.stores.postgres.locked_rows import LockedRows
from dutiful.stores.postgres.migration import lock_class

if TYPE_CHECKING:
    from collections.abc import Collection

    from dutiful.stores.postgres.connections import Address, Session

_LEADER = (
    "SELECT pid, since, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM shards"
    " WHERE shard = $1 AND owner IS NOT NULL AND EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = $2::bigint::oid AND objid = $1::bigint::oid AND objsubid = 2 AND granted)"
)
# Mark the session with a token, and return the backend process that serves it.
_SIGN = "SELECT set_config('dutiful.session', $1, false), pg_backend_pid()"
_SIGNED = "SELECT current_setting('dutiful.session', true), pg_backend_pid()"
# Connections per pool; a pass does two things at once.
_POOL = 2
# Do not wait for the disk: a lost hint only delays other processes until their next look.
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
# At most one hint is sent in this time (s); those that follow it sooner are sent as one.
_BUNDLED_S = 0.005
# A store that closes waits this long (s) for its last hint to be sent.
_FLUSH_WITHIN_S = 1.0


class OpenDatabase:
    """The parts that the shards of one opened store share: connections, lock session, texts, namespace."""

    def __init__(self, address: Address, namespace: str, shards: int, lease: float, schema: str) -> None:
        self.address, self.namespace, self._shards_wanted = address, namespace, shards
        self.passes = Connections(address, _POOL, PASSES, PASS_SETTINGS)
        self.edits = Connections(address, _POOL, EDITS)
        self.lock = LockSession(address, lease)
        self.hints = Hints(self.edits, schema, namespace)
        self.texts = Texts()
        self.shard_class, self.node_class = lock_class("shard", schema), lock_class("node", schema)
        # By place; and the highest epoch that this process has seen, its own or another's.
        self.due_from = defaultdict[int, DueFrom](DueFrom)
        self.locked_rows = defaultdict[int, LockedRows](LockedRows)
        self.epochs = defaultdict[int, int](int)
        self.is_open = True
        self._places: Places | None = None

    async def places(self) -> Places:
        """Return the shards of the namespace; create the namespace if it does not exist."""
        found = await self.find_places()
        if found is None:
            shards = await self.edits.work(
                lambda session: migration.make_namespace(session, self.namespace, self._shards_wanted)
            )
            self._places = found = Places(shards)
        return found

    async def find_places(self) -> Places | None:
        """Return the shards of the namespace, or None if it does not exist; never creates it."""
        if self._places is None:
            found = await self.edits.work(lambda session: migration.find_shards(session, self.namespace))
            self._places = Places(found) if found else None
        return self._places

    async def open_lock(self) -> None:
        """Open the lock session if it is not open; raise StoreError behind a transaction pooler."""
        if not self.lock.is_open:
            await self.lock.open()
            await self._check_session()

    async def _check_session(self) -> None:
        """Raise StoreError where the lock session changes its backend beside other transactions."""
        token = secrets.token_hex(8)
        signed = await self.lock.ask(lambda session: session.row(_SIGN, token))

        async def compare() -> bool:
            return bool(signed == await self.lock.ask(lambda session: session.row(_SIGNED)))

        async def beside_one(session: Session) -> bool:
            async with session.transaction():
                return await compare()

        async def beside_two(session: Session) -> bool:
            async with session.transaction():
                return await self.edits.work(beside_one)

        if not await self.passes.work(beside_two):
            await self.lock.close()
            raise pooled(self.address)

    def hint(self, places: Collection[int]) -> None:
        """Tell all processes, this one too, that wakes were written in these shards."""
        self.heard(places)
        self.hints.send(places)

    def heard(self, places: Collection[int]) -> None:
        """Note that wakes were written in these shards, perhaps for a time that is past."""
        for place in places:
            self.due_from[place].forget(boottime())

    def note_epoch(self, place: int, epoch: int) -> None:
        """Note an epoch of a shard: a lower one later means that the database has lost commits."""
        self.epochs[place] = max(self.epochs[place], epoch)

    async def leader_of(self, shard: int) -> Leader | None:
        """Return the process that leads a shard, or None."""
        row = await self.passes.work(lambda session: session.row(_LEADER, shard, self.shard_class))
        return None if row is None else Leader._make(row)

    async def close(self) -> None:
        """Close all connections, which frees the locks."""
        self.is_open = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_WITHIN_S):
                await self.hints.flush()
        await asyncio.gather(self.lock.close(), self.passes.close(), self.edits.close())


class Hints:
    """Tells other processes which shards were written to. Hints may be lost, and sending never blocks."""

    def __init__(self, connections: Connections, schema: str, namespace: str) -> None:
        digest = hashlib.sha256(f"{schema}:{namespace}".encode()).hexdigest()
        self.channel, self._connections = f"dutiful_{digest[:16]}", connections
        self._waiting: set[int] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._sent_at = 0.0

    def send(self, places: Collection[int] = ()) -> None:
        """Send a hint for these shards; no places means that members, locks or drain requests changed."""
        if self._waiting is not None:
            self._waiting.update(places)
            return
        self._waiting = {*places}
        task = asyncio.get_running_loop().create_task(self._send_soon(), name="dutiful-hint")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_soon(self) -> None:
        pause = self._sent_at + _BUNDLED_S - boottime()
        if pause > 0:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=pause)
        self._sent_at = boottime()
        await self.flush()

    async def flush(self) -> None:
        """Send the waiting hints."""
        places, self._waiting = self._waiting, None
        if places is not None:
            payload = ",".join(map(str, sorted(places)))
            with contextlib.suppress(StoreError):
                await self._connections.work(lambda session: session.rows(_NOTIFY, self.channel, payload))


def places_of(payload: str) -> list[int]:
    """Return the places in a hint; an empty list for the payload of another program."""
    parts = payload.split(",")
    return [int(part) for part in parts if part.isdecimal()]
