"""Print how Python's cron engines treat changing clocks: seven texts, eight changes, one literal answer.

The literal answer is found without any engine: it is every quarter of an hour of the three days around the
change whose wall clock matches. docs/comparison.md has the table, and a test compares it with this one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dutiful import Cron

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Engine = Callable[[str, ZoneInfo, datetime, datetime], list[datetime]]

TEXTS = ["0 0 * * *", "30 0 * * *", "15 1 * * *", "30 2 * * *", "0 * * * *", "*/30 * * * *", "0 */2 * * *"]
# All texts fall on quarters of an hour, and so do the offsets of the zones.
QUARTER = timedelta(minutes=15)
CHANGES = {
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),
    "America/Havana": ("2026-03-08", "2026-11-01"),
}


def literal(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return every quarter of an hour whose wall clock matches a text of minutes and hours alone."""
    minutes, hours = (_values(field, top) for field, top in zip(text.split()[:2], (60, 24), strict=True))
    found, at = [], start
    while at < end:
        wall = at.astimezone(zone)
        if wall.minute in minutes and wall.hour in hours:
            found.append(at)
        at += QUARTER
    return found


def _values(field: str, top: int) -> set[int]:
    if field.startswith("*"):
        return {*range(0, top, int(field.partition("/")[2] or 1))}
    return {int(field)}


def dutiful(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return the ticks of dutiful's own engine, with the settings that mean literal."""
    cron = Cron.parse(text, dialect="standard", timezone=zone.key, gap="skip", fold="both")
    return [tick.astimezone(UTC) for tick in cron.between(start, end)]


def apscheduler(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return the fire times of APScheduler's trigger, one after the other."""
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(text, timezone=zone)
    found, before, at = [], None, start.astimezone(zone)
    while (fire := trigger.get_next_fire_time(before, at)) is not None and fire < end:
        found.append(fire.astimezone(UTC))
        before, at = fire, fire
    return found


def croniter(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return the times of croniter's iterator."""
    from croniter import croniter as iterate

    return _until(iterate(text, (start - timedelta(seconds=1)).astimezone(zone)).all_next(datetime), end)


def cronsim(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return the times of cronsim's iterator."""
    from cronsim import CronSim

    return _until(CronSim(text, (start - timedelta(seconds=1)).astimezone(zone)), end)


def celery(text: str, zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """Return when a beat that looks at every quarter of an hour would start a task."""
    from celery import Celery
    from celery.schedules import crontab

    app = Celery(set_as_current=False)
    app.conf.timezone, app.conf.enable_utc = zone.key, True
    minute, hour, *_ = text.split()
    found, last, at = [], start.astimezone(zone) - QUARTER, start
    while at < end:
        now = at.astimezone(zone)
        schedule = crontab(minute=minute, hour=hour, app=app, nowfun=lambda now=now: now)
        if schedule.is_due(last).is_due:
            found.append(at)
            last = now
        at += QUARTER
    return found


def _until(times: Iterator[datetime], end: datetime) -> list[datetime]:
    found = []
    for at in times:
        if at >= end:
            return found
        found.append(at.astimezone(UTC))
    return found


ENGINES: dict[str, Engine] = {
    "dutiful": dutiful,
    "apscheduler": apscheduler,
    "croniter": croniter,
    "cronsim": cronsim,
    "celery": celery,
}


def cases() -> Iterator[tuple[str, ZoneInfo, datetime, datetime]]:
    """Yield each text around each change: the day before, the day itself, and the day after."""
    for name, days in CHANGES.items():
        for day in days:
            noon = datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=ZoneInfo(name)).astimezone(UTC)
            for text in TEXTS:
                yield text, ZoneInfo(name), noon - timedelta(days=1.5), noon + timedelta(days=1.5)


def score(engine: Engine) -> int:
    """Return in how many cases an engine gives the literal answer."""
    return sum(engine(*case) == literal(*case) for case in cases())


if __name__ == "__main__":
    for name, engine in ENGINES.items():
        print(f"{name} {version(name)}: {score(engine)} of {len([*cases()])}")
