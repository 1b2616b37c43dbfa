"""Zones: which changes are found, which instants a wall has, which names are refused."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import dateutil.tz
import pytest
from tests.oracles import DAY, changes, epoch, ticks, tzif_changes

from dutiful import Cron, InvalidArgumentError
from dutiful.core.cron.zone import _PROBE_STEP, Zone, zone

SINCE, UNTIL = epoch(1900, 1, 1), epoch(2038, 1, 1)
ZONES = sorted(available_timezones())
ODD_ZONES = (
    "Africa/Casablanca",
    "Africa/Freetown",
    "Africa/Monrovia",
    "America/Argentina/San_Luis",
    "America/Danmarkshavn",
    "America/New_York",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Europe/Amsterdam",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "UTC",
)
SAMPLE = sorted({*ODD_ZONES, *random.Random(1900).sample(ZONES, 20)})


def found_and_listed(name):
    tz = ZoneInfo(name)
    return list(Zone(tz).changes(SINCE, UNTIL)), changes(name, tz, SINCE, UNTIL)


@pytest.mark.parametrize("name", SAMPLE)
def test_the_changes_found_are_those_that_the_database_lists(name):
    found, listed = found_and_listed(name)
    assert found == listed


@pytest.mark.soak
@pytest.mark.parametrize("name", ZONES)
def test_the_changes_found_are_those_that_the_database_lists_in_every_zone(name):
    found, listed = found_and_listed(name)
    assert found == listed


def test_no_stretch_of_the_database_is_shorter_than_a_probe():
    stretches = [later - at for name in ZONES for (at, _, _), (later, _, _) in pairwise(tzif_changes(name))]
    assert min(stretches) > _PROBE_STEP


def test_the_changes_of_a_range_include_its_start_and_leave_out_its_end():
    new_york = zone("America/New_York")
    spring, autumn = epoch(2026, 3, 8, 7), epoch(2026, 11, 1, 6)
    both = [(spring, -18_000, -14_400), (autumn, -14_400, -18_000)]
    assert list(new_york.changes(spring, autumn + 1)) == both
    assert list(new_york.changes(spring, autumn)) == both[:1]
    assert list(new_york.changes(spring + 1, autumn + 1)) == both[1:]


NEW_YORK_2026 = [
    ("an ordinary time has one instant", (2026, 7, 1, 12), [(2026, 7, 1, 16)]),
    ("the last minute before the gap has one", (2026, 3, 8, 1, 59), [(2026, 3, 8, 6, 59)]),
    ("the first minute of the gap has none", (2026, 3, 8, 2), []),
    ("the last minute of the gap has none", (2026, 3, 8, 2, 59), []),
    ("the first minute after the gap has one", (2026, 3, 8, 3), [(2026, 3, 8, 7)]),
    ("the last minute before the fold has one", (2026, 11, 1, 0, 59), [(2026, 11, 1, 4, 59)]),
    ("the first minute of the fold has two", (2026, 11, 1, 1), [(2026, 11, 1, 5), (2026, 11, 1, 6)]),
    (
        "the last minute of the fold has two",
        (2026, 11, 1, 1, 59),
        [(2026, 11, 1, 5, 59), (2026, 11, 1, 6, 59)],
    ),
    ("the first minute after the fold has one", (2026, 11, 1, 2), [(2026, 11, 1, 7)]),
]


@pytest.mark.parametrize(
    ("wall", "instants"), [row[1:] for row in NEW_YORK_2026], ids=[row[0] for row in NEW_YORK_2026]
)
def test_the_instants_of_a_wall(wall, instants):
    assert zone("America/New_York").instants(epoch(*wall)) == tuple(epoch(*instant) for instant in instants)


@pytest.mark.parametrize("name", SAMPLE)
def test_the_two_instants_of_a_repeated_wall_come_in_order(name):
    folds = [change for change in tzif_changes(name) if change[0] >= SINCE and change[2] < change[1]]
    for at, before, after in folds:
        middle = at + (before + after) // 2
        assert zone(name).instants(middle) == (middle - before, middle - after)


def test_a_wall_of_the_day_that_apia_left_out_has_no_instant():
    apia = zone("Pacific/Apia")
    assert apia.instants(epoch(2011, 12, 29, 23, 59)) == (epoch(2011, 12, 30, 9, 59),)
    assert apia.instants(epoch(2011, 12, 30, 12)) == ()
    assert apia.instants(epoch(2011, 12, 31)) == (epoch(2011, 12, 30, 10),)


def test_the_offset_beyond_the_years_of_a_datetime_is_that_of_the_last_year():
    tokyo = zone("Asia/Tokyo")
    assert (tokyo.offset(10**15), tokyo.offset(-(10**15))) == (32_400, 33_539)


def test_zones_are_shared_and_compare_by_their_tzinfo():
    assert zone("Europe/Berlin") is zone("Europe/Berlin")
    assert zone("Europe/Berlin") is zone(ZoneInfo("Europe/Berlin"))
    assert zone("UTC") is zone(UTC) is zone(ZoneInfo("UTC"))
    assert zone("Europe/Berlin") != zone("Europe/Paris")
    assert zone("Europe/Berlin") != "Europe/Berlin"
    assert {zone("Europe/Berlin"), zone("Europe/Berlin")} == {zone("Europe/Berlin")}
    assert repr(zone("Europe/Berlin")) == "Zone('Europe/Berlin')"


def test_a_fixed_offset_works_as_a_zone():
    india = timezone(timedelta(hours=5, minutes=30))
    cron = Cron.parse("0 9 * * *", timezone=india)
    assert cron.next(datetime(2026, 1, 1, tzinfo=UTC)).isoformat() == "2026-01-01T09:00:00+05:30"
    assert cron.previous(datetime(2026, 1, 1, tzinfo=UTC)).isoformat() == "2025-12-31T09:00:00+05:30"
    assert cron.zone.name == "UTC+05:30"


class Summer(tzinfo):
    """A zone of our own: one hour ahead of UTC, two between `start` and `end` (local standard time)."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self._start, self._end = start, end

    def dst(self, dt):
        assert dt is not None
        naive = dt.replace(tzinfo=None)
        repeated = self._end <= naive < self._end + timedelta(hours=1) and dt.fold
        in_summer = self._start + timedelta(hours=1) <= naive < self._end + timedelta(hours=1)
        return timedelta(hours=1) if in_summer and not repeated else timedelta(0)

    def utcoffset(self, dt):
        return timedelta(hours=1) + self.dst(dt)

    def tzname(self, dt):
        return "SUMMER" if self.dst(dt) else "WINTER"

    def fromutc(self, dt):
        standard = dt + timedelta(hours=1)
        naive = standard.replace(tzinfo=None)
        if self._start <= naive < self._end:
            return standard + timedelta(hours=1)
        return standard.replace(fold=int(self._end <= naive < self._end + timedelta(hours=1)))


