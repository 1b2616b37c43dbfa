"""The simulation: the real engine, so that its ledger can be held against an oracle tick by tick."""

from __future__ import annotations

import gc
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from zoneinfo import ZoneInfo

import pytest
from tests.core.plan.planner_notation import SECOND, schedule
from tests.yardstick import takes_less_than

from dutiful.core.cadence import Every
from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import epoch_ms
from dutiful.core.event import ClockStepped, LeadershipChanged, ScheduleQuarantined
from dutiful.core.policy import CatchUp, OnOrphan, Overlap, Reason
from dutiful.core.run import Run, Status
from dutiful.simulate.schedule_file import Behaviour, Outage, ScheduleFile
from dutiful.simulate.simulation import Simulation, simulate

START = datetime(2026, 1, 5, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURLY = Cron.parse("0 * * * *")


def at(hours: float) -> datetime:
    return START + hours * HOUR


def simulated(*schedules, hours, outages=(), takes=timedelta(0), fails_every=None) -> Simulation:
    behaviours = {declared.id: Behaviour(takes, fails_every) for declared in schedules}
    return simulate(ScheduleFile(schedules, behaviours, tuple(outages)), START, at(hours))


def shown(rows: list[Run]) -> list[str]:
    """Return each row as "+2h SUCCESS": hours from the start, status, reason, and how it was reached."""
    return [" ".join([hours(row.run_at, row.run_until), row.status, *_notes(row)]) for row in rows]


def hours(first: int, last: int | None) -> str:
    told = [
        f"{(instant - epoch_ms(START)) / 3_600_000:g}" for instant in (first, last) if instant is not None
    ]
    return "+" + "-".join(told) + "h"


def _notes(row: Run):
    if row.reason is not None:
        yield row.reason
    if row.attempt > 1:
        yield f"attempt {row.attempt}"
    if row.started_at is not None and row.started_at > row.fire_at:
        yield "started " + hours(row.started_at, None)


def test_a_pause_ends_by_itself_also_after_an_outage():
    declared = schedule(HOURLY, paused=True, pause_until=epoch_ms(at(3)), catch_up=CatchUp.FIRE_IMMEDIATELY)
    assert shown(simulated(declared, hours=4).rows) == ["+1-2h SKIPPED paused", "+3h SUCCESS", "+4h SUCCESS"]
    down = [Outage(at(2.5), HOUR)]
    assert shown(simulated(declared, hours=4, outages=down).rows) == [
        "+1-2h SKIPPED paused",
        "+3h SUCCESS started +3.5h",
        "+4h SUCCESS",
    ]


def test_a_quiet_day_is_a_row_per_tick_the_last_instant_included():
    simulation = simulated(schedule(HOURLY), hours=3)
    assert shown(simulation.rows) == ["+1h SUCCESS", "+2h SUCCESS", "+3h SUCCESS"]
    assert simulation.events == [LeadershipChanged(epoch_ms(START), 1)]


def test_tasks_take_their_time_and_fail_when_told():
    simulation = simulated(schedule(HOURLY, run_timeout=None), hours=5, takes=1.5 * HOUR, fails_every=2)
    assert shown(simulation.rows) == [
        "+1h SUCCESS",
        "+2h SKIPPED overlap",
        "+3h FAILED task_failed",
        "+4h SKIPPED overlap",
        "+5h STARTED",
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, ["+1h SUCCESS", "+2-5h SKIPPED missed", "+6h SUCCESS"]),
        (
            {"catch_up": CatchUp.LATEST},
            ["+1h SUCCESS", "+2-4h SKIPPED coalesced", "+5h SUCCESS started +5.5h", "+6h SUCCESS"],
        ),
        (
            {"catch_up": CatchUp.FIRE_IMMEDIATELY, "overlap": Overlap.ALLOW, "catch_up_cap": 2},
            [
                "+1h SUCCESS",
                "+2-3h SKIPPED catchup_cap",
                "+4h SUCCESS started +5.5h",
                "+5h SUCCESS started +5.5h",
                "+6h SUCCESS",
            ],
        ),
    ],
)
@pytest.mark.parametrize("kind", ["crash", "suspend"])
def test_an_outage_is_accounted_for(kind, policy, expected):
    outage = Outage(at(1.5), 4 * HOUR, kind)
    simulation = simulated(schedule(HOURLY, **policy), hours=6, outages=[outage])
    assert shown(simulation.rows) == expected


def test_a_crash_starts_another_instance_and_a_suspend_is_noticed_by_the_clock():
    outages = [Outage(at(4), HOUR, "suspend"), Outage(at(1), HOUR)]
    assert simulated(schedule(HOURLY), hours=6, outages=outages).events == [
        LeadershipChanged(epoch_ms(START), 1),
        LeadershipChanged(epoch_ms(at(2)), 2),
        ClockStepped(epoch_ms(at(5)), 3_600_000),
    ]


@pytest.mark.parametrize(
    ("on_orphan", "expected"),
    [
        (OnOrphan.RELAUNCH, "+1h SUCCESS attempt 2 started +1.5h"),
        (OnOrphan.RESTART, "+1h SUCCESS attempt 2 started +1.5h"),
        (OnOrphan.GIVE_UP, "+1h FAILED outcome_unknown"),
        (OnOrphan.WAIT, "+1h FAILED interrupted"),
    ],
)
def test_a_run_that_was_in_flight_at_a_crash_is_adopted(on_orphan, expected):
    outages = [Outage(at(1.25), HOUR / 4)]
    simulation = simulated(schedule(HOURLY, on_orphan=on_orphan), hours=1.9, outages=outages, takes=HOUR / 3)
    assert shown(simulation.rows) == [expected]


