"""`dutiful simulate`: what it prints and writes, twice the same, and with which exit code."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.core.plan.planner_notation import schedule

from dutiful.cli.main import cli
from dutiful.cli.simulate import _tell
from dutiful.core.cadence import Every
from dutiful.simulate.schedule_file import Behaviour, ScheduleFile, read_schedule_file
from dutiful.simulate.simulation import simulate

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/schedules.toml"

SMALL = """
    [[schedules]]
    id = "sync"
    cron = "0 * * * *"
    takes = "90m"
    run_timeout = "5h"

    [[schedules]]
    id = "report"
    cron = "30 2 * * *"
    timezone = "America/New_York"
    dst = "vixie"
    catch_up = "latest"
    on_orphan = "relaunch"
    takes = "10m"

    [[schedules]]
    id = "yearly"
    cron = "0 0 1 12 *"

    [[outages]]
    from = 2026-03-08T05:30:00Z
    for = "2h"

    [[outages]]
    from = 2026-03-08T10:15:00Z
    for = "45m"
    kind = "suspend"
"""
WHEN = ("--from", "2026-03-08T04:00Z", "--for", "8h")


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(cli, ["simulate", *map(str, arguments)])


def lines(*arguments):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_the_timeline_and_the_summary(small):
    assert lines(small, *WHEN) == [
        "schedule  state              time (UTC)           note",
        "(engine)  started            2026-03-08 04:00:00  epoch 1",
        "sync      ▮ SUCCESS          2026-03-08 05:00:00  2 h 30 min late, attempt 2",
        "sync      ◇ SKIPPED missed   2026-03-08 06:00:00  2 ticks, last 2026-03-08 07:00:00",
        "report    ▮ SUCCESS          2026-03-08 07:00:00  30 min late",
        "(engine)  started            2026-03-08 07:30:00  epoch 2",
        "sync      ◇ SKIPPED overlap  2026-03-08 08:00:00",
        "sync      ▮ SUCCESS          2026-03-08 09:00:00",
        "sync      ◇ SKIPPED overlap  2026-03-08 10:00:00  2 ticks, last 2026-03-08 11:00:00",
        "(engine)  clock stepped      2026-03-08 11:00:00  +45 min",
        "sync      ▶ STARTED          2026-03-08 12:00:00",
        "",
        "schedule  ran  failed  unfinished  skipped",
        "report      1       0           0",
        "sync        2       0           1  missed 2, overlap 3",
        "yearly      0       0           0",
    ]


def test_what_did_not_go_smoothly_comes_first_and_the_rest_is_counted(small):
    assert lines(small, *WHEN, "--lines", "3")[:5] == [
        "schedule  state             time (UTC)           note",
        "(engine)  started           2026-03-08 04:00:00  epoch 1",
        "sync      ▮ SUCCESS         2026-03-08 05:00:00  2 h 30 min late, attempt 2",
        "sync      ◇ SKIPPED missed  2026-03-08 06:00:00  2 ticks, last 2026-03-08 07:00:00",
        "… 7 more (--lines, or --ledger for all)",
    ]
    quiet = lines(small, "--from", "2026-03-09", "--for", "2d", "--lines", "1")
    assert quiet[2] == "… 50 more (--lines, or --ledger for all)"


def test_no_lines_leave_the_counts_alone(small):
    assert lines(small, *WHEN, "--lines", "0")[0] == "schedule  ran  failed  unfinished  skipped"


def test_the_summary_as_json(small):
    result = run(small, *WHEN, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "entries": 7,
        "schedules": {
            "report": {"ran": 1, "failed": 0, "unfinished": 0, "skipped": {}, "quarantined": None},
            "sync": {
                "ran": 2,
                "failed": 0,
                "unfinished": 1,
                "skipped": {"missed": 2, "overlap": 3},
                "quarantined": None,
            },
            "yearly": {"ran": 0, "failed": 0, "unfinished": 0, "skipped": {}, "quarantined": None},
        },
    }


def test_the_ledger_has_a_line_per_entry(small, tmp_path):
    lines(small, *WHEN, "--ledger", tmp_path / "ledger.jsonl")
    entries = [
        json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [(entry["run_at"], entry["schedule_id"]) for entry in entries] == sorted(
        (entry["run_at"], entry["schedule_id"]) for entry in entries
    )
    assert entries[1] == {
        "schedule_id": "sync",
        "run_at": "2026-03-08T06:00:00Z",
        "key": hashlib.sha256(b"sync:1772949600").hexdigest(),
        "kind": "schedule",
        "status": "SKIPPED",
        "reason": "missed",
        "attempt": 0,
        "fire_at": "2026-03-08T06:00:00Z",
        "started_at": None,
        "ended_at": "2026-03-08T07:30:00Z",
        "run_until": "2026-03-08T07:00:00Z",
        "ticks": 2,
    }


def test_two_runs_are_equal_to_the_byte(tmp_path):
    def output(seed):
        # Another seed orders sets and hashes differently; nothing of that may show.
        ledger = tmp_path / f"{seed}.jsonl"
        arguments = [EXAMPLE, "--from", "2026-03-01", "--for", "90d", "--ledger", ledger, "--lines", "5000"]
        program = [sys.executable, "-m", "dutiful", "simulate", *map(str, arguments)]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(program, env=environment, capture_output=True, check=True)
        return done.stdout, ledger.read_bytes()

    first, second = output("1"), output("2")
    assert first == second
    assert first[0].count(b"\n") > 500


def test_a_schedule_that_never_computes_is_shown_and_is_something_wrong(capsys):
    # No file can hold one, because what it would take is refused; so it is told without a file.
    broken = ScheduleFile((schedule(Every(0, "start"), "bad"),), {"bad": Behaviour()}, ())
    simulation = simulate(broken, datetime(2026, 3, 8, 4, tzinfo=UTC), datetime(2026, 3, 8, 5, tzinfo=UTC))
    error = "ZeroDivisionError: integer division or modulo by zero"

    assert _tell(["bad"], simulation, 30, "text") == 1
    assert capsys.readouterr().out.splitlines() == [
        "schedule  state          time (UTC)           note",
        "(engine)  started        2026-03-08 04:00:00  epoch 1",
        f"bad       ! quarantined  2026-03-08 04:00:00  {error}",
        "",
        "schedule  ran  failed  unfinished  skipped",
        "bad         0       0           0",
    ]
    assert _tell(["bad"], simulation, 30, "json") == 1
    assert json.loads(capsys.readouterr().out)["schedules"]["bad"]["quarantined"] == error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "soon"], "Invalid --from 'soon': write ISO 8601, such as 2026-03-08, "),
        (["--from", "0001-01-01T00:00+05:00"], "+05:00': lies outside the years 1 to 9999 in UTC"),
        (["--from", "2026-03-01", "--for", "5"], "Invalid --for '5': Missing time unit."),
        (["--from", "2026-03-01", "--for", "0d"], "Invalid --for '0d': Zero interval is not allowed"),
        (
            ["--from", "2026-03-01", "--for", "9999999d"],
            "Invalid --for '9999999d': leads beyond the years 1 to 9999",
        ),
        (["--from", "2026-03-01", "--for", "1h", "--ledger", "missing/x"], "No such file or directory"),
        (["--from", "2026-03-01", "--lines", "-1"], "-1 is not in the range x>=0"),
        ([], "Missing option '--from'"),
    ],
)
def test_bad_usage_is_exit_code_2_and_one_error(small, arguments, message):
    result = run(small, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_bad_usage(tmp_path):
    result = run(tmp_path / "missing.toml", "--from", "2026-03-01")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "does not exist" in result.stderr


def test_a_file_with_mistakes_is_bad_usage_and_names_them_all(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('[[schedules]]\nid = "a"\ncron = "0 25 * * *"\ngrace = "soon"\n', encoding="utf-8")
    result = run(path, "--from", "2026-03-01")
    refused = 'Invalid cron expression "0 25 * * *": hour field must be 0-23, not 25'
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"Error: {path} cannot be used:",
        f"  schedules[a].cron: '0 25 * * *': {refused}",
        "  schedules[a].grace: 'soon': Missing numeric value",
    ]


def test_a_start_without_an_offset_is_in_utc(small):
    naive, aware = lines(small, "--from", "2026-03-09"), lines(small, "--from", "2026-03-08T20:00-04:00")
    assert naive == aware


def test_telling_the_progress_changes_nothing_of_what_happens():
    content = read_schedule_file(EXAMPLE)
    start = datetime(2026, 3, 1, tzinfo=UTC)
    end, told = start + timedelta(days=30), []
    assert simulate(content, start, end, told.append) == simulate(content, start, end)
    assert told == sorted(told)
    assert (len(told) > 50, told[0] > 0, told[-1] <= 1) == (True, True, True)


def test_a_bar_is_drawn_on_a_terminal_only(small):
    command = [sys.executable, "-m", "dutiful", "simulate", str(small), "--from", "2026-03-08", "--for", "5d"]
    main, terminal = pty.openpty()
    with os.fdopen(main, "rb") as screen:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, check=True)
        os.close(terminal)
        assert b"simulating" in screen.read1()
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (done.stdout, b"")


def test_the_picture_in_the_documentation_is_what_the_code_draws_today(tmp_path):
    file, drawn = ROOT / "examples/four_days.toml", tmp_path / "drawn.svg"
    run(str(file), "--from", "2026-03-07T12:00Z", "--for", "4d", "--picture", str(drawn))
    assert (ROOT / "docs/pictures/simulate.svg").read_text(encoding="utf-8") == drawn.read_text(
        encoding="utf-8"
    ), "run `make pictures`"
