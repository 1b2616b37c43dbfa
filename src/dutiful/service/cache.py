"""A cache of values that take long to make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from dutiful.core.cadence import Instant
    from dutiful.runtime.ports import Clock

T = TypeVar("T")
_MINUTE = 60_000
# An empty value is cached this long (ms) at most: the first schedules of a user show soon, and a user without
# any costs no scan for each page.
_EMPTY_LASTS = 10_000
# Beyond this many values, the one that was made first is dropped.
_VALUES_MAX = 64


class TimedCache(Generic[T]):
    """Caches values for some ms each, by default a minute; an empty value for ten seconds at most."""

    def __init__(self, clock: Clock, lasts: int = _MINUTE) -> None:
        self._clock, self._lasts = clock, lasts
        # By key, in the order in which they were made: when, and the value.
        self._values: dict[Hashable, tuple[Instant, T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return the value of a key, made now unless one is cached."""
        now = self._clock.epoch_ms()
        known = self._values.get(key)
        if known is not None:
            made_at, value = known
            if made_at <= now < made_at + (self._lasts if value else min(self._lasts, _EMPTY_LASTS)):
                return value
        value = await make()
        self.put(key, value)
        return value

    def put(self, key: Hashable, value: T) -> None:
        """Cache a value that was made now."""
        self._values.pop(key, None)
        self._values[key] = self._clock.epoch_ms(), value
        if len(self._values) > _VALUES_MAX:
            del self._values[next(iter(self._values))]
