"""A sharded store in memory, as many nodes see one database: locks by session, a fence by epoch and turn.

It follows the rules that the PostgreSQL store follows, on a virtual clock and with every fault on request: a
frozen node, a session that the server ended unnoticed, an outage, and a write that arrives late.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tests.sim.recorder import Record, Recorder

from dutiful.core.errors import LostLeadershipError, StoreError
from dutiful.runtime.cluster_ports import Member, View
from dutiful.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable
    from random import Random

    from dutiful.core.schedule import Schedule
    from dutiful.testing import VirtualClock

LEASE = 5.0
# Writes of an engine, which the fence guards.
FENCED = ("apply", "commit", "settle", "rearm", "prune")


def place_of(schedule: Schedule, shards: int) -> int:
    """Return the shard of a schedule: that of its group, or of its id."""
    capacity = schedule.policy.capacity
    key = f"s:{schedule.id}" if capacity is None else f"g:{capacity.group}"
    return int.from_bytes(sha256(key.encode()).digest()[:4]) % shards


class Session:
    """A connection that holds locks until the server ends it: closed, terminated, or silent for a lease."""

    def __init__(self, member: Member, now: float) -> None:
        self.member, self.heard_at, self.ended = member, now, False


@dataclass
class Shard:
    """The row of a shard, and the store of its schedules with a witness before it."""

    witness: Recorder
    memory: MemoryStore
    turn: int = 0
    claim: str | None = None
    lock: Session | None = None
    # The process that wrote under each epoch.
    writers: dict[int, str] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        return self.memory._epoch


@dataclass
class Database:
    """What all nodes share."""

    clock: VirtualClock
    count: int
    tell: Callable[..., None]
    reach: Counter[str] = field(default_factory=Counter)
    record: Record = field(default_factory=Record)
    sessions: list[Session] = field(default_factory=list)
    nodes: list[NodeStore] = field(default_factory=list)
    draining: set[str] = field(default_factory=set)
    down_until: float = 0

    def __post_init__(self) -> None:
        self.shards = [self._shard() for _ in range(self.count)]

    def _shard(self) -> Shard:
        memory = MemoryStore()
        witness = Recorder(memory, lambda: (self.clock.epoch_ms(), self.clock.monotonic()), self.tell)
        witness.record = self.record
        return Shard(witness, memory)

    def shard_of(self, schedule_id: str) -> Shard | None:
        """Return the shard in which a schedule is stored."""
        return next((shard for shard in self.shards if schedule_id in shard.memory._rows), None)

    def expire(self) -> None:
        """End the sessions that were silent for a lease, and free the locks of all that have ended."""
        now = self.clock.monotonic()
        for session in self.sessions:
            session.ended = session.ended or now - session.heard_at > LEASE
        self.sessions = [session for session in self.sessions if not session.ended]
        for shard in self.shards:
            if shard.lock is not None and shard.lock.ended:
                shard.lock = None

    def restart(self, seconds: float) -> None:
        """End every session, and answer no call for a while."""
        self.down_until = self.clock.monotonic() + seconds
        for session in self.sessions:
            session.ended = True

    def view(self, session: Session | None) -> View:
        """Return the cluster as it is now."""
        self.expire()
        mine = [place for place, shard in enumerate(self.shards) if session in (None, shard.lock)]
        owners = [None if shard.lock is None else shard.lock.member.owner for shard in self.shards]
        return View(
            self.clock.epoch_ms(),
            tuple(
                each.member._replace(draining=each.member.owner in self.draining) for each in self.sessions
            ),
            tuple(owners),
            tuple(shard.claim for shard in self.shards),
            tuple(shard.epoch for shard in self.shards),
            {place: next_wake(self.shards[place].memory) for place in mine},
        )

    def hint(self, places: Collection[int], *, unless: NodeStore | None = None) -> None:
        """Tell every node, as a notification would; some hints are lost."""
        for node in self.nodes:
            if node is not unless and node.hinted is not None and not node.is_away:
                node.hinted(places)

    async def lead(self, place: int, session: Session) -> int:
        """Begin a leadership: a new epoch, whose orphans are due."""
        shard, owner = self.shards[place], session.member.owner
        shard.memory._owner = None
        epoch = await shard.witness.lead(owner)
        assert epoch is not None
        shard.turn, shard.claim = 0, owner
        # What the last leader had recorded and not launched is the new one's to adopt.
        theirs = {key for key, _ in self.record.pending if key[0] in shard.memory._rows}
        self.record.pending = {each for each in self.record.pending if each[0] not in theirs}
        return epoch


def next_wake(memory: MemoryStore) -> int | None:
    """Return the earliest wake of a shard."""
    return min((row.wake_at for row in memory._rows.values() if row.wake_at is not None), default=None)


@dataclass
class Held:
    """What a node believes of a shard that it leads."""

    session: Session
    epoch: int
    turn: int
    # Whether the fate of a write is unknown, so that the turn must be bumped before anything else.
    unsure: bool = False


class NodeStore:
    """One node's way to the database; a `Sharded` store, whose shards are `Face`s."""

    def __init__(self, database: Database, rng: Random) -> None:
        self.database, self._rng, self._clock = database, rng, database.clock
        self.session: Session | None = None
        self.held: dict[int, Held] = {}
        self.me: Member | None = None
        self.hinted: Callable[[Collection[int]], None] | None = None
        self.trusted_until = 0.0
        self.frozen_until = self.cut_until = self.late_until = 0.0
        self.dead = False
        # How often a call fails: before it is made, or after it, when only the answer is lost.
        self.faults = 0.0
        self._faces = [Face(self, place) for place in range(database.count)]
        database.nodes.append(self)

    @property
    def is_away(self) -> bool:
        now = self._clock.monotonic()
        return self.dead or now < max(self.frozen_until, self.cut_until, self.database.down_until)

    async def open(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Let go of the session."""
        if self.session is not None:
            self.session.ended = True
        self.session, self.dead = None, True

    async def claim(self, door: str) -> None:
        """Every namespace is this door's."""

    async def join(self, me: Member, hinted: Callable[[Collection[int]], None]) -> None:
        self.me, self.hinted = me, hinted
        await self.way_there()
        self._connect()

    def _connect(self) -> None:
        assert self.me is not None
        now = self._clock.monotonic()
        for old in self.database.sessions:
            # A node ends its own old session, whose locks nobody would free before the lease is over.
            old.ended = old.ended or old.member.owner == self.me.owner
        self.session = Session(self.me._replace(joined_at=self._clock.epoch_ms()), now)
        self.database.sessions.append(self.session)
        self.trusted_until = now + LEASE - 1
        self.database.hint((), unless=self)

    async def look(self) -> View:
        """Return the view; a lost session is noticed here, and made anew by the next look."""
        sent = self._clock.monotonic()
        await self.way_there()
        self.database.expire()
        if self.session is None:
            self._connect()
        elif self.session.ended:
            self.session, self.trusted_until = None, 0
            raise StoreError("The session has ended", "wait")
        assert self.session is not None
        self.session.heard_at = self._clock.monotonic()
        view = self.database.view(self.session)
        await self.way_back()
        self.trusted_until = max(self.trusted_until, sent + LEASE - 1)
        return view

    def shard(self, place: int) -> Face:
        """Return the store of one shard."""
        return self._faces[place]

    async def drain(self, owner: str, draining: bool) -> bool:
        (self.database.draining.add if draining else self.database.draining.discard)(owner)
        self.database.hint(())
        return True

    async def leave(self) -> None:
        for face in self._faces:
            await face.close()
        if self.session is not None:
            self.session.ended = True
        self.database.expire()
        self.database.hint((), unless=self)

    def heal(self) -> None:
        """End every fault."""
        self.frozen_until = self.cut_until = self.late_until = self.faults = 0.0

    # The way of a call

    async def way_there(self) -> None:
        await self._clock.sleep(self._rng.choice((0, 0.001, 0.02)))
        await self._while_frozen()
        if self.dead or self._is_cut() or (self.faults and self._rng.random() < self.faults):
            raise StoreError("The connection was lost", "try again")

    async def way_back(self) -> None:
        await self._while_frozen()
        if self.dead or self._is_cut():
            raise StoreError("The answer was lost", "look whether it was written")

    async def _while_frozen(self) -> None:
        while (left := self.frozen_until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    def _is_cut(self) -> bool:
        return self._clock.monotonic() < max(self.cut_until, self.database.down_until)

    def answer_is_lost(self) -> bool:
        return bool(self.faults) and self._rng.random() < self.faults

    def late_by(self) -> float:
        """Return by how many seconds the next write arrives late, 0 for none."""
        if self._clock.monotonic() >= self.late_until:
            return 0
        self.late_until = 0
        return self._rng.choice((0.5, 2.0, 7.0))

    def is_trusted(self) -> bool:
        return self.session is not None and self._clock.monotonic() < self.trusted_until


class Face:
    """One shard as one node reaches it: a `Store`."""

    def __init__(self, node: NodeStore, place: int) -> None:
        self._node, self._place = node, place

    @property
    def _shard(self) -> Shard:
        return self._node.database.shards[self._place]

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if not hasattr(MemoryStore, name):
            # A shard is no `Sharded` store, and must not look like one.
            raise AttributeError(name)
        return partial(self._write if name in FENCED else self._read, name)

    async def open(self) -> None:
        """Open while the node is."""

    async def claim(self, door: str) -> None:
        """Every namespace is this door's."""

    async def close(self) -> None:
        """Release the shard."""
        node, held = self._node, self._node.held.get(self._place)
        if held is None or node.dead:
            return
        await node.way_there()
        node.database.expire()
        shard = self._shard
        node.held.pop(self._place, None)
        if shard.lock is held.session:
            if shard.epoch == held.epoch:
                shard.claim = None
            shard.lock = None
            node.database.hint(())

    def holds(self, epoch: int) -> bool:
        held = self._node.held.get(self._place)
        return held is not None and held.epoch == epoch and self._is_believed(held)

    def _is_believed(self, held: Held) -> bool:
        return held.session is self._node.session and self._node.is_trusted()

    async def lead(self, _owner: str) -> int | None:
        node, held = self._node, self._node.held.get(self._place)
        if held is not None and held.session is node.session:
            if not node.is_trusted():
                raise StoreError("It is in doubt who leads", "wait")
            if held.unsure:
                await self._bump_turn(held)
            return held.epoch
        await node.way_there()
        return await self._try_lock(held)

    async def _try_lock(self, before: Held | None) -> int | None:
        node, shard = self._node, self._shard
        node.database.expire()
        if node.session is None or node.session.ended or not node.is_trusted():
            raise StoreError("There is no session", "wait")
        if not self.is_free(shard, node.session):
            node.held.pop(self._place, None)
            return None
        shard.lock = node.session
        if before is not None and self.was_kept(shard, node.session, before):
            node.database.reach["regained epoch"] += 1
            shard.turn += 1
            epoch = shard.epoch
        else:
            epoch = await node.database.lead(self._place, node.session)
        node.held[self._place] = Held(node.session, epoch, shard.turn)
        await node.way_back()
        return epoch

    # Rules that stand alone, so that a mutant can break them.

    @staticmethod
    def is_free(shard: Shard, session: Session) -> bool:
        return shard.lock in (None, session)

    @staticmethod
    def was_kept(shard: Shard, session: Session, before: Held) -> bool:
        """Return whether nobody has led since this process lost its session."""
        return (shard.claim, shard.epoch) == (session.member.owner, before.epoch)

    @staticmethod
    def fence(shard: Shard, epoch: int, turn: int) -> bool:
        """Return whether a write under this epoch and turn counts."""
        return (shard.epoch, shard.turn) == (epoch, turn)

    async def _bump_turn(self, held: Held) -> None:
        await self._node.way_there()
        shard = self._shard
        if shard.epoch == held.epoch and shard.lock is held.session:
            self._node.database.reach["turn bumped"] += 1
            shard.turn += 1
            held.turn, held.unsure = shard.turn, False
        await self._node.way_back()

    async def _read(self, name: str, *args: Any) -> Any:
        await self._node.way_there()
        answer = await getattr(self._shard.witness, name)(*args)
        await self._node.way_back()
        return answer

    async def _write(self, name: str, *args: Any) -> Any:
        """Make a guarded write; after one whose fate is unknown the turn is bumped before the next."""
        node, held = self._node, self._node.held.get(self._place)
        if held is None:
            raise LostLeadershipError(0, self._shard.epoch)
        await node.way_there()
        late = node.late_by() if name in ("apply", "commit", "settle") else 0
        held.unsure = True
        if late:
            node.database.reach["late delivery"] += 1
            asyncio.create_task(self._deliver_late(late, held.epoch, held.turn, name, args))  # noqa: RUF006
            raise StoreError("No answer came", "look whether it was written")
        try:
            answer = await self._deliver(held.epoch, held.turn, name, args)
        except LostLeadershipError:
            # Another process has led since: whatever this node believed of the shard is over.
            node.held.pop(self._place, None)
            raise
        await node.way_back()
        if node.answer_is_lost():
            raise StoreError("The answer was lost", "look whether it was written")
        held.unsure = False
        return answer

    async def _deliver_late(self, after: float, epoch: int, turn: int, name: str, args: Any) -> None:
        await self._node._clock.sleep(after)
        try:
            await self._deliver(epoch, turn, name, args)
        except LostLeadershipError:
            self._node.database.reach["late delivery refused"] += 1

    async def _deliver(self, epoch: int, turn: int, name: str, args: Any) -> Any:
        shard = self._shard
        if not self.fence(shard, epoch, turn):
            raise LostLeadershipError(epoch, shard.epoch)
        self._check_writer(shard, epoch)
        return await getattr(shard.witness, name)(*args)

    def _check_writer(self, shard: Shard, epoch: int) -> None:
        """An epoch belongs to one process: what another one launched under it would be adopted by none."""
        assert self._node.me is not None
        writer, me = shard.writers.setdefault(epoch, self._node.me.owner), self._node.me.owner
        if writer != me:
            shard.witness.complain("epoch", f"{me} and {writer} wrote under epoch {epoch} of {self._place}")


class Namespace:
    """All schedules of all shards, as the registrar of an API node sees them; needs no leadership."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _of(self, schedule_id: str) -> Recorder:
        shard = self._database.shard_of(schedule_id)
        return (self._database.shards[0] if shard is None else shard).witness

    async def notes(self, ids: Iterable[str]) -> dict[str, Any]:
        """Return the notes of schedules, each from its shard."""
        found = [await self._of(schedule_id).notes([schedule_id]) for schedule_id in ids]
        return {schedule_id: note for notes in found for schedule_id, note in notes.items()}

    async def apply(self, changes: Any) -> None:
        """Write one schedule where it is, or where it belongs."""
        ids = [*changes.removes, *(put.schedule.id for put in changes.puts)]
        stored = [shard for shard in map(self._database.shard_of, ids) if shard is not None]
        belongs = [
            self._database.shards[place_of(put.schedule, self._database.count)] for put in changes.puts
        ]
        shard = (stored or belongs or self._database.shards)[0]
        await shard.witness.apply(changes)
        self._hint(shard)

    def _hint(self, shard: Shard | None) -> None:
        if shard is not None:
            self._database.hint({self._database.shards.index(shard)})

    async def every(self) -> list[Any]:
        return [due for shard in self._database.shards for due in await shard.memory.every()]

    async def damaged(self) -> list[Any]:
        return []

    async def some(self, ids: Any) -> list[Any]:
        return [due for id_ in sorted(ids) for due in await self._of(id_).some([id_])]

    async def request(self, run: Any) -> Any:
        made = await self._of(run.schedule_id).request(run)
        self._hint(self._database.shard_of(run.schedule_id))
        return made

    async def report(self, run: Any, ended: Any) -> bool:
        heard = await self._of(run.schedule_id).report(run, ended)
        self._hint(self._database.shard_of(run.schedule_id))
        return heard

    async def peek(self, key: Any) -> Any:
        return await self._of(key[0]).peek(key)

    @property
    def record(self) -> Record:
        return self._database.record

    def complain(self, rule: str, text: str) -> None:
        self._database.record.problems.append(f"{rule}: {text}")

    def __getattr__(self, name: str) -> Any:
        """Ask the shard of the schedule that is named first."""

        def ask(schedule_id: str, *args: Any) -> Any:
            return getattr(self._of(schedule_id), name)(schedule_id, *args)

        return ask
