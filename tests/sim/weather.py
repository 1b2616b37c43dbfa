"""How the store treats an engine's calls: the rates of its faults, outages, and an eye on livelocks."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from tests.sim.gate import Verdict
    from tests.sim.world import World

    from dutiful.testing import VirtualClock

LIVELOCK = 20_000


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
