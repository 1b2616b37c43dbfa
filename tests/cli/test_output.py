"""Tables and durations as people read them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dutiful.cli.output import SHAPES, duration, fitted, table_lines

HEAD = ["tick (UTC)", "status", "detail"]
ROWS = [
    ["2026-03-02 09:00:00", "FAILED", "RuntimeError: the supplier's server is down, try again after lunch"],
    ["2026-03-02 08:00:00", "SUCCESS", ""],
]


def test_without_a_terminal_a_table_is_as_wide_as_it_needs_to_be():
    assert [*table_lines(HEAD, ROWS)] == [
        "tick (UTC)           status   detail",
        "2026-03-02 09:00:00  FAILED   RuntimeError: the supplier's server is down, try again after lunch",
        "2026-03-02 08:00:00  SUCCESS",
    ]


def test_the_last_column_is_wrapped_and_nothing_of_it_is_lost():
    assert [*table_lines(HEAD, ROWS, 70)] == [
        "tick (UTC)           status   detail",
        "2026-03-02 09:00:00  FAILED   RuntimeError: the supplier's server is",
        "                              down, try again after lunch",
        "2026-03-02 08:00:00  SUCCESS",
    ]


def test_where_the_last_column_has_no_room_it_gets_lines_of_its_own():
    assert [*table_lines(HEAD, ROWS, 44)] == [
        "tick (UTC)           status",
        "    detail",
        "2026-03-02 09:00:00  FAILED",
        "    RuntimeError: the supplier's server is",
        "    down, try again after lunch",
        "2026-03-02 08:00:00  SUCCESS",
    ]


@pytest.mark.parametrize("room", range(30, 120))
def test_no_line_is_wider_than_the_terminal(room):
    assert [line for line in table_lines(HEAD, ROWS, room) if len(line) > room] == []


def test_colour_repeats_the_word_and_leaves_the_columns_where_they_are():
    plain, coloured = ([*table_lines(HEAD, ROWS, 80, colour=colour)] for colour in (False, True))
    assert coloured[1] == plain[1].replace("FAILED ", "\x1b[31mFAILED \x1b[0m")
    assert coloured[-1] == "2026-03-02 08:00:00  \x1b[32mSUCCESS\x1b[0m"


def test_each_state_has_a_character_of_its_own_in_unicode_and_in_ascii():
    for column in (0, 1):
        assert len({shapes[column] for shapes in SHAPES.values()}) == len(SHAPES)


def test_columns_are_made_to_fit():
    assert fitted([10, 40, 9], 80) == [10, 40, 9]
    assert fitted([10, 40, 9], 50) == [10, 27, 9]
    assert fitted([10, 9, 40], 50) == [10, 9, 27]
    assert fitted([10, 40, 9], 10) == [8, 8, 8]


def test_an_id_stays_whole_up_to_half_of_the_room_and_the_soft_column_is_cut_first():
    assert fitted([36, 9, 30, 18], 80, soft=2) == [36, 9, 11, 18]
    assert fitted([36, 9, 30, 18], 72, soft=2) == [36, 9, 8, 13]
    assert fitted([60, 9, 30, 18], 80, soft=2) == [40, 9, 8, 17]


def test_an_id_is_cut_in_its_middle_and_other_texts_at_their_end():
    rows = [["settlement.us-east.nightly", "At 01:30, on Monday to Friday", "ok"]]
    assert [*table_lines(["schedule", "when", "note"], rows, 34)] == [
        "schedule           when",
        "    note",
        "settleme….nightly  At 01:30, on M…",
        "    ok",
    ]


def test_figures_stand_to_the_right_under_their_head():
    rows = [["a", "7", "1.5", "x"], ["b", "12,480", "", "2"]]
    assert [*table_lines(["table", "rows", "s", "note"], rows)] == [
        "table    rows    s  note",
        "a           7  1.5  x",
        "b      12,480       2",
    ]
    assert [*table_lines(["table", "rows"], [["a", "7"], ["b", "480"]])] == [
        "table  rows",
        "a         7",
        "b       480",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (1.25, "1.2 s"),
        (30, "30 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (3599, "59 min 59 s"),
        (23_400, "6 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations_have_two_units(seconds, text):
    assert duration(seconds) == text


def test_on_a_terminal_of_80_columns_the_point_is_not_cut():
    ours, theirs = os.openpty()
    asked = ["cron", "next", "30 2 * * *", "-z", "America/New_York", "--from", "2026-03-07T12:00", "-n", "1"]
    command = [sys.executable, "-m", "dutiful", *asked]
    environ = os.environ | {"COLUMNS": "80"}
    subprocess.run(command, stdout=theirs, env=environ, check=True)
    os.close(theirs)
    screen = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "DST: this time does not exist, skipped (gap=skip)" in " ".join(screen.split())
