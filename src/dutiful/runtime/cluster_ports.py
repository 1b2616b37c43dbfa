"""The interface that a cluster of engines needs: a store in shards, and the processes that lead them.

The contract is in the docstrings; `tests/stores/test_postgres_shards.py` tests it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dutiful.core.cadence import Instant
    from dutiful.runtime.ports import Store


class Member(NamedTuple):
    """A process that has joined a cluster. It is a member as long as its session with the store lives."""

    # A UUID, made anew at every start of a process; the `owner` that the process passes to `Store.lead`.
    owner: str
    # For people: the host and the process id, or the name that the operator gave to the node.
    name: str
    release: str
    pid: int
    # Written by the store when the process joins.
    joined_at: Instant = 0
    # Whether an operator has asked the process to give its shards away and to take no others.
    draining: bool = False


class View(NamedTuple):
    """A cluster as one statement saw it. Tuples by place have one entry for every shard of the namespace."""

    # The clock of the database, in epoch milliseconds.
    now_ms: Instant
    # Living processes only, in the order in which they joined.
    members: tuple[Member, ...]
    # By place, the process that holds the lock of the shard; None: the lock is free.
    owners: tuple[str | None, ...]
    # By place, the process that the row of the shard names: the last leader, unless it released the shard.
    # A claim without an owner belongs to a process that died or lost its session.
    claims: tuple[str | None, ...]
    # By place, the epoch in the row of the shard; 0: no process has led it yet.
    epochs: tuple[int, ...]
    # The earliest wake of each shard, None where no schedule has one. Only of shards that the asking process
    # leads; a store that has not joined answers for all shards.
    wakes: Mapping[int, Instant | None]


@runtime_checkable
class Sharded(Protocol):
    """A store whose namespace is divided into shards, each led by one of many processes.

    A schedule with a capacity group lives in the shard of its group, every other schedule in that of its id.
    """

    async def join(self, me: Member, hinted: Callable[[Collection[int]], None]) -> None:
        """Make this process a member of the cluster; raises StoreError where the store cannot be used.

        `hinted` is called on the running event loop with the places of shards that other processes have
        written to, and with no place when members, locks or requests to drain have changed. A hint may be
        lost. The store itself makes a lost session anew, and joins again as the same member.
        """

    async def look(self) -> View:
        """Return the cluster as it is now, and keep the session of this process alive.

        Raises StoreError while the session is lost. A store that has not joined may look, too.
        """

    def shard(self, place: int) -> Store:
        """Return the store of one shard, the same one each time; it is open while this store is.

        Its `lead` takes the lock of the shard, and raises StoreError while it is in doubt whether the lock is
        still held. Its `close` releases the shard: it clears the claim, frees the lock and hints the others.
        The next `lead` of any process then has a new epoch.
        """

    async def drain(self, owner: str, draining: bool) -> bool:
        """Record whether a member is to give its shards away, and hint it; False: there is no such member."""

    async def leave(self) -> None:
        """Release every shard and stop being a member; hints the others."""
