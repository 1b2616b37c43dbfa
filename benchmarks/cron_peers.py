"""The cron libraries under one shape, ours among them: walk, ask, parse and refuse.

- `walk(text, zone, start)` iterates over the occurrences after `start`;
- `ask(text, zone)` returns a function from an instant to the occurrence after it, parsed beforehand
  where the library's API has a way to do that;
- `parse(text)` reads and validates;
- `refuse(text)` does what it takes until an impossible date is refused, and raises `refusal`.

`epoch` marks what takes and gives epoch seconds; all others take and give aware datetimes. No
`refusal` means that the library searches for such a date until the years run out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from apscheduler.triggers.cron import CronTrigger
from celery import Celery
from celery.schedules import crontab
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError

from dutiful import Cron, InvalidCronExpressionError
from dutiful.core.cron.cron import _parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

PARSE_START = datetime(2026, 1, 1, tzinfo=UTC)


class Library(Protocol):
    """What the measurements need of a library."""

    name: str
    epoch: bool
    utc_only: bool
    refusal: type[Exception] | None

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[Any]: ...

    def ask(self, text: str, zone: tzinfo) -> Callable[[Any], Any]: ...

    def parse(self, text: str) -> object: ...


class OursEpoch:
    """`Cron.next_epoch`; `parse` goes past the cache of whole texts."""

    name, epoch, utc_only = "ours, epoch", True, False
    refusal = InvalidCronExpressionError

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[int]:
        return _steps(self.ask(text, zone), int(start.timestamp()))

    def ask(self, text: str, zone: tzinfo) -> Callable[[int], int]:
        return Cron.parse(text, timezone=zone).next_epoch

    def parse(self, text: str) -> Cron:
        return _parse.__wrapped__(text, "posix", "UTC", None, None, None, ())

    refuse = parse


class OursDatetime(OursEpoch):
    """`Cron.next`."""

    name, epoch = "ours, datetime", False

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[datetime]:
        return _steps(self.ask(text, zone), start.astimezone(zone))

    def ask(self, text: str, zone: tzinfo) -> Callable[[datetime], datetime]:
        return Cron.parse(text, timezone=zone).next


class Croniter:
    """croniter through datetimes; it refuses an impossible date when asked for the next one."""

    name, epoch, utc_only = "croniter", False, False
    refusal: type[Exception] = CroniterBadDateError
    _cron: Any = croniter

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[datetime]:
        get_next = self._cron(text, start.astimezone(zone)).get_next
        return iter(lambda: get_next(datetime), None)

    def ask(self, text: str, zone: tzinfo) -> Callable[[datetime], datetime]:
        get_next = self._cron(text, PARSE_START.astimezone(zone)).get_next
        return lambda at: get_next(datetime, start_time=at)

    def parse(self, text: str) -> object:
        return self._cron(text, PARSE_START)

    def refuse(self, text: str) -> object:
        return self._cron(text, PARSE_START).get_next(datetime)


class CroniterEpoch(Croniter):
    """croniter asked for epoch floats, which spares it the datetimes."""

    name, epoch, utc_only = "croniter, epoch", True, True

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[float]:  # noqa: ARG002
        get_next = self._cron(text, start.timestamp()).get_next
        return iter(lambda: get_next(float), None)

    def ask(self, text: str, zone: tzinfo) -> Callable[[float], float]:  # noqa: ARG002
        get_next = self._cron(text, PARSE_START.timestamp()).get_next
        return lambda at: get_next(float, start_time=at)


class CroniterRs(Croniter):
    """The same API in Rust. It drops the time zone, so it is asked in UTC only."""

    name, utc_only = "croniter-rs", True

    def __init__(self) -> None:
        import croniter_rs

        self._cron = croniter_rs.croniter
        self.refusal = croniter_rs.CroniterBadDateError


class Cronsim:
    """cronsim; every `ask` parses, for its API has no way round that."""

    name, epoch, utc_only = "cronsim", False, False
    refusal = CronSimError

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[datetime]:
        return CronSim(text, start.astimezone(zone))

    def ask(self, text: str, zone: tzinfo) -> Callable[[datetime], datetime]:  # noqa: ARG002
        return lambda at: next(CronSim(text, at))

    def parse(self, text: str) -> object:
        return CronSim(text, PARSE_START)

    refuse = parse


class Apscheduler:
    """APScheduler 3. It counts weekdays from Monday, so it is given their names."""

    name, epoch, utc_only = "APScheduler 3", False, False
    refusal = None
    _weekdays = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[datetime]:
        next_after = self._trigger(text, zone).get_next_fire_time
        return _steps(lambda at: next_after(at, at), start.astimezone(zone))

    def ask(self, text: str, zone: tzinfo) -> Callable[[datetime], datetime]:
        next_at = self._trigger(text, zone).get_next_fire_time
        moment = timedelta(microseconds=1)
        return lambda at: next_at(None, at + moment)

    def parse(self, text: str) -> object:
        return self._trigger(text, UTC)

    def _trigger(self, text: str, zone: tzinfo) -> CronTrigger:
        minute, hour, day, month, weekday = text.split()
        names = re.sub(r"\d", lambda digit: self._weekdays[int(digit[0])], weekday)
        return CronTrigger(None, month, day, None, names, hour, minute, timezone=zone)


class CeleryCrontab:
    """Celery's `crontab`, asked the way beat does: the time left since the last run."""

    name, epoch, utc_only = "Celery", False, False
    refusal = None

    def __init__(self) -> None:
        self._app = Celery(set_as_current=False)

    def walk(self, text: str, zone: tzinfo, start: datetime) -> Iterator[datetime]:
        return _steps(self.ask(text, zone), start.astimezone(zone))

    def ask(self, text: str, zone: tzinfo) -> Callable[[datetime], datetime]:
        remaining = self.parse(text).remaining_delta

        def ask(at: datetime) -> datetime:
            last, delta, _ = remaining(at, zone)
            return last + delta

        return ask

    def parse(self, text: str) -> crontab:
        minute, hour, day, month, weekday = text.split()
        return crontab(minute, hour, weekday, day, month, nowfun=lambda: PARSE_START, app=self._app)


def peers() -> list[Library]:
    """Return the installed peers through datetimes; only croniter-rs is not built for every platform."""
    found: list[Library] = [Croniter(), Cronsim(), Apscheduler(), CeleryCrontab()]
    return [*found, CroniterRs()] if find_spec("croniter_rs") else found


def _steps(advance: Callable[[Any], Any], at: Any) -> Iterator[Any]:
    while True:
        at = advance(at)
        yield at
