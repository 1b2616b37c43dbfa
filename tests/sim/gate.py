"""A store that fails on request, before the write or after it, and the weather that decides when."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from dutiful.core.errors import StoreError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable

    from tests.sim.world import World

    from dutiful.runtime.ports import Store
    from dutiful.testing import VirtualClock

    Verdict = Literal["before", "after", "pause"] | None

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


class Gate:
    """The store as one engine reaches it; `verdict(method)` decides how each call goes.

    `between(method, *args)` is awaited just before the call: other processes act at the worst moment.
    """

    def __init__(
        self,
        store: Store,
        verdict: Callable[[str], Verdict] = honest,
        between: Callable[..., Awaitable[None]] = nothing,
    ) -> None:
        self._store, self._verdict, self._between = store, verdict, between
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
        answer = await getattr(self._store, name)(*args)
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
