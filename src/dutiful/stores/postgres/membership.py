"""The members of a namespace: its processes, and the leader of each shard."""

# ruff: noqa: S608 - the statements are made of words written down here, never of values

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from dutiful.core.errors import StoreError
from dutiful.runtime.clock import boottime
from dutiful.runtime.cluster_ports import Member, View
from dutiful.stores.postgres.database import places_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.database import OpenDatabase

_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_JOIN = (
    "INSERT INTO nodes (namespace, owner, name, release, pid, joined_at)"
    f" VALUES ($1, $2, $3, $4, $5, {_NOW_MS})"
    " ON CONFLICT (owner) DO UPDATE SET name = excluded.name RETURNING node"
)
# Keep the rows of processes that ended without leaving for a day, for people to read.
_FORGET = (
    "DELETE FROM nodes WHERE namespace = $1"
    f" AND joined_at < {_NOW_MS} - 86400000 AND node <> ALL (SELECT objid::bigint FROM pg_locks"
    " WHERE locktype = 'advisory' AND classid = $2::bigint::oid AND objsubid = 2)"
)
# One statement, so that all of it is of one moment: locks, rows, and the next wake of each shard. $1 is the
# namespace, $2 and $3 the classes of the locks of shards and nodes, $4 whether only the shards whose lock
# this session holds have a wake, $5 the wakes from which the shards are read, $6 the schedules that are left
# out. A lock belongs to the member whose node is locked by the same session.
_LOOK = (
    "WITH locks AS MATERIALIZED (SELECT classid::bigint AS class, objid::bigint AS key, pid FROM pg_locks"
    " WHERE locktype = 'advisory' AND objsubid = 2 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),"
    " members AS MATERIALIZED (SELECT nodes.*, locks.pid AS backend FROM nodes JOIN locks"
    " ON class = $3 AND key = node WHERE namespace = $1),"
    " held AS (SELECT place, epoch, shards.owner AS claim, locks.pid,"
    " CASE WHEN locks.pid IS NOT NULL THEN coalesce(members.owner, shards.owner) END AS holder,"
    " CASE WHEN NOT $4 OR locks.pid = pg_backend_pid() THEN (SELECT json_build_array(wake_at) FROM (SELECT"
    " wake_at"
    " FROM states WHERE states.shard = shards.shard AND wake_at >= ($5::bigint[])[place + 1]"
    " AND number NOT IN (SELECT unnest($6::bigint[]))"
    " ORDER BY wake_at, number LIMIT 1) AS first) END AS wake"
    " FROM shards LEFT JOIN locks ON class = $2 AND key = shards.shard"
    " LEFT JOIN members ON members.backend = locks.pid WHERE shards.namespace = $1)"
    f" SELECT {_NOW_MS} AS now_ms, pg_backend_pid() AS backend,"
    " (SELECT json_agg(json_build_array(owner, name, release, pid, joined_at, draining) ORDER BY joined_at,"
    " node)"
    " FROM members) AS members,"
    " (SELECT json_agg(json_build_array(holder, claim, epoch, wake, NOT $4 OR pid IS NOT DISTINCT FROM"
    " pg_backend_pid()) ORDER BY place) FROM held) AS shards"
)


class Membership:
    """The membership of one process in a namespace."""

    def __init__(self, database: OpenDatabase) -> None:
        self._database = database
        self._me: Member | None = None
        self._node: int | None = None

    async def join(self, me: Member, hinted: Callable[[Collection[int]], None]) -> None:
        """Become a member, and receive hints from now on."""
        database = self._database
        await database.places()
        self._me = me
        database.lock.on_regained = self._lock_node
        await database.open_lock()

        def hear(payload: str) -> None:
            places = places_of(payload)
            database.heard(places)
            hinted(places)

        await database.lock.listen(database.hints.channel, hear)
        await database.edits.work(
            lambda session: session.run(_FORGET, database.namespace, database.node_class)
        )
        await self._lock_node()

    async def _lock_node(self) -> None:
        database, me = self._database, self._me
        if me is None:
            return
        values = database.namespace, me.owner, me.name, me.release, me.pid
        self._node = node = await database.edits.work(lambda session: session.value(_JOIN, *values))
        if await database.lock.try_lock(database.node_class, node) is None:
            problem = f"The member {me.name!r} of {database.address.shown} is still held by its last session"
            raise StoreError(problem, "it ends by itself within a lease; it is tried again")
        database.hints.send()

    async def look(self) -> View:
        """Return the members and shards as they are now, and keep the session alive."""
        database, joined = self._database, self._me is not None
        places = await database.find_places()
        shards = range(len(places.shards)) if places is not None else ()

        async def ask(session: Session) -> View:
            began = boottime()
            since = [database.due_from[place].at(began) for place in shards]
            # The engines look at the locked schedules by themselves, and their wakes would hide all others.
            locked = [number for place in shards for number in database.locked_rows[place].numbers]
            values = database.namespace, database.shard_class, database.node_class, joined, since, locked
            row = await session.row(_LOOK, *values)
            if joined:
                database.lock.check_backend(row["backend"])
            view = _view(row["now_ms"], json.loads(row["members"] or "[]"), json.loads(row["shards"] or "[]"))
            for place, epoch in enumerate(view.epochs):
                database.note_epoch(place, epoch)
            for place, wake in view.wakes.items():
                if not database.locked_rows[place].numbers:
                    database.due_from[place].found(wake, view.now_ms, began, boottime())
            return view

        view: View = await (database.lock.ask(ask) if joined else database.passes.work(ask))
        return view

    async def drain(self, owner: str, draining: bool) -> bool:
        """Record whether a member must give its shards away."""
        statement = "UPDATE nodes SET draining = $3 WHERE namespace = $1 AND owner = $2"
        values = self._database.namespace, owner, draining
        found = await self._database.edits.work(lambda session: session.run(statement, *values))
        self._database.hints.send()
        return found > 0

    async def leave(self) -> None:
        """End the membership."""
        me, node, self._me = self._me, self._node, None
        if me is None:
            return
        database = self._database
        database.lock.on_regained = None
        with contextlib.suppress(StoreError):
            await database.edits.work(
                lambda session: session.run("DELETE FROM nodes WHERE owner = $1", me.owner)
            )
            if node is not None:
                await database.lock.unlock(database.node_class, node)
        database.hints.send()
        await database.hints.flush()


def _view(now_ms: int, members: list[list[object]], shards: list[list[object]]) -> View:
    holders, claims, epochs, wakes, asked = zip(*shards, strict=True) if shards else ((), (), (), (), ())
    first = {place: None if wake is None else wake[0] for place, wake in enumerate(wakes) if asked[place]}
    return View(now_ms, tuple(Member._make(each) for each in members), holders, claims, epochs, first)
