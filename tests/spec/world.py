"""The world of the tests of file 000: virtual time, schedulers in it, and the monitor that watches all."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

from dutiful.core.errors import DutifulError
from dutiful.declarative.registration import check as check_registrations
from dutiful.declarative.scheduler import Scheduler
from dutiful.monitor import check, from_events
from dutiful.monitor.trace import plain
from dutiful.stores.memory import MemoryStore
from dutiful.testing import VirtualClock

INVALID = [("", "not a list that could be accepted", 0)]


class Watched(Scheduler):
    """A scheduler that remembers which list each of its initializations was given."""

    def __init__(self, world, number, store, **settings):
        super().__init__(store, clock=world.clock, observer=self._note, **settings)
        if store == "memory:":
            # What a restart finds: all schedulers of one world share its memory.
            self._store = world.memory
        self._world, self._number, self._given = world, number, None

    def initialize(self, registrations):
        self._given = registrations
        return super().initialize(registrations)

    def _note(self, event):
        if event.name == "SchedulerInitializationStarted":
            self._world.lists.append(self._given)
        self._world.note({**event.as_dict(), "call": self._number})


class World:
    def __init__(self, start, timezone, store):
        self.clock = VirtualClock(start if "T" in start else f"2026-01-01T{start}", timezone)
        self.store, self.memory = store, MemoryStore()
        self.schedulers, self.events, self.lists = [], [], []
        # "HH:MM[:SS] task" of every call of a callback, in local time.
        self.ran = []
        self.answer = None
        self._frozen = False

    def scheduler(self, **settings):
        scheduler = Watched(self, len(self.schedulers), settings.pop("store", self.store), **settings)
        self.schedulers.append(scheduler)
        return scheduler

    def task(self, name="job", cron="* * * * *", does=None, delay=3600):
        """Return a registration whose callback writes itself down, and then does what it is told."""

        async def callback():
            self.ran.append(f"{self.time()} {name}")
            if does is not None:
                await does()

        return (name, cron, callback, timedelta(seconds=delay))

    def failing(self, times=10**9):
        """Return a deed that fails so many times and then succeeds."""
        left = times

        async def fail():
            nonlocal left
            left -= 1
            if left >= 0:
                raise ValueError("as planned")

        return fail

    def sleeping(self, seconds):
        return lambda: self.clock.sleep(seconds)

    def time(self):
        return f"{self.clock.now():%H:%M:%S}".removesuffix(":00")

    def names(self, *, prefix=""):
        """Return the events in order, as "Name" or "Name task"."""
        told = [" ".join(filter(None, (event["name"], event["task"]))) for event in self.events]
        return [name for name in told if name.startswith(prefix)]

    def note(self, event):
        if self._frozen:
            self._frozen = False
            self.mark("Unfrozen")
        self.events.append(event)

    def mark(self, name):
        self.events.append({"name": name, "at": self.clock.now().isoformat(), "task": None})

    async def suspend(self, seconds):
        """Let wall time pass in which no task may run."""
        await self.clock.advance(0)
        self.mark("Frozen")
        self._frozen = True
        await self.clock.jump(seconds)
        if self._frozen:
            self._frozen = False
            self.mark("Unfrozen")

    async def crash(self, scheduler):
        """Let the process of a scheduler die: it launches, settles and tells nothing more."""
        await self.abandon(scheduler)
        self.mark("Crash")

    async def abandon(self, scheduler):
        if scheduler._host is not None:
            scheduler._host.abandon()
        await asyncio.sleep(0)
        await scheduler._store.close()

    async def restart(self, scheduler, *registrations, after=0):
        """Crash, let time pass, and return a new scheduler that was given the registrations."""
        await self.crash(scheduler)
        await self.clock.advance(after)
        fresh = self.scheduler()
        await fresh.initialize([*registrations])
        await self.clock.advance(0)
        return fresh

    async def stored(self, name="job"):
        return await self.schedulers[-1]._store.get(name)

    def violations(self, end, lag):
        registrations = {str(n): self._plain(given) for n, given in enumerate(self.lists)}
        trace = from_events(self.events, [*registrations])
        zone = self.clock.timezone
        return check(trace, registrations=registrations, timezone=zone, lag=lag, end=end)

    def _plain(self, given):
        try:
            check_registrations(given, self.clock.timezone)
        except DutifulError:
            return INVALID
        return [plain(registration) for registration in given]


def play(story, start="10:00", timezone="UTC", store="memory:", lag=1.0, monitored=True):
    """Run a story in a world of its own; return the world, after the monitor has accepted its trace."""
    world = World(start, timezone, store)
    asyncio.run(_whole(story, world))
    if monitored:
        violations = world.violations(world.end, lag)
        assert not violations, "\n".join(map(str, violations[:5]))
    return world


async def _whole(story, world):
    try:
        world.answer = await story(world)
    finally:
        world.end = world.clock.now()
        # All processes die at once; events from here on belong to none of them.
        world.note = lambda _: None
        for scheduler in world.schedulers:
            if scheduler._host is not None:
                scheduler._host.abandon()
        for scheduler in world.schedulers:
            with suppress(DutifulError):
                await scheduler._store.close()
