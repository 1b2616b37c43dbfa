"""Imported schedules fire when APScheduler and Celery fire the originals, over a year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from celery import Celery
from celery.schedules import crontab, schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from dutiful import Cron
from dutiful.core.cron.dialect import DIALECTS, MONTH_NAMES, WEEKDAY_NAMES, parse_fields, values
from dutiful.importers.apscheduler import read_jobs
from dutiful.importers.celery_beat import read_beat_schedule
from dutiful.importers.imported import Target

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
MOST = 400
ZONES = ("UTC", "Europe/Berlin")
# Days on which clocks change in Berlin, where no two schedulers agree; the differences say so.
CHANGES = {datetime(2026, month, day, tzinfo=UTC).date() for month, day in ((3, 28), (3, 29), (10, 25))}

APSCHEDULER = [
    "'cron'",
    "'cron', hour=3",
    "'cron', day_of_week='mon-fri', hour=9, minute=30",
    "'cron', day_of_week=0, hour=9",
    "'cron', day_of_week='0,2,6', hour=9",
    "'cron', day_of_week='sun', hour='*/6'",
    "'cron', day_of_week='*/2', hour=4, minute=5",
    "'cron', day='1,15', hour=6",
    "'cron', day='*/10', hour=6",
    "'cron', month='jan-mar,jul', day=1",
    "'cron', month='*/4'",
    "'cron', minute='10-50/20'",
    "'cron', minute='7/20', hour=12",
    "'cron', hour=8, minute=0, second='*/20'",
    "'cron', second=30",
    "CronTrigger(day_of_week='tue', hour=1, timezone=ZONE)",
    "CronTrigger.from_crontab('0 9 * * 1-5', timezone=ZONE)",
    "CronTrigger.from_crontab('15 3-21/3 1,2 * *', timezone=ZONE)",
    "'cron', hour=3, start_date='2026-03-01', end_date='2026-04-01 03:00:00'",
]
CELERY = [
    "crontab(minute=0, hour=4)",
    "crontab(minute='*/15')",
    "crontab(hour='9-17/4', minute='5,35')",
    "crontab(minute=0, hour=0, day_of_week='mon-fri')",
    "crontab(minute=0, hour=0, day_of_week='fri-mon')",
    "crontab(minute=0, hour=0, day_of_week='0,3')",
    "crontab(minute=0, hour=0, day_of_week='sunday')",
    "crontab(minute=0, hour=6, day_of_month='*/10')",
    "crontab(minute=0, hour=6, day_of_month='28-3')",
    "crontab(0, 0, day_of_month='1', month_of_year='*/3')",
    "crontab(minute=0, hour='22-2')",
    "crontab(minute=[1, 2], hour=7)",
    "crontab.from_string('5 4 * * 1-5')",
    "30.0",
    "timedelta(minutes=20)",
    "schedule(run_every=60 * 60 * 6)",
]


def imported_fires(imported):
    """Return the fire times of the only schedule that was imported."""
    assert imported.refused == []
    (one,) = imported.schedules
    cron = Cron.parse(one["cron_expr"], one.get("dialect", "standard"), one["timezone"], dst=one["dst"])
    start = max(START, datetime.fromisoformat(one.get("start_at", START.isoformat())))
    end = min(END, datetime.fromisoformat(one.get("end_at", END.isoformat())) + timedelta(seconds=1))
    return [at.astimezone(UTC) for at in islice(cron.between(start, end), MOST)]


def comparable(times, until, zone):
    """Return the times up to one, without the days on which clocks change."""
    skipped = CHANGES if zone != "UTC" else set()
    return [at for at in times if at <= until and at.astimezone(ZoneInfo(zone)).date() not in skipped]


def assert_equal(imported, real, zone):
    until = min(imported[-1], real[-1])
    assert comparable(imported, until, zone) == comparable(real, until, zone)
    assert len(comparable(real, until, zone)) > 2


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("trigger", APSCHEDULER)
def test_a_cron_job_of_apscheduler_fires_at_the_same_times(trigger, zone):
    trigger = trigger.replace("ZONE", repr(zone))
    text = (
        "from apscheduler.schedulers.background import BackgroundScheduler\n"
        "from apscheduler.triggers.cron import CronTrigger\n"
        f"scheduler = BackgroundScheduler(timezone={zone!r})\n"
        f"scheduler.add_job(print, {trigger}, id='job')\n"
    )
    names: dict[str, Any] = {}
    exec(text, names)
    (job,) = names["scheduler"].get_jobs()
    found, previous, now = [], None, START - timedelta(microseconds=1)
    while len(found) < MOST and (at := job.trigger.get_next_fire_time(previous, now)) and at < END:
        found.append(at.astimezone(UTC))
        previous = now = at
    assert_equal(imported_fires(read_jobs(text, Target("w", "u"))), found, zone)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("when", CELERY)
def test_an_entry_of_beat_fires_at_the_same_times(when, zone):
    entry = f"{{'task': 't', 'schedule': {when}}}"
    text = f"app.conf.timezone = {zone!r}\napp.conf.beat_schedule = {{'e': {entry}}}\n"
    app = Celery(set_as_current=False)
    exec(text, {"app": app, "crontab": crontab, "schedule": schedule, "timedelta": timedelta})
    entry = app.conf.beat_schedule["e"]["schedule"]
    imported = imported_fires(read_beat_schedule(text, Target("w", "u")))
    if not isinstance(entry, crontab):
        every = getattr(entry, "run_every", entry)
        every = every if isinstance(every, timedelta) else timedelta(seconds=every)
        assert {after - before for before, after in pairwise(imported)} == {every}
        return
    entry.app, found, last = app, [], START.astimezone(ZoneInfo(zone)) - timedelta(minutes=1)
    while len(found) < MOST and last < END:
        entry.nowfun = lambda last=last: last
        begin, delta, _ = entry.remaining_delta(last)
        last = begin + delta
        found.append(last.astimezone(UTC))
    assert_equal(imported, [at for at in found if START <= at < END], zone)


def field_texts(low, high, names=()):
    """Return fields as both schedulers take them: values, ranges, steps and lists of them."""
    value = st.sampled_from([*map(str, range(low, high + 1)), *names])
    step = st.integers(1, high).map(str)
    item = st.one_of(
        st.just("*"),
        value,
        st.builds("*/{}".format, step),
        st.builds("{}-{}".format, value, value),
        st.builds("{}-{}/{}".format, value, value, step),
    )
    return st.lists(item, min_size=1, max_size=3).map(",".join)


def calls(day, month):
    """Return the arguments of a trigger whose fields for the day and the month have these names."""
    fields = {
        "minute": field_texts(0, 59),
        "hour": field_texts(0, 23),
        day: field_texts(1, 31),
        month: field_texts(1, 12, MONTH_NAMES),
        "day_of_week": field_texts(0, 6, WEEKDAY_NAMES),
    }
    return st.fixed_dictionaries({}, optional=fields)


def fields_of(imported):
    """Return the fields that were imported; None where they have no cron text."""
    if imported.refused:
        (refused,) = imported.refused
        assert any(
            why in refused.reason for why in ("must both match", "cannot exist", "after a name", "longer")
        )
        return None
    return parse_fields(imported.schedules[0]["cron_expr"], DIALECTS["seconds"])


def written(fields):
    return ", ".join(f"{name}={text!r}" for name, text in fields.items())


@settings(max_examples=200, deadline=None)
@given(calls("day_of_month", "month_of_year"))
def test_the_fields_of_a_crontab_of_celery_have_the_values_that_they_have_there(fields):
    there = crontab(**fields)
    entry = f"{{'task': 't', 'schedule': crontab({written(fields)})}}"
    here = fields_of(read_beat_schedule(f"beat_schedule = {{'e': {entry}}}", Target("w", "u")))
    if here is not None:
        days = (there.day_of_month, there.month_of_year, there.day_of_week)
        assert [{*values(bits)} for bits in here[1:6]] == [{*there.minute}, {*there.hour}, *map(set, days)]


@settings(max_examples=200, deadline=None)
@given(calls("day", "month"))
def test_a_cron_trigger_of_apscheduler_fires_at_the_times_of_its_fields(fields):
    try:
        there = CronTrigger(**fields, timezone="UTC")
    except ValueError:
        # Ranges that run backwards, and steps that are longer than their range.
        return
    imported = read_jobs(f"scheduler.add_job(work, CronTrigger({written(fields)}))", Target("w", "u"))
    if fields_of(imported) is None:
        return
    cron, at = Cron.parse(imported.schedules[0]["cron_expr"], "seconds"), START
    for _ in range(5):
        fired = there.get_next_fire_time(at, at + timedelta(seconds=1))
        at = cron.next(at)
        assert at == fired
