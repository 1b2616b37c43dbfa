"""`dutiful cron`: what it prints, for people and for programs, and with which exit code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dutiful.cli.main import cli

NEW_YORK = ("--timezone", "America/New_York")
GAP_ROW = "DST: this time does not exist, skipped (gap=skip)"
MOVED = "DST: moved out of the gap"


def run(*arguments):
    return CliRunner().invoke(cli, ["cron", *arguments])


def lines(*arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def answer(*arguments):
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_next_prints_a_heading_and_a_table():
    assert lines("next", "0 9 * * 1-5", "-z", "Europe/Berlin", "--from", "2026-01-01", "-n", "3") == [
        "At 09:00, Monday to Friday",
        "Europe/Berlin, posix dialect, gap=skip, fold=both",
        "",
        "local time                   UTC",
        "Thu 2026-01-01 09:00 +01:00  2026-01-01T08:00:00Z",
        "Fri 2026-01-02 09:00 +01:00  2026-01-02T08:00:00Z",
        "Mon 2026-01-05 09:00 +01:00  2026-01-05T08:00:00Z",
    ]


def test_previous_prints_the_newest_first():
    assert lines("previous", "0 9 * * 1-5", "--from", "2026-01-05T09:00", "-n", "2")[3:] == [
        "local time                   UTC",
        "Mon 2026-01-05 09:00 +00:00  2026-01-05T09:00:00Z",
        "Fri 2026-01-02 09:00 +00:00  2026-01-02T09:00:00Z",
    ]


def test_five_ticks_from_now_are_the_default():
    found = answer("next", "0 * * * *")
    assert len(found["ticks"]) == 5
    assert [tick["at"] > found["from"] for tick in found["ticks"]] == [True] * 5


def test_next_as_json():
    assert answer(
        "next", "30 2 * * *", *NEW_YORK, "--from", "2026-03-07T02:30", "-n", "1", "--gap", "run_after"
    ) == {
        "expression": "30 2 * * *",
        "dialect": "posix",
        "timezone": "America/New_York",
        "gap": "run_after",
        "fold": "both",
        "description": "At 02:30",
        "from": "2026-03-07T02:30:00-05:00",
        "ticks": [
            {
                "at": "2026-03-08T03:00:00-04:00",
                "utc": "2026-03-08T07:00:00Z",
                "epoch": 1_772_953_200,
                "dst": "gap",
            }
        ],
    }


def test_previous_as_json():
    found = answer("previous", "*/20 * * * * *", "-d", "seconds", "--from", "2026-01-01T00:00:30Z", "-n", "2")
    assert found["ticks"] == [
        {
            "at": "2026-01-01T00:00:20+00:00",
            "utc": "2026-01-01T00:00:20Z",
            "epoch": 1_767_225_620,
            "dst": None,
        },
        {
            "at": "2026-01-01T00:00:00+00:00",
            "utc": "2026-01-01T00:00:00Z",
            "epoch": 1_767_225_600,
            "dst": None,
        },
    ]


@pytest.mark.parametrize(
    ("command", "arguments", "rows"),
    [
        (
            "next",
            ["30 2 * * *", "--from", "2026-03-07", "-n", "2"],
            [
                "Sat 2026-03-07 02:30 -05:00  2026-03-07T07:30:00Z",
                f"Sun 2026-03-08 02:30         -                     {GAP_ROW}",
                "Mon 2026-03-09 02:30 -04:00  2026-03-09T06:30:00Z",
            ],
        ),
        (
            "previous",
            ["30 2 * * *", "--from", "2026-03-08T12:00", "-n", "1"],
            [
                f"Sun 2026-03-08 02:30         -                     {GAP_ROW}",
                "Sat 2026-03-07 02:30 -05:00  2026-03-07T07:30:00Z",
            ],
        ),
        (
            "next",
            ["30 2 * * *", "--from", "2026-03-08", "-n", "1", "--gap", "run_after"],
            [f"Sun 2026-03-08 03:00 -04:00  2026-03-08T07:00:00Z  {MOVED}"],
        ),
        (
            "next",
            ["0,30 * * * *", "--from", "2026-03-08T01:00", "-n", "3"],
            [
                "Sun 2026-03-08 01:30 -05:00  2026-03-08T06:30:00Z",
                f"Sun 2026-03-08 02:00         -                     {GAP_ROW}",
                "Sun 2026-03-08 03:00 -04:00  2026-03-08T07:00:00Z",
                "Sun 2026-03-08 03:30 -04:00  2026-03-08T07:30:00Z",
            ],
        ),
        (
            "next",
            ["0,30 * * * *", "--from", "2026-03-08T03:00", "-n", "1"],
            ["Sun 2026-03-08 03:30 -04:00  2026-03-08T07:30:00Z"],
        ),
        (
            "previous",
            ["0,30 * * * *", "--from", "2026-03-08T03:00", "-n", "2"],
            [
                "Sun 2026-03-08 03:00 -04:00  2026-03-08T07:00:00Z",
                f"Sun 2026-03-08 02:00         -                     {GAP_ROW}",
                "Sun 2026-03-08 01:30 -05:00  2026-03-08T06:30:00Z",
            ],
        ),
        (
            "next",
            ["30 30 2 * * *", "-d", "seconds", "--from", "2026-03-07T12:00", "-n", "1"],
            [
                f"Sun 2026-03-08 02:30:30         -                     {GAP_ROW}",
                "Mon 2026-03-09 02:30:30 -04:00  2026-03-09T06:30:30Z",
            ],
        ),
        (
            "next",
            ["30 1 * * *", "--from", "2026-11-01", "-n", "3"],
            [
                "Sun 2026-11-01 01:30 -04:00  2026-11-01T05:30:00Z  DST: this time happens twice (fold=both)",
                "Sun 2026-11-01 01:30 -05:00  2026-11-01T06:30:00Z  DST: this time happens twice (fold=both)",
                "Mon 2026-11-02 01:30 -05:00  2026-11-02T06:30:00Z",
            ],
        ),
        (
            "next",
            ["30 1 * * *", "--from", "2026-11-01", "-n", "1", "--fold", "last"],
            ["Sun 2026-11-01 01:30 -05:00  2026-11-01T06:30:00Z  DST: this time happens twice (fold=last)"],
        ),
        (
            "next",
            ["30 2 * * *", "--from", "2026-03-08", "-n", "1", "--dst", "vixie"],
            [f"Sun 2026-03-08 03:00 -04:00  2026-03-08T07:00:00Z  {MOVED}"],
        ),
        (
            "next",
            ["0 9 * * *", "--from", "1850-01-01", "-n", "1"],
            ["Tue 1850-01-01 09:00 -04:56:02  1850-01-01T13:56:02Z"],
        ),
    ],
)
def test_what_dst_does_is_marked(command, arguments, rows):
    assert lines(command, *arguments, *NEW_YORK)[4:] == rows


@pytest.mark.parametrize(
    ("arguments", "marks"),
    [
        (["0,30 * * * *", "--from", "2026-03-08T01:00", "-n", "3"], [None, None, None]),
        (
            ["0,30 * * * *", "--from", "2026-03-08T01:00", "-n", "3", "--gap", "run_after"],
            [None, "gap", None],
        ),
        (["30 2 * * *", "--from", "2026-03-08", "-n", "2", "--gap", "run_after"], ["gap", None]),
        (["30 1 * * *", "--from", "2026-11-01", "-n", "3"], ["fold", "fold", None]),
    ],
)
def test_what_dst_does_is_marked_in_json(arguments, marks):
    assert [tick["dst"] for tick in answer("next", *arguments, *NEW_YORK)["ticks"]] == marks


@pytest.mark.parametrize(
    ("given", "instant"),
    [
        ("2026-07-01T12:00", "2026-07-01T12:00:00-04:00"),
        ("2026-07-01", "2026-07-01T00:00:00-04:00"),
        ("2026-07-01T12:00Z", "2026-07-01T08:00:00-04:00"),
        ("2026-07-01T12:00+02:00", "2026-07-01T06:00:00-04:00"),
        ("2026-07-01T12:00:30.9", "2026-07-01T12:00:30-04:00"),
    ],
)
def test_from_is_local_unless_it_says_otherwise(given, instant):
    assert answer("next", "0 * * * *", *NEW_YORK, "--from", given)["from"] == instant


def test_explain_says_it_in_english():
    assert lines("explain", "0 9 * * 1-5", "-z", "Europe/Berlin", "--from", "2026-01-02T12:00") == [
        "At 09:00, Monday to Friday",
        "Europe/Berlin, posix dialect, gap=skip, fold=both; next Mon 2026-01-05 09:00 +01:00",
    ]


def test_explain_as_json():
    assert answer("explain", "@daily", "-d", "standard", "--from", "2026-01-01", "--dst", "vixie") == {
        "expression": "@daily",
        "dialect": "standard",
        "timezone": "UTC",
        "gap": "run_after",
        "fold": "first",
        "description": "At 00:00",
        "next": "2026-01-02T00:00:00+00:00",
    }


def test_explain_at_the_end_of_the_calendar_says_never():
    end = ("--from", "9999-12-31T00:00")
    assert lines("explain", "0 0 * * *", *end)[1].endswith("; next never")
    assert answer("explain", "0 0 * * *", *end)["next"] is None


def test_lint_says_ok_and_exits_0():
    assert lines("lint", "0 9 * * 1-5") == ["ok: At 09:00, Monday to Friday"]
    assert answer("lint", "0 9 * * 1-5") == {"expression": "0 9 * * 1-5", "findings": []}


def test_lint_exits_0_on_notes():
    assert lines("lint", "0 0 31 * *") == ["note: months without a day 31 are passed over [short_months]"]


def test_lint_exits_1_on_warnings():
    result = run("lint", "*/7 * * * *", "--dialect", "standard")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == "warning: every 7 minutes does not divide 60: the last gap is 4 [uneven_step]\n"


def test_lint_reports_an_illegal_text_as_a_finding():
    result = run("lint", "0 25 * * *", "--json")
    message = 'Invalid cron expression "0 25 * * *": hour field must be 0-23, not 25'
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "expression": "0 25 * * *",
        "findings": [{"code": "invalid", "level": "warning", "message": message}],
    }


def test_lint_tells_the_changes_of_the_year_to_come():
    result = run("lint", "30 2 * * *", *NEW_YORK, "--from", "2026-01-01")
    assert result.exit_code == 1
    assert result.stdout == (
        "warning: 2026-03-08 02:30 does not exist in America/New_York (clocks go from 02:00 to 03:00): "
        "it is skipped (gap=skip) [dst_gap]\n"
    )
