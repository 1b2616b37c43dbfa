"""The watchdog names what blocks the loop. These tests really block it, until they have been told so."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.core.plan.planner_notation import at

from dutiful.core.event import LoopBlocked
from dutiful.runtime.watchdog import Watchdog
from dutiful.testing import VirtualClock

TEN = "2026-01-05T10:00:00+00:00"
BEAT = 0.05


class Turned(threading.Event):
    """Is waited for in vain only while a test blocks the loop: a busy machine does not block it."""

    def __init__(self):
        super().__init__()
        self.blocked = threading.Event()

    def wait(self, timeout=None):
        if timeout is None:
            return super().wait()
        while not self.is_set() and not self.blocked.is_set():
            super().wait(timeout)
        return self.is_set()


class Ears:
    """An observer that remembers what it was told."""

    def __init__(self):
        self.told, self._heard = [], threading.Event()

    def __call__(self, event):
        self.told.append(event)
        self._heard.set()

    def block_until_told(self, turned):
        self._heard.clear()
        turned.blocked.set()
        assert self._heard.wait(60)
        # It goes on, and is not told again.
        time.sleep(3 * BEAT)
        turned.blocked.clear()


async def watched(observer, story, beat=BEAT):
    """Run the story under a watchdog, which has ended when this returns."""
    watchdog = Watchdog(VirtualClock(TEN), observer, beat)
    watchdog._turned = Turned()
    watchdog.start()
    await story(watchdog)
    watchdog.stop()
    return watchdog._thread.is_alive()


async def block_in_a_task(name, ears, watchdog):
    async def block():
        # An eager task begins before create_task names it.
        asyncio.current_task().set_name(name)
        ears.block_until_told(watchdog._turned)

    await asyncio.create_task(block())


async def turn(watchdog):
    """Let the loop turn until the watchdog has seen it do so."""
    watchdog._turned.clear()
    while not watchdog._turned.is_set():  # noqa: ASYNC110 - it is set by another thread
        await asyncio.sleep(0.005)


def test_the_task_that_blocks_the_loop_is_named_once_per_blockade():
    ears = Ears()

    async def story(watchdog):
        await block_in_a_task("nightly-report", ears, watchdog)
        await turn(watchdog)
        await block_in_a_task("hourly-sync", ears, watchdog)

    asyncio.run(watched(ears, story))
    assert ears.told == [
        LoopBlocked(at("10:00"), "nightly-report", BEAT),
        LoopBlocked(at("10:00"), "hourly-sync", BEAT),
    ]


def test_a_callback_that_blocks_the_loop_outside_any_task_is_reported_too():
    ears = Ears()

    async def story(watchdog):
        asyncio.get_running_loop().call_soon(ears.block_until_told, watchdog._turned)
        await turn(watchdog)

    asyncio.run(watched(ears, story))
    assert ears.told == [LoopBlocked(at("10:00"), "a callback of the event loop", BEAT)]


def test_a_loop_that_does_not_turn_for_a_beat_is_blocked():
    ears = Ears()

    async def block():
        # Only the clock matters here: the loop is not blocked.
        watchdog = Watchdog(VirtualClock(TEN), ears, BEAT)
        watchdog.start()
        ears.block_until_told(Turned())
        watchdog.stop()

    asyncio.run(block())
    assert [event.seconds for event in ears.told] == [BEAT]


def test_a_loop_that_turns_is_not_reported():
    told = []
    asyncio.run(watched(told.append, turn))
    assert told == []


def test_stopping_ends_the_thread_without_waiting_for_the_next_beat():
    async def story(_):
        pass

    begin = time.monotonic()
    assert asyncio.run(watched(lambda _: None, story, beat=60)) is False
    assert time.monotonic() - begin < 30


def test_an_observer_that_raises_does_not_end_the_watch():
    ears = Ears()

    def broken(event):
        ears(event)
        raise RuntimeError("no space left")

    async def story(watchdog):
        for name in ("first", "second"):
            await block_in_a_task(name, ears, watchdog)
            await turn(watchdog)

    asyncio.run(watched(broken, story))
    assert [event.task for event in ears.told] == ["first", "second"]


class Gate(threading.Event):
    """An event that is cleared only after the watchdog was told to stop."""

    def __init__(self, stopped: threading.Event) -> None:
        super().__init__()
        self._stopped = stopped
        self.reached = threading.Event()

    def clear(self) -> None:
        self.reached.set()
        self._stopped.wait()
        # What `stop` does next is to set this event.
        self.wait(5)
        super().clear()


def test_a_stop_between_two_steps_of_the_watch_is_not_overlooked():
    told = []

    async def watch():
        watchdog = Watchdog(VirtualClock(TEN), told.append, BEAT)
        watchdog._turned = Gate(watchdog._stopped)
        watchdog.start()
        await asyncio.to_thread(watchdog._turned.reached.wait)
        watchdog.stop()
        return watchdog._thread.is_alive()

    assert asyncio.run(watch()) is False
    assert told == []


def test_the_watch_ends_with_the_loop():
    async def start():
        watchdog = Watchdog(VirtualClock(TEN), lambda _: None, BEAT)
        watchdog.start()
        return watchdog

    watchdog = asyncio.run(start())
    watchdog._thread.join(20)
    assert not watchdog._thread.is_alive()
