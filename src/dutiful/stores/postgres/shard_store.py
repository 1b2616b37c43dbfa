"""One shard of a namespace: its leadership, and the schedules of one engine."""

# ruff: noqa: S608 - the statements are made of words written down here, never of values

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from asyncpg.exceptions import LockNotAvailableError

from dutiful.core.errors import DutifulError, LostLeadershipError, StoreError
from dutiful.stores.postgres import edits, reads, upkeep
from dutiful.stores.postgres.commit import commit
from dutiful.stores.postgres.locked_rows import adopt_free, lock_free
from dutiful.stores.postgres.namespace_store import NamespaceStore
from dutiful.stores.postgres.settle import settle
from dutiful.stores.postgres.statements import ORPHANS_ARE_DUE, Fence, check, give_rows_to_shard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.changes import Changes
    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.run import Run
    from dutiful.core.snapshot import Move
    from dutiful.runtime.ports import Committed, Leader, Loaded, Retention
    from dutiful.stores.postgres.connections import Session
    from dutiful.stores.postgres.database import OpenDatabase
    from dutiful.stores.postgres.locked_rows import LockedRows
    from dutiful.stores.rows import Damage

T = TypeVar("T")
logger = logging.getLogger("dutiful.stores")
_ROLLED_BACK = (
    "StoreRolledBack: %s has lost commits, its epoch is %d after it was %d; runs since then may run again:"
    " use a synchronous standby"
)
_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# Makes the fence of all earlier writes of this leadership invalid, unless another process has led since. The
# turn itself is not compared: this statement may have been applied before, without an answer.
_NEW_TURN = "UPDATE shards SET turn = turn + 1 WHERE shard = $1 AND owner = $2 AND epoch = $3 RETURNING turn"
_BEGIN = (
    "UPDATE shards SET epoch = greatest(epoch, $2) + 1, turn = 0, owner = $3, pid = $4,"
    f" since = {_NOW_MS} WHERE shard = $1 RETURNING epoch"
)
# Look at locked schedules again after this time (ms).
_LOOK_AGAIN_MS = 1000
_RELEASE = "UPDATE shards SET owner = NULL, pid = NULL WHERE shard = $1 AND epoch = $2"


class _Leading(NamedTuple):
    """A leadership: its owner, its fence, and the generation of the lock session that holds its lock."""

    owner: str
    fence: Fence
    generation: int


