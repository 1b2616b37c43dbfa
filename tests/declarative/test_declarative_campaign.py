"""Random lives of a scheduler, each judged by the monitor: crashes, stops, sleeps and changing lists."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.spec.world import play

import dutiful
from dutiful.runtime.registrar import Registrar

CRONS = ["* * * * *", "0,5,10,15,20,25,30,35,40,45,50,55 * * * *", "0 * * * *", "30 1 * * *", "30 2 * * *"]
# An ordinary day, and the days on which New York loses and repeats an hour.
STARTS = ["2026-01-01T10:00:13", "2026-03-08T00:30:59", "2026-11-01T00:29:59.500"]


class Life:
    """One scheduler at a time, and the dice that decide what happens to it."""

    def __init__(self, world, seed):
        self.world, self.rng = world, random.Random(seed)
        self.scheduler, self.up = world.scheduler(), False

    def registrations(self):
        names = self.rng.sample("abcde", self.rng.randrange(6))
        return [self.task(name) for name in sorted(names)]

    def task(self, name):
        cron, delay = self.rng.choice(CRONS), self.rng.choice([0.5, 20, 60, 90, 4000])
        return self.world.task(name, cron, self.work, delay)

    async def work(self):
        seconds, fails = self.rng.choice([0, 0, 1, 30, 61, 500]), self.rng.random() < 0.3
        if seconds:
            await self.world.clock.sleep(seconds)
        if fails:
            raise ValueError("as planned")

    async def step(self):
        deeds = [self.advance] * 4 + [self.crash, self.stop, self.suspend, self.stop_at_once]
        await (self.rng.choice(deeds) if self.up else self.initialize)()

    async def initialize(self):
        if self.rng.random() < 0.7:
            self.kept = getattr(self, "kept", None) or self.registrations()
        else:
            self.kept = self.registrations()
        await self.world.clock.advance(self.rng.choice([0, 7, 300, 90_000]))
        await self.scheduler.initialize(self.kept)
        self.up = True

    async def advance(self):
        await self.world.clock.advance(self.rng.choice([0, 1, 13.37, 60, 200, 3600]))

    async def suspend(self):
        await self.world.suspend(self.rng.choice([5, 59, 600, 20_000]))

    async def crash(self):
        await self.world.crash(self.scheduler)
        self.scheduler, self.up = self.world.scheduler(), False

    async def stop(self):
        stopping = asyncio.ensure_future(self.scheduler.stop())
        while not stopping.done():
            await self.world.clock.advance(self.rng.choice([1, 60]))
        await stopping
        self.up = False

    async def stop_at_once(self):
        await self.stop()
        begun = self.scheduler.initialize(self.kept)
        await self.scheduler.stop()
        await begun


@pytest.mark.parametrize("seed", range(60))
def test_a_random_life_breaks_no_axiom(seed):
    async def story(world):
        life = Life(world, seed)
        for _ in range(60):
            await life.step()

    play(story, STARTS[seed % 3], "America/New_York")


@pytest.mark.parametrize("seed", range(1000, 1006))
def test_a_random_life_on_a_file_breaks_no_axiom(seed, tmp_path):
    async def story(world):
        life = Life(world, seed)
        for _ in range(25):
            await life.step()

    play(story, STARTS[seed % 3], "America/New_York", f"sqlite:{tmp_path / 'state.db'}")


class SteeredLife(Life):
    """A scheduler whose tasks have options, and whose runs a person asks for and cancels."""

    def task(self, name):
        options = {}
        if self.rng.random() < 0.4:
            options["timeout"] = self.rng.choice([0.5, 20, 60, 300])
        if self.rng.random() < 0.4:
            options["retry_limit"] = self.rng.choice([0, 1, 3])
        if self.rng.random() < 0.4:
            options["retry_backoff"] = self.rng.choice([2, 10])
        return dutiful.task(*super().task(name), **options)

    async def step(self):
        deed = self.rng.choice([self.ask, self.cancel, super().step, super().step, super().step])
        await (deed if self.up and self.kept else super().step)()

    async def ask(self):
        await self.registrar().trigger(self.some_task(), f"{self.rng.getrandbits(256):064x}")

    async def cancel(self):
        await self.registrar().cancel(self.some_task())

    def registrar(self):
        return Registrar(self.scheduler._store, self.world.clock, self.scheduler._host.wake)

    def some_task(self):
        return self.rng.choice(self.kept)[0]


@pytest.mark.parametrize("seed", range(40))
def test_a_random_life_with_options_and_requests_breaks_no_axiom(seed):
    async def story(world):
        life = SteeredLife(world, seed)
        for _ in range(60):
            await life.step()

    play(story, STARTS[seed % 3], "America/New_York")


class Pair:
    """Two schedulers on one file, of which one works and the other stands by."""

    def __init__(self, world, seed):
        self.life, self.world, self.up = Life(world, seed), world, []
        self.rng = self.life.rng
        self.deeds = [self.advance] * 3 + [self.crash, self.stop]

    async def step(self):
        while len(self.up) < 2:
            scheduler = self.world.scheduler()
            await scheduler.initialize(self.life.registrations())
            self.up.append(scheduler)
        await self.rng.choice(self.deeds)()

    async def advance(self):
        await self.world.clock.advance(self.rng.choice([0.3, 1, 20, 60, 100]))

    async def crash(self):
        # The model has no word for a run that was recorded and had not begun when its process died: it is
        # restarted whatever the new list says. tests/crash kills at that moment too.
        await self.world.clock.advance(0)
        scheduler = self.up.pop(self.rng.randrange(2))
        leads = scheduler._store._leading is not None
        # The model knows one scheduler: the death of a standby is nothing to it.
        await (self.world.crash(scheduler) if leads else self.world.abandon(scheduler))

    async def stop(self):
        stopping = asyncio.ensure_future(self.up.pop(self.rng.randrange(2)).stop())
        while not stopping.done():
            await self.world.clock.advance(self.rng.choice([1, 20]))
        await stopping


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life_of_a_pair_breaks_no_axiom(seed, tmp_path):
    async def story(world):
        pair = Pair(world, seed)
        for _ in range(25):
            await pair.step()

    play(story, STARTS[seed % 3], "America/New_York", f"sqlite:{tmp_path / 'state.db'}")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10_000, 13_000))
def test_a_long_random_life_breaks_no_axiom(seed):
    async def story(world):
        life = Life(world, seed)
        for _ in range(200):
            await life.step()

    play(story, STARTS[seed % 3], "America/New_York")