SUMMER = Summer(datetime.fromisoformat("2026-03-29T02:00"), datetime.fromisoformat("2026-10-25T02:00"))


@pytest.mark.parametrize(
    ("gap", "fold", "day"),
    [
        ("skip", "both", (2026, 3, 29)),
        ("run_after", "both", (2026, 3, 29)),
        ("skip", "both", (2026, 10, 25)),
        ("skip", "first", (2026, 10, 25)),
        ("skip", "last", (2026, 10, 25)),
    ],
)
def test_a_tzinfo_of_ones_own_works_through_its_changes(gap, fold, day):
    start, end = epoch(*day) - DAY, epoch(*day) + 2 * DAY
    cron = Cron.parse("30 2 * * *", timezone=SUMMER, gap=gap, fold=fold)
    begin, stop = (datetime.fromtimestamp(instant, UTC) for instant in (start, end))
    found = [int(tick.timestamp()) for tick in cron.between(begin, stop)]
    assert found == ticks("30 2 * * *", ZoneInfo("Europe/Berlin"), start, end, gap, fold)


def test_a_tzinfo_that_cannot_be_hashed_works():
    berlin = dateutil.tz.gettz("Europe/Berlin")
    with pytest.raises(TypeError):
        hash(berlin)
    cron = Cron.parse("30 2 * * *", timezone=berlin, gap="run_after")
    assert cron.next(datetime(2026, 3, 28, 12, tzinfo=UTC)).isoformat() == "2026-03-29T03:00:00+02:00"
    assert cron == Cron.parse("30 2 * * *", timezone=berlin, gap="run_after")
    assert hash(cron) == hash(Cron.parse("30 2 * * *", timezone=berlin, gap="run_after"))


