"""A store that fails on request, before the write or after it, and the weather that decides when.

Other programs may also keep the rows of a schedule locked. The PostgreSQL store writes the others beside it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from dutiful.core.errors import StoreError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from tests.sim.world import World

    from dutiful.core.plan.outcome import Settlement
    from dutiful.core.snapshot import Move
    from dutiful.runtime.ports import Committed, Loaded, Store
    from dutiful.testing import VirtualClock

    Verdict = Literal["before", "after", "pause"] | None

# The leader looks at locked schedules again after this time (ms). A lock is held for so many seconds.
LOOK_AGAIN = 1000
LOCKED_S = (0.5, 5.0)
# The owner under which another instance leads; that instance does nothing else.
RIVAL = "rival"
# More calls than this while time stands still are a livelock.
LIVELOCK = 20_000


class Crashed(BaseException):
    """The process died here; nothing may catch this."""


def honest(_: str) -> Verdict:
    return None


async def nothing(_: str, *_args: Any) -> None:
    pass


async def depose(store: Store) -> None:
    """Let the rival lead, as if this instance had been out of touch for too long."""
    await store.close()
    await store.open()
    await store.lead(RIVAL)


class Locks:
    """The schedules whose rows another program keeps locked, and those of them that the leader has met."""

    def __init__(self, rate: float, seed: int, clock: VirtualClock, reach: Counter[str]) -> None:
        self.rate, self._rng, self._clock, self._reach = rate, Random(f"locked:{seed}"), clock, reach
        self._until: dict[str, float] = {}
        self._met: set[str] = set()

    def _among(self, ids: Iterable[str], where: str = "") -> set[str]:
        """Return the locked ones of these schedules; a write may find that one is locked just now."""
        known, now = sorted(ids), self._clock.monotonic()
        if known and where and self._rng.random() < self.rate:
            self._until[self._rng.choice(known)] = now + self._rng.uniform(*LOCKED_S)
        locked = {id_ for id_ in known if self.rate and now < self._until.get(id_, 0)}
        if locked and where:
            self._reach[f"locked {where}"] += 1
            self._met |= locked
        return locked

    async def load(self, store: Store, now: int, limit: int, *also: Any) -> Loaded:
        self._met = self._among(self._met)
        loaded: Loaded = await store.load(now, limit + len(self._met), *also)
        if not self._met:
            return loaded
        due = [each for each in loaded.batch.due if each.schedule.id not in self._met]
        wakes = [now + LOOK_AGAIN, *([] if loaded.next_wake is None else [loaded.next_wake])]
        return loaded._replace(batch=loaded.batch._replace(due=due), next_wake=min(wakes))

    async def commit(self, store: Store, moves: Sequence[Move], epoch: int) -> Committed:
        locked = self._among({move.due.schedule.id for move in moves}, "commit")
        free = [move for move in moves if move.due.schedule.id not in locked]
        done = await store.commit(free, epoch)
        return done._replace(locked=len(moves) - len(free))

    async def settle(
        self, store: Store, settlements: Sequence[Settlement], epoch: int
    ) -> Sequence[bool | None]:
        locked = self._among({each.run.schedule_id for each in settlements}, "settle")
        free = [each for each in settlements if each.run.schedule_id not in locked]
        applied = iter(await store.settle(free, epoch))
        return [None if each.run.schedule_id in locked else next(applied) for each in settlements]


class Gate:
    """The store as one engine reaches it; `verdict(method)` decides how each call goes.

    `between(method, *args)` is awaited just before the call: other processes act at the worst moment.
    """

    def __init__(
        self,
        store: Store,
        verdict: Callable[[str], Verdict] = honest,
        between: Callable[..., Awaitable[None]] = nothing,
        locks: Locks | None = None,
    ) -> None:
        self._store, self._verdict, self._between, self._locks = store, verdict, between, locks
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name)

    def holds(self, epoch: int) -> bool:
        return self._store.holds(epoch)

    async def _call(self, name: str, *args: Any) -> Any:
        verdict = self._verdict(name)
        if verdict == "pause":
            await asyncio.sleep(0)
        if self.dead:
            raise Crashed
        await self._between(name, *args)
        if verdict == "before":
            raise StoreError("The disk is full", "make room")
        beside = getattr(self._locks, name, None)
        call = getattr(self._store, name) if beside is None else partial(beside, self._store)
        answer = await call(*args)
        if verdict == "after":
            raise StoreError("The connection was lost", "look whether it was written")
        return answer


class Weather:
    """Decides how each call goes; `give_up` is called when time stands still."""

    def __init__(
        self, world: World, clock: VirtualClock, reach: Counter[str], give_up: Callable[[str], None]
    ) -> None:
        self._faults, self._clock, self._reach, self._give_up = world.faults, clock, reach, give_up
        self._rng = Random(f"store:{world.seed}")
        self._outage_until = 0.0
        self.calm = False
        # Since when the engine has been calling the store, and how often.
        self._busy = (0.0, 0)

    def break_off(self, seconds: float) -> None:
        """Let every call fail for so long."""
        self._outage_until = self._clock.monotonic() + seconds

    def verdict(self, method: str) -> Verdict:
        """Return how a call goes."""
        self._watch_for_livelock()
        if self.calm:
            return None
        if self._clock.monotonic() < self._outage_until:
            self._reach["outage"] += 1
            return "before"
        drawn = self._rng.random()
        for verdict in ("before", "after", "pause"):
            rate = getattr(self._faults, verdict)
            if drawn < rate:
                self._reach[f"{verdict} {method}"] += 1
                return verdict  # type: ignore[return-value]
            drawn -= rate
        return None

    def _watch_for_livelock(self) -> None:
        passed = self._clock.monotonic()
        since, calls = self._busy
        self._busy = passed, calls + 1 if since == passed else 0
        if calls == LIVELOCK:
            self._give_up(f"{calls} calls of the store, and time stands still")