class Shard(NamespaceStore):
    """The store of one shard: loads its own schedules, and reads and edits those of the whole namespace."""

    def __init__(self, place: int, database: OpenDatabase) -> None:
        super().__init__(database)
        self._place = place
        self._leading: _Leading | None = None
        # Taking and releasing the lock must not overlap: session locks count how often they were taken.
        self._changing = asyncio.Lock()
        # Whether a write of this leadership may still arrive after this process stopped waiting for its
        # answer.
        self._in_transit = False
        # Held while the turn is changed, so that two readers do not change it twice.
        self._turning = asyncio.Lock()
        self._pruning = upkeep.Pruning()
        # The schedules whose runs this leadership has still to adopt, because their rows were locked.
        self._to_adopt: set[int] = set()

    # Leadership

    async def open(self) -> None:
        """Do nothing: a shard is open while its store is."""

    async def close(self) -> None:
        """Release the shard: the next leadership, of any process, has a new epoch."""
        async with self._changing:
            leading, self._leading = self._leading, None
            self._database.locked_rows.pop(self._place, None)
            if not self._database.is_open or not self._database.lock.is_open:
                return
            if leading is not None:
                fence = leading.fence
                # A failed release is harmless: others wait a moment for this process, then take the shard.
                with contextlib.suppress(StoreError):
                    await self._database.passes.work(
                        lambda session: session.run(_RELEASE, fence.shard, fence.epoch)
                    )
            # Also without a leadership: the unlock of an earlier one may have failed.
            await self._unlock(await self._number())
            self._database.hints.send()

    async def _unlock(self, shard: int) -> None:
        # A lost session has released its locks.
        with contextlib.suppress(StoreError):
            await self._database.lock.unlock(self._database.shard_class, shard)

    async def leader(self) -> Leader | None:
        """Return the process that leads this shard, or None."""
        return await self._database.leader_of(await self._number())

    async def lead(self, owner: str) -> int | None:
        """Return the epoch of `owner`, or None while another owner leads.

        Raises StoreError while it is in doubt whether the lock is held.
        """
        async with self._changing:
            leading, lock = self._leading, self._database.lock
            if leading is not None:
                if leading.owner != owner:
                    return None
                if lock.generation == leading.generation:
                    return self._trusted(leading)
            await self._database.open_lock()
            return await self._take(owner, leading)

    def _trusted(self, leading: _Leading) -> int:
        if self._database.lock.is_trusted:
            return leading.fence.epoch
        raise self._database.lock.in_doubt()

    async def _take(self, owner: str, before: _Leading | None) -> int | None:
        """Try to take the lock, and begin to lead, or continue the leadership after a reconnect."""
        lock, shard = self._database.lock, await self._number()
        generation = await lock.try_lock(self._database.shard_class, shard)
        if generation is None:
            await self._give_up(before)
            return None
        try:
            # A process that lost its session and finds the shard unchanged keeps its epoch, and its runs.
            fence = None if before is None else await self._new_turn(before)
            fence = fence or await self._begin(shard, owner)
        except BaseException:
            await self._unlock(shard)
            raise
        self._leading, self._in_transit = _Leading(owner, fence, generation), False
        self._pruning = upkeep.Pruning()
        self._database.heard([self._place])
        self._database.note_epoch(self._place, fence.epoch)
        return fence.epoch

    async def _give_up(self, before: _Leading | None) -> None:
        """Stop leading where another process has the lock; raise StoreError while that is in doubt."""
        if before is None:
            return
        epoch = await self._database.passes.work(
            lambda session: session.value("SELECT epoch FROM shards WHERE shard = $1", before.fence.shard)
        )
        if epoch == before.fence.epoch:
            # The lock is held by this process's own old session, or by a process that has not begun to lead.
            raise self._database.lock.in_doubt()
        self._leading = None

    async def _new_turn(self, leading: _Leading) -> Fence | None:
        """Return the fence of a leadership with a new turn, None where another process has led since."""
        shard, epoch, _ = leading.fence
        turn = await self._database.passes.work(
            lambda session: session.value(_NEW_TURN, shard, leading.owner, epoch)
        )
        return None if turn is None else Fence(shard, epoch, turn)

    async def _begin(self, shard: int, owner: str) -> Fence:
        highest = self._database.epochs[self._place]

        async def begin(session: Session) -> int:
            before = await session.value("SELECT epoch FROM shards WHERE shard = $1 FOR UPDATE", shard)
            if before < highest:
                # The next epoch is above both, so that receivers never see an epoch twice.
                logger.error(_ROLLED_BACK, self._database.address.shown, before, highest)
            epoch: int = await session.value(_BEGIN, shard, highest, owner, os.getpid())
            repaired = await reads.repaired(session, self._database.texts, self._database.namespace)
            await edits.unmark(session, await lock_free(session, repaired))
            return epoch

        async def work(session: Session) -> tuple[int, set[int]]:
            try:
                async with session.transaction():
                    epoch = await begin(session)
                    await give_rows_to_shard(session, shard)
                    await session.run(ORPHANS_ARE_DUE, shard)
                    return epoch, set()
            except LockNotAvailableError:
                async with session.transaction():
                    return await begin(session), await adopt_free(session, shard)

        epoch, self._to_adopt = await self._database.edits.work(work)
        return Fence(shard, epoch, 0)

    def holds(self, epoch: int) -> bool:
        """Return whether this process leads under the epoch, and its session cannot have ended yet."""
        leading, lock = self._leading, self._database.lock
        if leading is None or leading.fence.epoch != epoch:
            return False
        return leading.generation == lock.generation and lock.is_trusted

    async def _number(self) -> int:
        return (await self._database.places()).shards[self._place]

    # Writes of the leader

    async def _fenced(self, epoch: int, job: Callable[[Session, Fence], Awaitable[T]]) -> T:
        """Return the result of a job of the leader; the job checks the fence itself."""
        await self.end_transit()
        # Compared after the wait, in which another process may have led, and this one again after it.
        leading = self._leading
        if leading is None or leading.fence.epoch != epoch:
            raise LostLeadershipError(epoch, 0 if leading is None else leading.fence.epoch)
        fence = leading.fence
        try:
            return await self._database.passes.work(lambda session: job(session, fence))
        except LostLeadershipError as error:
            if error.details["current"] == epoch:
                # Only the turn differs: a new turn that was requested earlier has arrived late.
                self._in_transit = True
            else:
                await self._depose(epoch)
            raise
        except DutifulError as error:
            self._in_transit = self._in_transit or _may_arrive(error)
            raise
        except BaseException:
            self._in_transit = True
            raise
        finally:
            # The job may have written a wake for any time.
            self._database.heard([self._place])

    async def _depose(self, epoch: int) -> None:
        """End the leadership under an epoch: another process leads in spite of the lock."""
        async with self._changing:
            leading = self._leading
            if leading is not None and leading.fence.epoch == epoch:
                self._leading = None
                await self._unlock(leading.fence.shard)

    async def end_transit(self) -> None:
        """Make sure that no earlier write can still arrive, by making its fence invalid.

        A write whose answer this process stopped waiting for may be delayed in the network, and reach the
        server after this process has asked whether it did.
        """
        async with self._turning:
            leading = self._leading
            if not self._in_transit or leading is None:
                return
            fence = await self._new_turn(leading)
            if fence is None:
                # The epoch of another process makes the fence of the earlier write invalid, too.
                await self._depose(leading.fence.epoch)
            elif self._leading is leading:
                self._leading, self._in_transit = leading._replace(fence=fence), False

    async def _read(self, job: Callable[[Session], Awaitable[T]], *, soon: bool = False) -> T:
        await self.end_transit()
        return await super()._read(job, soon=soon)

    async def apply(self, changes: Changes) -> None:
        """Write and delete schedules."""
        if changes.under is None:
            await super().apply(changes)
            return
        places = await self._database.places()

        async def work(session: Session, fence: Fence) -> None:
            async with session.transaction():
                await check(session, fence)
                await edits.apply(session, self._database.namespace, places, changes)

        await self._fenced(changes.under, work)

    # Passes

    async def load(self, now: Instant, limit: int, also: Collection[str] = ()) -> Loaded:
        """Return the due schedules and those with these ids; damaged ones are marked and left alone.

        A due schedule whose rows are known to be locked is left out: it would take the place of another one.
        """
        database = self._database
        await self.end_transit()
        shard = await self._number()
        if self._to_adopt:
            await self._adopt_rest()

        async def work(session: Session) -> tuple[Loaded, list[Damage]]:
            due_from, locked = database.due_from[self._place], await self._locked_rows.look_again(session)
            return await reads.load(
                session, database.texts, database.namespace, shard, now, limit, also, due_from, locked
            )

        while True:
            loaded, damage = await database.passes.work(work)
            if not damage:
                if self._to_adopt or self._locked_rows.numbers:
                    wakes = [now + _LOOK_AGAIN_MS, loaded.next_wake]
                    return loaded._replace(next_wake=min(wake for wake in wakes if wake is not None))
                return loaded
            await self._mark(damage)

    async def _adopt_rest(self) -> None:
        """Adopt the runs of schedules whose rows were locked when this leadership began."""

        async def work(session: Session, fence: Fence) -> set[int]:
            async with session.transaction():
                await check(session, fence)
                return await adopt_free(session, fence.shard, self._to_adopt)

        self._to_adopt = await self._fenced(self._epoch(), work)

    async def commit(self, moves: Sequence[Move], epoch: int) -> Committed:
        """Record the moves; return which were made, and the runs to launch."""

        async def work(session: Session, fence: Fence) -> Committed:
            done, locked = await self._locked_rows.beside(
                session, moves, _moved, lambda free: commit(session, fence, free)
            )
            return done._replace(locked=sum(move.due.number in locked for move in moves)) if locked else done

        return await self._fenced(epoch, work)

    async def settle(self, settlements: Sequence[Settlement], epoch: int) -> Sequence[bool | None]:
        """Record the outcomes of attempts."""

        async def work(session: Session, fence: Fence) -> Sequence[bool | None]:
            done, locked = await self._locked_rows.beside(
                session, settlements, _settled, lambda free: settle(session, fence, free)
            )
            if not locked:
                return done
            applied = iter(done)
            return [None if each.number in locked else next(applied) for each in settlements]

        return await self._fenced(epoch, work)

    # Upkeep

    async def rearm(self, now: Instant, beyond: int) -> int:
        """Re-arm the schedules that are far ahead of `now`."""
        database = self._database
        return await self._fenced(
            self._epoch(),
            lambda session, fence: upkeep.rearm(
                session, database.texts, database.namespace, fence, now, beyond
            ),
        )

    async def prune(self, now: Instant, retention: Retention) -> int:
        """Delete ended rows beyond the retention, in slices, so that passes can run in between."""
        texts, deleted, after = self._database.texts, 0, 0
        since = self._pruning.grown_since(now, retention)
        while True:
            count, last = await self._fenced(
                self._epoch(),
                lambda session, fence, after=after: upkeep.prune(  # type: ignore[misc]
                    session, texts, fence, after, now, retention, since
                ),
            )
            deleted += count
            if last is None:
                self._pruning.finished(now, retention, since)
                return deleted
            after = last

    @property
    def _locked_rows(self) -> LockedRows:
        return self._database.locked_rows[self._place]

    def _epoch(self) -> int:
        return 0 if self._leading is None else self._leading.fence.epoch


def _moved(move: Move) -> tuple[int, str, Sequence[Run]]:
    return move.due.number, move.due.schedule.id, move.changes


def _settled(settlement: Settlement) -> tuple[int, str, Sequence[Run]]:
    return settlement.number, settlement.run.schedule_id, [settlement.run]


def _may_arrive(error: DutifulError) -> bool:
    """Return whether the server may still apply a write that failed with this error."""
    return bool(error.details.get("unknown"))
