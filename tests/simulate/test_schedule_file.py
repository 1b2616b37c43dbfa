"""A schedule file is read as a whole: into core types, or into the list of everything wrong with it."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutiful.core.cadence import Every, Once, OnDemand
from dutiful.core.cron.cron import Cron
from dutiful.core.policy import Capacity, CatchUp, OnOrphan, Overlap, Policy, Retry
from dutiful.core.schedule import Schedule, Task, Window
from dutiful.errors import ScheduleFileError
from dutiful.simulate.schedule_file import (
    OUTAGE_KEYS,
    SCHEDULE_KEYS,
    Behaviour,
    Outage,
    ScheduleFile,
    read_schedule_file,
)

MARCH = datetime(2026, 3, 1, 6, tzinfo=UTC)
MARCH_MS = 1_772_344_800_000


def read(tmp_path, text):
    path = tmp_path / "schedules.toml"
    path.write_text(text, encoding="utf-8")
    return read_schedule_file(path)


def one(tmp_path, line):
    """Return the schedule that one table with this line makes."""
    return read(tmp_path, f'[[schedules]]\nid = "a"\n{line}\n').schedules[0]


def test_an_empty_file_has_no_schedules(tmp_path):
    assert read(tmp_path, "") == ScheduleFile((), {}, ())


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    assert read(tmp_path, "\ufeff") == ScheduleFile((), {}, ())


def test_every_key_has_its_place(tmp_path):
    text = """
        [[schedules]]
        id = "report"
        task = "send"
        payload = "daily"
        cron = "30 2 * * mon"
        dialect = "standard"
        timezone = "America/New_York"
        gap = "run_after"
        fold = "first"
        start_at = 2026-03-01T06:00:00Z
        end_at = 2026-03-01T07:00:00+01:00
        paused = true
        pause_until = 2026-03-01T06:00:00Z
        overlap = "queue"
        catch_up = "spread"
        on_orphan = "give_up"
        grace = "5m"
        jitter = "30s"
        run_timeout = "2h"
        catch_up_cap = 7
        max_runs = 8
        queue_limit = 9
        retry_delay = "10s"
        retry_limit = 3
        capacity_group = "mail"
        capacity = 4
        takes = "20m"
        fails_every = 5

        [[outages]]
        from = 2026-03-01T06:00:00Z
        for = "6h"

        [[outages]]
        from = 2026-03-02T06:00:00Z
        for = "1d"
        kind = "suspend"
    """
    cron = Cron.parse("30 2 * * mon", "standard", "America/New_York", "run_after", "first")
    policy = Policy(
        Overlap.QUEUE, CatchUp.SPREAD, 300_000, 7, 30_000, retry=Retry(10_000, 3),
        capacity=Capacity("mail", 4), max_runs=8, on_orphan=OnOrphan.GIVE_UP,
        run_timeout=7_200_000, queue_limit=9,
    )  # fmt: skip
    assert read(tmp_path, text) == ScheduleFile(
        (
            Schedule(
                "report", Task("send", "daily"), cron, policy, Window(MARCH_MS, MARCH_MS), True, MARCH_MS
            ),
        ),
        {"report": Behaviour(timedelta(minutes=20), 5)},
        (
            Outage(MARCH, timedelta(hours=6)),
            Outage(MARCH + timedelta(days=1), timedelta(days=1), "suspend"),
        ),
    )


@pytest.mark.parametrize(
    ("line", "cadence"),
    [
        ('cron = "0 9 * * 1-5"', Cron.parse("0 9 * * 1-5")),
        ('cron = "0 9 * * *"\ndst = "vixie"', Cron.parse("0 9 * * *", dst="vixie")),
        ('cron = "*/10 * * * * *"\ndialect = "seconds"', Cron.parse("*/10 * * * * *", "seconds")),
        ('every = "15m"', Every(900_000)),
        ('every_from_start = "15m"', Every(900_000, "start")),
        ("at = 2026-03-01T06:00:00Z", Once(MARCH_MS)),
        ("at = 2026-03-01T01:00:00-05:00", Once(MARCH_MS)),
        # A time without an offset is in UTC, like a cron without a zone.
        ("at = 2026-03-01T06:00:00", Once(MARCH_MS)),
        ("", OnDemand()),
    ],
)
def test_a_schedule_without_further_keys_has_the_defaults(tmp_path, line, cadence):
    assert one(tmp_path, line) == Schedule("a", Task("a"), cadence)


VALUES = st.sampled_from(
    [
        '""', '"a"', '"* * * * *"', '"5m"', '"0 0 30 2 *"', '"UTC"', '"skip"', '"latest"', "true", "0", "1",
        "-7", "99999999999999999999", "1.5", "nan", "inf", "[]", "[1]", "{}", "{a = 1}", "07:30:00",
        "2026-03-01", "2026-03-01T06:00:00", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
        '"999999999d"', '"\\u0000"',
    ]
)  # fmt: skip
TABLES = st.dictionaries(st.sampled_from([*sorted(SCHEDULE_KEYS | OUTAGE_KEYS), "x"]), VALUES, max_size=8)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from(["schedules", "outages", "x"]), TABLES), max_size=4),
    st.text(max_size=9),
)
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path, tables, rest):
    lines = [
        f"[[{name}]]\n" + "\n".join(f"{key} = {value}" for key, value in table.items())
        for name, table in tables
    ]
    path = tmp_path / "schedules.toml"
    path.write_bytes("\n".join([*lines, rest]).encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ScheduleFileError):
        read_schedule_file(path)