class Aimless(tzinfo):
    """A tzinfo that never says what its offset is."""

    def utcoffset(self, _dt):
        return None

    dst = utcoffset


@pytest.mark.parametrize("kind", [Aimless, tzinfo])
def test_a_tzinfo_without_an_offset_is_refused(kind):
    with pytest.raises(InvalidArgumentError) as caught:
        Cron.parse("0 0 * * *", timezone=kind())
    assert caught.value.details["argument"] == "timezone"
    assert caught.value.details["reason"] == "this tzinfo gives no UTC offset"


class Fall(tzinfo):
    """A zone of our own that falls back one hour at one instant."""

    def __init__(self, at: int) -> None:
        self._at = datetime.fromtimestamp(at, UTC).replace(tzinfo=None)

    def utcoffset(self, dt):
        repeated = self._at <= dt.replace(tzinfo=None) < self._at + timedelta(hours=1)
        summer = dt.replace(tzinfo=None) < self._at or (repeated and not dt.fold)
        return timedelta(hours=1) if summer else timedelta(0)

    def dst(self, dt):
        return self.utcoffset(dt)

    def fromutc(self, dt):
        naive = dt.replace(tzinfo=None)
        if naive < self._at:
            return dt + timedelta(hours=1)
        return dt.replace(fold=int(naive < self._at + timedelta(hours=1)))


@pytest.mark.parametrize("fold", ["both", "first", "last"])
@pytest.mark.parametrize("distance", [-4500, -3600, -1800, -60, 0, 60, 1800, 3600, 4500])
def test_a_fold_across_any_instant_is_seen_whole(distance, fold):
    edge = 13 << 27
    at = (edge + distance) // 60 * 60
    cron = Cron.parse("* * * * *", timezone=Fall(at), fold=fold)
    minutes = range(at - 2 * DAY, at + 2 * DAY, 60)
    repeated = {"both": (), "first": range(at, at + 3600, 60), "last": range(at - 3600, at, 60)}[fold]
    due = [minute for minute in minutes if minute not in repeated]
    begin, stop = (datetime.fromtimestamp(instant, UTC) for instant in (minutes[0], minutes[-1] + 60))
    assert [int(tick.timestamp()) for tick in cron.between(begin, stop)] == due
    backwards, instant = [], minutes[-1] + 60
    while (instant := cron.previous_epoch(instant - 1)) >= minutes[0]:
        backwards.append(instant)
    assert backwards[::-1] == due


def test_the_last_of_two_times_is_kept_in_the_year_6082():
    cron = Cron.parse("0 1 * * *", timezone="America/New_York", fold="last")
    found = cron.next(datetime(6082, 11, 1, tzinfo=UTC))
    assert found.isoformat() == "6082-11-01T01:00:00-05:00"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "x" * 1_000_000,
        "/" * 1_000_000,
        "../x",
        "../../etc/passwd",
        "/usr/share/zoneinfo/UTC",
        "America",
        "America/",
        "leapseconds",
        "tzdata.zi",
        "Europe/Berlin\0",
        "right/UTC",
        "posix/Europe/Berlin",
        "localtime",
    ],
    ids=lambda given: repr(given)[:30],
)
def test_a_name_that_is_not_in_the_database_is_refused(given):
    with pytest.raises(InvalidArgumentError) as caught:
        Cron.parse("0 0 * * *", timezone=given)
    details = caught.value.details
    assert (details["argument"], details["value"]) == ("timezone", given)
    assert details["reason"].startswith("is not in the time zone database; ")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("America/NewYork", "did you mean 'America/New_York'?"),
        ("?", "write an IANA name such as 'Europe/Berlin'"),
        ("localtime", "write an IANA name such as 'Europe/Berlin'"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest_one(given, hint):
    with pytest.raises(InvalidArgumentError) as caught:
        Cron.parse("0 0 * * *", timezone=given)
    assert str(caught.value) == f"Invalid timezone {given!r}: is not in the time zone database; {hint}"


@pytest.mark.parametrize("given", [None, 3600, b"UTC", ["UTC"]])
def test_a_zone_that_is_neither_a_name_nor_a_tzinfo_is_refused(given):
    with pytest.raises(InvalidArgumentError) as caught:
        Cron.parse("0 0 * * *", timezone=given)
    reason = "write an IANA name such as 'Europe/Berlin', or a tzinfo"
    assert caught.value.details == {"argument": "timezone", "value": given, "reason": reason}
