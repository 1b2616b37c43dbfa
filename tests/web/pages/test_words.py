"""The words of the pages: whole values for spans, distances, places and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dutiful.core.cron.cron import Cron
from dutiful.core.policy import Reason
from dutiful.web.pages import words

NOW = datetime(2026, 11, 2, 14, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *[(0, "0 ms"), (0.0124, "12 ms"), (1, "1 s"), (2.25, "2.2 s"), (59, "59 s"), (60, "1 min")],
        *[(0.9994, "999 ms"), (0.9996, "1.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min")],
        *[(122, "2 min 2 s"), (3600, "1 h"), (3661, "1 h 1 min"), (86_400, "1 d"), (90_061, "1 d 1 h")],
    ],
)
def test_a_span_has_its_two_largest_units(seconds, said):
    assert words.span(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "exact", "rough"),
    [
        (0, "now", "now"),
        (18, "in 18 s", "in 18 s"),
        (-59, "59 s ago", "59 s ago"),
        (1488, "in 24 min 48 s", "in 24 min"),
        (-90_000, "1 d 1 h ago", "1 d ago"),
    ],
)
def test_a_distance_says_its_direction(seconds, exact, rough):
    at = NOW + timedelta(seconds=seconds)
    assert (words.distance(at, NOW), words.roughly(at, NOW)) == (exact, rough)


@pytest.mark.parametrize(
    ("zone", "place", "offset"),
    [
        ("UTC", "UTC", "UTC"),
        ("America/New_York", "New York", "UTC−5"),
        ("America/Argentina/Buenos_Aires", "Buenos Aires", "UTC−3"),
        ("Asia/Kathmandu", "Kathmandu", "UTC+5:45"),
    ],
)
def test_a_zone_is_called_as_people_call_it(zone, place, offset):
    assert (words.place(zone), words.offset(NOW.astimezone(ZoneInfo(zone)))) == (place, offset)


@pytest.mark.parametrize(
    ("hours", "near", "near_clock"),
    [
        (1, "today 15:05:12", "15:05:12"),
        (-14, "today 00:05:12", None),
        (24, "tomorrow 14:05:12", "14:05:12 Tue"),
        (-24, "yesterday 14:05:12", None),
        (72, "Thu 14:05:12", "14:05:12 Thu"),
        (24 * 59, "31 Dec 14:05:12", "31 Dec"),
        (24 * 75, "16 Jan 14:05:12", "16 Jan"),
        (24 * 484, "29 Feb 14:05:12", "29 Feb 2028"),
    ],
)
def test_an_instant_is_named_by_its_nearness(hours, near, near_clock):
    at = NOW + timedelta(hours=hours)
    assert words.near(at, NOW) == near
    if near_clock:
        assert words.near_clock(at, NOW) == near_clock


@pytest.mark.parametrize(
    ("text", "zone", "said"),
    [
        ("30 1 * * *", "America/New_York", "At 01:30, every day, in New York"),
        ("0 9 * * 1-5", "UTC", "At 09:00, Monday to Friday, UTC"),
        ("*/10 * * * *", "UTC", "Every 10 minutes, UTC"),
        ("0 9,17 * * *", "Europe/Berlin", "At 09:00 and 17:00, every day, in Berlin"),
        ("0 0 1 * *", "UTC", "At 00:00, on day 1 of the month, UTC"),
    ],
)
def test_a_cron_is_said_with_its_days_and_its_place(text, zone, said):
    assert words.when(Cron.parse(text, "standard", zone)) == said


def test_every_reason_of_the_ledger_has_a_sentence():
    only_explained = {"not_due", "excluded", "dst_gap", "dst_fold", "undecided", "unrecorded"}
    assert {*words.REASONS} == {*Reason} | only_explained


def test_foreign_texts_are_cut():
    assert words.foreign("x" * 2001) == "x" * 2000 + "… (cut)"
    assert words.main_line("one\ntwo") == "one"
    assert words.main_line(None) == ""
    assert words.main_line("\n") == ""


TRACEBACK = """Traceback (most recent call last):
  File "/app/jobs/settle.py", line 214, in settle
    rows = ledger.fetch(batch)
           ^^^^^^^^^^^^^^^^^^^
ConnectionRefusedError: ledger-db.internal:5432
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TRACEBACK, "ConnectionRefusedError: ledger-db.internal:5432"),
        (
            f"{TRACEBACK}\nThe above exception was the direct cause of the following exception:\n\n"
            + TRACEBACK.replace("ConnectionRefused", "Settlement"),
            "SettlementError: ledger-db.internal:5432",
        ),
        (TRACEBACK.replace(": ledger", ": two lines\nof ledger"), "ConnectionRefusedError: two lines"),
        # A text that was cut within its frames.
        (TRACEBACK[:109], "rows = ledger.fetch("),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
    ],
)
def test_the_line_of_a_traceback_that_is_shown_names_the_exception(text, line):
    assert words.main_line(text) == line