def test_a_run_goes_on_through_a_suspend_and_does_not_age_in_it():
    for lasts in (0.25, 3):
        outages = [Outage(at(1.25), lasts * HOUR, "suspend")]
        simulation = simulated(schedule(HOURLY), hours=4.9, outages=outages, takes=HOUR / 3)
        assert shown(simulation.rows)[0] == "+1h SUCCESS"


@pytest.mark.parametrize("kind", ["crash", "suspend"])
def test_the_simulation_ends_at_its_end_also_in_the_middle_of_an_outage(kind):
    outages = [Outage(at(1.5), timedelta(days=999_999_999), kind)]
    simulation = simulated(schedule(HOURLY, catch_up=CatchUp.LATEST), hours=6, outages=outages)
    assert shown(simulation.rows) == ["+1h SUCCESS"]


@pytest.mark.parametrize("begin", [-1, 3])
def test_an_outage_that_does_not_begin_in_between_is_left_out(begin):
    simulation = simulated(schedule(HOURLY), hours=2.5, outages=[Outage(at(begin), 2 * HOUR)])
    assert shown(simulation.rows) == ["+1h SUCCESS", "+2h SUCCESS"]


def test_a_schedule_that_cannot_be_computed_is_quarantined_alone():
    simulation = simulated(schedule(Every(0, "start"), "bad"), schedule(HOURLY, "good"), hours=2)
    assert [row.schedule_id for row in simulation.rows] == ["good", "good"]
    error = "ZeroDivisionError: integer division or modulo by zero"
    assert simulation.events[1:] == [ScheduleQuarantined(epoch_ms(START), "bad", error)]


def test_one_schedule_with_a_period_beyond_all_years_does_not_stop_the_others():
    forever = Every(999_999_999 * 86_400 * SECOND)
    simulation = simulated(schedule(forever, "forever"), schedule(Every(86_400 * SECOND), "daily"), hours=49)
    assert [row.schedule_id for row in simulation.rows] == ["daily", "forever", "daily", "daily"]


# A year of a hundred schedules, against local calendars walked day by day.

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
YEAR = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
OUTAGES = (
    Outage(datetime(2026, 3, 29, 0, 30, tzinfo=UTC), 3 * HOUR),
    Outage(datetime(2026, 7, 10, 0, 30, tzinfo=UTC), 30 * HOUR, "suspend"),
    Outage(datetime(2026, 11, 1, 5, 10, tzinfo=UTC), 1.5 * HOUR),
)
YARDS = 10_000


def texts() -> dict[str, str]:
    daily = {f"daily-{n}": f"{n * 7 % 60} {n % 24} * * *" for n in range(70)}
    weekly = {f"weekly-{n}": f"{n} {n} * * {n % 7}" for n in range(10)}
    monthly = {f"monthly-{n}": f"{n} {n} {n * 3 + 1} * *" for n in range(10)}
    return daily | weekly | monthly | {f"hourly-{n}": f"{n * 5} * * * *" for n in range(10)}


def calendar_ticks(text: str, zone: ZoneInfo) -> list[int]:
    """Return the instants of the year at which local clocks match, found by trying every local day."""
    minute, hour, day, _, weekday = text.split()
    found = set()
    for ordinal in range(date(2025, 12, 31).toordinal(), date(2027, 1, 3).toordinal()):
        local = date.fromordinal(ordinal)
        if day in ("*", str(local.day)) and weekday in ("*", str(local.isoweekday() % 7)):
            for each in range(24) if hour == "*" else [int(hour)]:
                found.update(instants(datetime.combine(local, clock_time(each, int(minute))), zone))
    return sorted(epoch_ms(instant) for instant in found if YEAR[0] < instant <= YEAR[1])


def instants(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    tries = [wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    return [instant for instant in tries if instant.astimezone(zone).replace(tzinfo=None) == wall]


def in_an_outage(tick: int) -> bool:
    """Return whether the tick was missed by more than the grace of a minute."""
    spans = [(epoch_ms(outage.start), epoch_ms(outage.start + outage.lasts)) for outage in OUTAGES]
    return any(begin < tick < end - 60 * SECOND for begin, end in spans)


def test_a_year_of_a_hundred_schedules_is_complete_and_quick():
    zones = {id_: ZONES[n % 5] for n, id_ in enumerate(texts())}
    crons = {id_: Cron.parse(text, timezone=zones[id_]) for id_, text in texts().items()}
    schedules = tuple(schedule(cron, id_) for id_, cron in crons.items())
    behaviours = {id_: Behaviour(timedelta(minutes=10) if "hourly" in id_ else timedelta(0)) for id_ in crons}

    with takes_less_than(YARDS):
        simulation = simulate(ScheduleFile(schedules, behaviours, OUTAGES), *YEAR)

    ledger: dict[str, list[Run]] = {id_: [] for id_ in crons}
    for row in simulation.rows:
        ledger[row.schedule_id].append(row)
    for id_, text in texts().items():
        assert_complete(ledger[id_], calendar_ticks(text, ZoneInfo(zones[id_])))


def assert_complete(rows: list[Run], ticks: list[int]) -> None:
    """Every tick is in exactly one row, with the status that the outages leave it."""
    at_row = iter(ticks)
    for row in rows:
        covered = [next(at_row) for _ in range(row.ticks)]
        assert (covered[0], covered[-1]) == (row.run_at, row.run_until or row.run_at)
        assert all(in_an_outage(tick) is (row.reason is Reason.MISSED) for tick in covered)
        ended_well = row.status in {Status.SUCCESS, Status.STARTED}
        assert ended_well or row.reason in {Reason.MISSED, Reason.OVERLAP, Reason.LOST_RUN}
    assert list(at_row) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was_found(enabled):
    was_enabled = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        simulated(schedule(HOURLY), hours=1)
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if was_enabled else gc.disable()
