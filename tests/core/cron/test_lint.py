"""Remarks on texts that are legal but may not be meant, and the changes of offset that touch them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.oracles import epoch

from dutiful import Cron
from dutiful.core.cron.lint import DstEffect, Finding, dst_effects, lint

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
EITHER = "day and weekday are both given: it fires when either matches, not when both do"


def remarks(text, dialect="standard", **settings):
    return lint(Cron.parse(text, dialect, **settings), NEW_YEAR)


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "0 * * * *",
        "30 2 * * *",
        "0 9 * * 1-5",
        "*/15 * * * *",
        "0 */6 * * *",
        "0 0 1,15 * *",
        "0 0 28 2 *",
        "0 0 31 1,3,5 *",
        "0 0 30 4-12 *",
        "0 0 1-31 * *",
        "0 0 */31 * *",
        "0 0 * * */7",
        "0 0 * * */8",
        "0 0 * * */99",
        "0 0 * */2 *",
        "5,10 * * * *",
        "0,45 * * * *",
        "0 0,13 * * *",
        "@daily",
        "@yearly",
    ],
)
def test_nothing_is_said_about(text):
    assert remarks(text) == []


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("0 0 1 * 1", [Finding("day_or_weekday", "warning", EITHER)]),
        ("0 0 1-31 * 1", [Finding("day_or_weekday", "warning", EITHER)]),
        (
            "0 0 29 2 *",
            [
                Finding(
                    "leap_only",
                    "warning",
                    "29 February exists in leap years only: up to eight years between runs",
                )
            ],
        ),
        ("0 0 29 * *", [Finding("short_months", "note", "months without a day 29 are passed over")]),
        ("0 0 30 * *", [Finding("short_months", "note", "months without a day 30 are passed over")]),
        ("0 0 31 * *", [Finding("short_months", "note", "months without a day 31 are passed over")]),
        ("0 0 31 3,4 *", [Finding("short_months", "note", "months without a day 31 are passed over")]),
        (
            "0 0 30 2 1",
            [
                Finding("day_or_weekday", "warning", EITHER),
                Finding(
                    "impossible_date",
                    "warning",
                    "no month given has a day 30: only the weekday ever fires",
                ),
            ],
        ),
        (
            "0 0 31 4,6 1",
            [
                Finding("day_or_weekday", "warning", EITHER),
                Finding(
                    "impossible_date",
                    "warning",
                    "no month given has a day 31: only the weekday ever fires",
                ),
            ],
        ),
    ],
)
def test_dates_that_surprise(text, findings):
    assert remarks(text) == findings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*/7 * * * *", "every 7 minutes does not divide 60: the last gap is 4"),
        ("*/40 * * * *", "every 40 minutes does not divide 60: the last gap is 20"),
        ("0,25,50 * * * *", "every 25 minutes does not divide 60: the last gap is 10"),
        ("0 */5 * * *", "every 5 hours does not divide 24: the last gap is 4"),
        ("0 0 */2 * *", "the step */2 starts again on the 1st of each month: that gap differs"),
        ("0 0 */7 * *", "the step */7 starts again on the 1st of each month: that gap differs"),
        ("0 0 */16 * *", "the step */16 starts again on the 1st of each month: that gap differs"),
        ("0 0 * * */2", "the step */2 starts again on each Sunday: that gap differs"),
        ("0 0 * * */6", "the step */6 starts again on each Sunday: that gap differs"),
    ],
)
def test_steps_that_do_not_come_out_even(text, message):
    assert remarks(text) == [Finding("uneven_step", "warning", message)]


def test_steps_of_seconds_that_do_not_come_out_even():
    message = "every 7 seconds does not divide 60: the last gap is 4"
    assert remarks("*/7 * * * * *", "seconds") == [Finding("uneven_step", "warning", message)]


SPRING = "does not exist in America/New_York (clocks go from 02:00 to 03:00)"
AUTUMN = "happens twice in America/New_York (clocks go from 02:00 to 01:00)"
DST_REMARKS = [
    ("30 2 * * *", {}, f"2026-03-08 02:30 {SPRING}: it is skipped (gap=skip)"),
    (
        "30 2 * * *",
        {"gap": "run_after"},
        f"2026-03-08 02:30 {SPRING}: it runs at 03:00 instead (gap=run_after)",
    ),
    ("15,45 2 * * *", {}, f"2026-03-08 02:15 to 02:45 {SPRING}: it is skipped (gap=skip)"),
    ("30 1 * * *", {}, f"2026-11-01 01:30 {AUTUMN}: it fires both times (fold=both)"),
    ("30 1 * * *", {"fold": "first"}, f"2026-11-01 01:30 {AUTUMN}: only the first fires (fold=first)"),
    ("30 1 * * *", {"fold": "last"}, f"2026-11-01 01:30 {AUTUMN}: only the last fires (fold=last)"),
]


@pytest.mark.parametrize(("text", "settings", "message"), DST_REMARKS)
def test_changes_of_offset_are_reported_before_they_happen(text, settings, message):
    code = "dst_gap" if SPRING in message else "dst_fold"
    assert remarks(text, timezone="America/New_York", **settings) == [Finding(code, "warning", message)]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("59 0 * * *", []),
        ("0 1 * * *", ["dst_fold"]),
        ("59 1 * * *", ["dst_fold"]),
        ("0 2 * * *", ["dst_gap"]),
        ("59 2 * * *", ["dst_gap"]),
        ("0 3 * * *", []),
        ("30 2 9 * *", []),
    ],
)
def test_a_gap_and_a_fold_hold_their_first_minute_and_not_the_one_after(text, codes):
    assert [remark.code for remark in remarks(text, timezone="America/New_York")] == codes


def test_a_job_of_every_hour_only_gets_a_note_about_changes_of_offset():
    found = remarks("0 * * * *", timezone="America/New_York")
    assert [(finding.code, finding.level) for finding in found] == [("dst_gap", "note"), ("dst_fold", "note")]


def test_the_effects_name_the_walls_that_are_touched():
    cron = Cron.parse("0,30 1-2 * * *", timezone="America/New_York")
    gap = DstEffect(
        "gap", epoch(2026, 3, 8, 7), -18_000, -14_400, epoch(2026, 3, 8, 2), epoch(2026, 3, 8, 2, 30)
    )
    fold = DstEffect(
        "fold", epoch(2026, 11, 1, 6), -14_400, -18_000, epoch(2026, 11, 1, 1), epoch(2026, 11, 1, 1, 30)
    )
    assert list(dst_effects(cron, epoch(2026, 1, 1), epoch(2027, 1, 1))) == [gap, fold]
    assert list(dst_effects(cron, gap.at, fold.at)) == [gap]
    assert list(dst_effects(cron, gap.at + 1, fold.at + 1)) == [fold]


def test_an_effect_knows_the_ticks_it_touches():
    cron = Cron.parse("0,30 1-2 * * *", timezone="America/New_York")
    gap, fold = dst_effects(cron, epoch(2026, 1, 1), epoch(2027, 1, 1))
    assert [gap.touches(gap.at + second) for second in (-1, 0, 1)] == [False, True, False]
    assert [fold.touches(fold.at + second) for second in (-3601, -3600, 3599, 3600)] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("year", [1, 9999])
def test_the_first_and_the_last_year_are_linted_like_any_other(year):
    cron = Cron.parse("0 0 1 1 *", timezone="Europe/Berlin")
    assert lint(cron, datetime(year, 6, 1, tzinfo=UTC)) == []
