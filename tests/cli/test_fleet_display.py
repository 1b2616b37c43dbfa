"""Tables of a fleet: times as people read them, and widths that hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.yardstick import takes_less_than

from dutiful.cli.fleet_display import Tables, span, table

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (None, ""),
        (NOW, "13:00:00 now"),
        (NOW + timedelta(seconds=9), "13:00:09 in 9s"),
        (NOW + timedelta(minutes=3, seconds=59), "13:03:59 in 3m"),
        (NOW - timedelta(minutes=2), "12:58:00 2m ago"),
        (NOW + timedelta(hours=11), "2026-03-09 00:00 in 11h"),
        (NOW - timedelta(days=40), "2026-01-27 13:00 40d ago"),
    ],
)
def test_times_are_those_of_the_reader_and_how_far_away_they_are(at, shown):
    tables = Tables(NOW, ZoneInfo("Europe/Berlin"), 80)
    assert tables._at(None if at is None else at.isoformat()) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0.0s"), (0.25, "0.2s"), (59, "59s"), (3599, "59m"), (7200, "2h"), (90_000, "1d")],
)
def test_spans_have_one_unit(seconds, shown):
    assert span(timedelta(seconds=seconds)) == shown


def test_a_table_that_fits_has_one_line_for_each_row():
    assert table(["name", "said"], [["a/b", "hello"], ["longer/name", ""]], 80) == (
        "name         said\na/b          hello\nlonger/name"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_left_out(width):
    rows = [["agent-" + "x" * 128, "word " * 30 + "y" * 100, "14:03:22 in 3m"]] * 3
    drawn = table(["schedule", "now", "due"], rows, width)
    assert max(map(len, drawn.splitlines())) <= width
    assert (drawn.count("x"), drawn.count("y"), drawn.count("word")) == (3 * 128, 300, 90)


def test_what_jobs_print_cannot_command_the_terminal():
    assert table(["said"], [["\x1b[2Jgone\x07[bold]"]], 80) == "said\n\\x1b[2Jgone\\x07[bold]"


def test_a_stretch_of_skipped_occurrences_is_one_row():
    run = {
        "agent": "a", "schedule": "s", "run": None,
        "run_at": "2026-03-08T10:00:00Z", "run_until": "2026-03-08T11:00:00Z", "ticks": 61, "trigger": "x",
        "status": "SKIPPED", "reason": "at_capacity", "started_at": None, "ended_at": None, "detail": None,
    }  # fmt: skip
    _, row = Tables(NOW, UTC, 200).history([run]).splitlines()
    assert row.strip().split("  ")[0] == "10:00:00 2h ago and 60 more until 11:00:00 1h ago"


def test_five_thousand_schedules_are_drawn_quickly_on_a_narrow_terminal():
    at = {"last_run_at": "2026-03-07T11:00:00Z", "next_run_at": "2026-03-09T11:00:00Z"}
    skipped = {"status": "idle", "skip_reason": "not_due", "skipped_since": "2026-03-08T11:00:00Z"}
    failed = {"last_error": "exit code 3: no luck", "problem": None}
    found = [{"agent": "a", "schedule": f"s{n}", **at, **skipped, **failed} for n in range(5000)]
    with takes_less_than(200):
        drawn = Tables(NOW, UTC, 80).schedules(found).splitlines()
    assert drawn[:2] == [
        "schedule  now             last run                 next run",
        "a/s0      not_due for 1h  2026-03-07 11:00 1d ago  2026-03-09 11:00 in 23h",
    ]
    assert (len(drawn), drawn[-1]) == (10_003, "a/s4999   exit code 3: no luck")
