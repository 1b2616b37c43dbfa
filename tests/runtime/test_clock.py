"""The clock of the host, and the many ways in which a host says where it is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from tests.oracles import _tzif_bytes

from dutiful import Cron
from dutiful.runtime.clock import SystemClock, local_zone

JANUARY, JULY = datetime(2026, 1, 15, 12, tzinfo=UTC), datetime(2026, 7, 15, 12, tzinfo=UTC)


def hours(zone):
    """Return the offsets from UTC in winter and in summer."""
    return [at.astimezone(zone).utcoffset() / timedelta(hours=1) for at in (JANUARY, JULY)]


@pytest.fixture
def etc(tmp_path, monkeypatch):
    monkeypatch.delenv("TZ", raising=False)
    return tmp_path


# $TZ


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("America/New_York", "America/New_York"),
        (":America/New_York", "America/New_York"),
        ("EST5EDT", "EST5EDT"),
        ("/usr/share/zoneinfo/Europe/Kyiv", "Europe/Kyiv"),
        (":/usr/share/zoneinfo/Europe/Kyiv", "Europe/Kyiv"),
        ("/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        ("/somewhere/zoneinfo-2026a/right/Asia/Tokyo", "Asia/Tokyo"),
    ],
)
def test_tz_is_a_name_or_the_path_of_one(monkeypatch, text, name):
    monkeypatch.setenv("TZ", text)
    assert local_zone() == ZoneInfo(name)


@pytest.mark.parametrize("text", ["", ":"])
def test_an_empty_tz_is_utc_whatever_the_host_says(monkeypatch, tmp_path, text):
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    monkeypatch.setenv("TZ", text)
    assert local_zone(str(tmp_path)) is UTC


def test_tz_may_be_the_path_of_a_copy(monkeypatch, tmp_path):
    (tmp_path / "here").write_bytes(_tzif_bytes("Australia/Lord_Howe"))
    monkeypatch.setenv("TZ", str(tmp_path / "here"))
    assert local_zone() == ZoneInfo("Australia/Lord_Howe")


@pytest.mark.parametrize(
    ("text", "winter", "summer"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", 1, 2),
        ("EST5EDT,M3.2.0,M11.1.0", -5, -4),
        ("AAA3BBB", -3, -2),
        ("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", -3, -2),
        ("NZST-12NZDT,M9.5.0,M4.1.0/3", 13, 12),
    ],
)
def test_tz_may_be_a_rule(monkeypatch, text, winter, summer):
    monkeypatch.setenv("TZ", text)
    assert hours(local_zone()) == [winter, summer]


@pytest.mark.parametrize(
    ("text", "offset"), [("<+0530>-5:30", timedelta(hours=5.5)), ("XST8", timedelta(hours=-8))]
)
def test_a_rule_without_summer_is_an_offset(monkeypatch, text, offset):
    monkeypatch.setenv("TZ", text)
    assert local_zone() == timezone(offset)


def test_a_cron_of_a_rule_follows_it(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    cron = Cron.parse("30 2 * * *", timezone=local_zone())
    berlin = Cron.parse("30 2 * * *", timezone="Europe/Berlin")
    start, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC)
    ticks = [at.timestamp() for at in cron.between(start, end)]
    assert ticks == [at.timestamp() for at in berlin.between(start, end)]


@pytest.mark.parametrize(
    "text",
    ["Mars/Phobos", "America", "../etc/passwd", "/no/such/file", "X5", "EST5EDT,M13", "AAA+24", "AAA-24"],
)
def test_a_tz_that_means_nothing_is_utc_and_said(monkeypatch, caplog, text):
    monkeypatch.setenv("TZ", text)
    with caplog.at_level(logging.WARNING, "dutiful"):
        assert local_zone() is UTC
    assert caplog.messages == [f"TZ={text!r} names no time zone; taking UTC, as C programs do"]


# /etc


@pytest.mark.parametrize("target", ["/usr/share/zoneinfo/Europe/Kyiv", "../usr/share/zoneinfo/Europe/Kyiv"])
def test_a_link_into_the_database_names_the_zone_even_if_it_leads_nowhere(etc, target):
    (etc / "localtime").symlink_to(target)
    assert local_zone(str(etc)) == ZoneInfo("Europe/Kyiv")


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "UTC"])
def test_a_copied_file_is_found_in_the_database_under_the_name_that_people_use(etc, name):
    (etc / "localtime").write_bytes(_tzif_bytes(name))
    assert local_zone(str(etc)) == ZoneInfo(name)


def test_a_copied_file_has_the_name_that_the_host_gives_it_if_that_is_true(etc):
    (etc / "localtime").write_bytes(_tzif_bytes("Arctic/Longyearbyen"))
    (etc / "timezone").write_text("Arctic/Longyearbyen\n")
    assert local_zone(str(etc)) == ZoneInfo("Arctic/Longyearbyen")
    (etc / "timezone").write_text("Asia/Tokyo\n")
    assert hours(local_zone(str(etc))) == [1, 2]


@pytest.mark.parametrize("hint", [b"", b"\xff", b"../../etc/passwd", b"Mars/Phobos"])
def test_a_name_that_cannot_be_is_passed_over(etc, hint):
    (etc / "localtime").write_bytes(_tzif_bytes("Asia/Tokyo"))
    (etc / "timezone").write_bytes(hint)
    assert local_zone(str(etc)) == ZoneInfo("Asia/Tokyo")


def test_a_file_that_is_not_in_the_database_is_used_without_a_name(etc):
    changed = _tzif_bytes("Europe/Berlin").replace(b"CET-1CEST,M3.5.0", b"CET-1CEST,M3.4.0")
    (etc / "localtime").write_bytes(changed)
    found = local_zone(str(etc))
    assert (getattr(found, "key", None), hours(found)) == (None, [1, 2])
    # Its last Sunday but one of March 2040 is already summer.
    assert datetime(2040, 3, 26, 12, tzinfo=UTC).astimezone(found).utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize("content", [None, b"", b"no zone at all"])
def test_without_a_file_that_can_be_read_it_is_utc(etc, content):
    if content is not None:
        (etc / "localtime").write_bytes(content)
    assert local_zone(str(etc)) is UTC


@pytest.mark.parametrize(
    "text", ["Asia/Tokyo", "CET-1CEST,M3.5.0,M10.5.0/3", "", "Mars/Phobos", "<+0530>-5:30"]
)
def test_the_c_library_is_of_the_same_opinion(text):
    code = "import time; print(*[time.localtime(at).tm_gmtoff for at in (1768478400, 1784116800)])"
    environment = os.environ | {"TZ": text}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    ours = "import dutiful.runtime.clock as c; from datetime import datetime as d; z = c.local_zone(); "
    ours += (
        "print(*[int(d.fromtimestamp(at, z).utcoffset().total_seconds()) for at in (1768478400, 1784116800)])"
    )
    said = subprocess.run(
        [sys.executable, "-c", ours], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout == told.stdout


def test_the_clock_tells_the_time_in_utc_and_has_the_zone_of_the_host(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    clock = SystemClock()
    assert (clock.now().tzinfo, clock.timezone) == (UTC, ZoneInfo("Asia/Tokyo"))


def test_the_naps_of_a_clock_end_together_whenever_they_began():
    clock = SystemClock()
    began = [clock.monotonic() + second / 10 for second in range(100)]
    ends = [begin + clock.nap_left(begin) for begin in began]
    assert all(0 < end - begin <= 1 for begin, end in zip(began, ends, strict=True))
    # One end in every second, give or take the one that 100 tenths touch at both sides.
    assert len({round(end, 3) for end in ends}) in (10, 11)
