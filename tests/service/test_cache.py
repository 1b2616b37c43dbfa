"""The cache of values that take long to make: how long a value is used, and how many there are."""

from __future__ import annotations

import asyncio

from dutiful.service.cache import TimedCache
from dutiful.testing import VirtualClock


def test_a_value_is_made_once_in_its_time_and_an_empty_one_for_ten_seconds():
    async def story():
        clock, made = VirtualClock("2026-03-02T09:00:00+00:00"), []
        cache = TimedCache(clock, 20_000)

        async def make(value):
            made.append(value)
            return value

        found = [await cache.get("a", lambda: make([1])), await cache.get("a", lambda: make([2]))]
        await clock.advance(20)
        found.append(await cache.get("a", lambda: make([3])))
        cache.put("a", [4])
        found.append(await cache.get("a", lambda: make([5])))
        found += [await cache.get("b", lambda: make([])) for _ in range(2)]
        await clock.advance(10)
        found.append(await cache.get("b", lambda: make([6])))
        return found, made

    assert asyncio.run(story()) == ([[1], [1], [3], [4], [], [], [6]], [[1], [3], [], [6]])


def test_the_value_that_was_made_first_is_dropped_when_there_are_too_many():
    async def story():
        cache = TimedCache(VirtualClock("2026-03-02T09:00:00+00:00"))

        async def make():
            return "again"

        for key in range(65):
            cache.put(key, "first")
        return [await cache.get(key, make) for key in (64, 1, 0)]

    assert asyncio.run(story()) == ["first", "first", "again"]
