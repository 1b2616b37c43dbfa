"""For your tests and ours: a clock that moves only on request, and a launcher that records its launches.

`VirtualClock` works under plain asyncio. Time stands still until `advance`, which passes through every wake
on the way, each at its own instant, or `jump`, which acts like a suspend or a clock that was set. Both return
when everything that could run has run and is durable.
"""

from __future__ import annotations

import asyncio
import heapq
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from dutiful.core.cron.zone import EPOCH, zone
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Outcome, Succeeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import tzinfo

    from dutiful.runtime.ports import Launch

# Some event loops, such as uvloop, hide their queue of callbacks. There, wait this many turns in which every
# task is blocked: callbacks that belong to no task have run by then.
_QUIET_TURNS = 20
# Ten thousand years: longer than the range of a datetime.
_SECONDS_MAX = 3.2e11
_UNDER_WAY = (
    "the clock is being moved already: await one advance or jump before the next; "
    "a callback awaits clock.sleep() instead"
)


class VirtualClock:
    """A clock for tests; `now()` is in `timezone`, and so is a start without an offset."""

    def __init__(self, start: str | datetime, timezone: str | tzinfo = "UTC") -> None:
        at = _start(start)
        self.timezone = zone(timezone).tzinfo
        # Whole microseconds, because a simulated year reads both values millions of times.
        self._wall = _microseconds(
            (at if at.tzinfo is not None else at.replace(tzinfo=self.timezone)) - EPOCH
        )
        self._flowed = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = count()
        self._waiting: set[asyncio.Future[None]] = set()
        self._hold = _Hold()
        self._is_moving = False

    def now(self) -> datetime:
        """Return the virtual instant, aware."""
        return (EPOCH + timedelta(microseconds=self._wall)).astimezone(self.timezone)

    def epoch_ms(self) -> int:
        """Return the virtual instant in milliseconds since 1970."""
        return self._wall // 1000

    def monotonic(self) -> float:
        """Return the virtual seconds that have passed; jumps do not count."""
        return self._flowed / 1_000_000

    async def sleep(self, seconds: float | timedelta) -> None:
        """Return when this many virtual seconds have passed."""
        left = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if left <= 0:
            await asyncio.sleep(0)
            return
        timer = asyncio.get_running_loop().create_future()
        self._push(timer, left)
        await timer

    async def wait(self, woken: asyncio.Future[None], seconds: float) -> None:
        """Return when `woken` is done; the clock sets it after this many virtual seconds, or at a jump."""
        self._push(woken, seconds)
        self._waiting.add(woken)
        try:
            await woken
        finally:
            self._waiting.discard(woken)

    def hold(self) -> AbstractContextManager[None]:
        """Pause `advance` while work is under way outside the event loop."""
        return self._hold

    async def advance(self, seconds: float | timedelta) -> None:
        """Move time forward; every wake on the way happens at its own instant, in order."""
        length = _length(seconds)
        if length < 0:
            raise InvalidArgumentError(
                "seconds", seconds, "time flows forwards; use jump to set the clock back"
            )
        with self._moving():
            await self._advance(self._flowed + length)

    async def jump(self, seconds: float | timedelta) -> None:
        """Set the wall clock forward or back, as a suspend or an operator would; sleeps are not affected."""
        with self._moving():
            await self._settle()
            self._set(self._wall + _length(seconds))
            for timer in list(self._waiting):
                _finish(timer)
            await self._settle()

    @contextmanager
    def _moving(self) -> Iterator[None]:
        # Two movements would wait for each other for ever: each ends when no other task can run.
        if self._is_moving:
            raise RuntimeError(_UNDER_WAY)
        self._is_moving = True
        try:
            yield
        finally:
            self._is_moving = False

    async def _advance(self, target: int) -> None:
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, timer = heapq.heappop(self._sleepers)
            if timer.done():
                # Already woken, so nothing waits for this instant.
                continue
            self._flow(due - self._flowed)
            _finish(timer)
            while self._sleepers and self._sleepers[0][0] <= due:
                _finish(heapq.heappop(self._sleepers)[2])
            await self._settle()
        self._flow(target - self._flowed)
        await self._settle()

    def _flow(self, passed: int) -> None:
        self._set(self._wall + passed)
        self._flowed += passed

    def _set(self, wall: int) -> None:
        if not _FIRST <= wall <= _LAST:
            raise OverflowError("virtual time left the years that a datetime can hold")
        self._wall = wall

    def _push(self, timer: asyncio.Future[None], seconds: float) -> None:
        # At least a microsecond: time must flow for a sleep to end.
        length = max(round(min(seconds, _SECONDS_MAX) * 1_000_000), 1)
        heapq.heappush(self._sleepers, (self._flowed + length, next(self._order), timer))

    async def _settle(self) -> None:
        """Return when no task can run at this instant and no holder is at work elsewhere."""
        ready, quiet = getattr(asyncio.get_running_loop(), "_ready", None), 0
        while True:
            await asyncio.sleep(0)
            if ready is None:
                quiet = quiet + 1 if _all_others_wait() else 0
            if ready if ready is not None else quiet < _QUIET_TURNS:
                continue
            if not self._hold.count:
                return
            await self._hold.until_released()
            quiet = 0


class _Hold:
    """Counts the holders of time. One reusable object, because every pass holds time."""

    def __init__(self) -> None:
        self.count = 0
        # A future of the loop that waits now; tests may use one clock in several loops, one after the other.
        self._released: asyncio.Future[None] | None = None

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        if not self.count and self._released is not None:
            _finish(self._released)

    async def until_released(self) -> None:
        """Return when the last holder has released time."""
        self._released = asyncio.get_running_loop().create_future()
        await self._released


def _start(start: object) -> datetime:
    try:
        at = datetime.fromisoformat(start) if isinstance(start, str) else start
    except ValueError:
        at = None
    if not isinstance(at, datetime):
        raise InvalidArgumentError("start", start, "write ISO 8601, such as 2026-01-05T09:00, or a datetime")
    return at


def _length(seconds: float | timedelta) -> int:
    return _microseconds(seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds))


def _microseconds(length: timedelta) -> int:
    return (length.days * 86_400 + length.seconds) * 1_000_000 + length.microseconds


def _finish(timer: asyncio.Future[None]) -> None:
    # Skip the timers of a closed loop: nothing waits for them.
    if not timer.done() and not timer.get_loop().is_closed():
        timer.set_result(None)


def _all_others_wait() -> bool:
    """Return whether every other task of the running loop waits for a future that is not done."""
    current = asyncio.current_task()
    waiters = [getattr(task, "_fut_waiter", None) for task in asyncio.all_tasks() if task is not current]
    return all(waiter is not None and not waiter.done() for waiter in waiters)


_FIRST = _microseconds(datetime.min.replace(tzinfo=UTC) - EPOCH)
_LAST = _microseconds(datetime.max.replace(tzinfo=UTC) - EPOCH)


class RecordingLauncher:
    """Records every launch; `behave` returns each outcome, by default an immediate success."""

    in_process = True

    def __init__(self, behave: Callable[[Launch], Outcome] = lambda _: Succeeded()) -> None:
        self.launches: list[Launch] = []
        self._behave = behave

    async def launch(self, launch: Launch) -> Outcome:
        """Record the launch, and return the outcome of `behave`."""
        self.launches.append(launch)
        return self._behave(launch)
