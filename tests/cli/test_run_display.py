"""What runs now and what runs next, as `dutiful run` shows it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.cli.foreground import TASKS, command

from dutiful.cli.run_display import board_of, line_of, print_json_line, print_line
from dutiful.declarative.observe import SchedulerEvent
from dutiful.declarative.registration import check

BERLIN = ZoneInfo("Europe/Berlin")
NINE = datetime(2026, 1, 5, 9, tzinfo=BERLIN)
TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)
LONG = "no answer " * 30


async def nothing():
    pass


def board():
    tasks = [("daily", "30 9 * * *", nothing, 60), ("hourly", "0 * * * *", nothing, 90)]
    return board_of(check(tasks, BERLIN).schedules, NINE)


def tell(to, *events):
    for seconds, name, *rest in events:
        task, details = (*rest, None, None)[:2]
        to.see(SchedulerEvent(name, NINE + timedelta(seconds=seconds), task, details or {}))


def shown(of, seconds=0, count=9):
    """Return (name, whether it runs, minute it is due, how it went) of the first entries."""
    entries = of.first(count, NINE + timedelta(seconds=seconds))
    return [(e.name, e.began is not None, f"{e.due:%H:%M:%S}", e.last) for e in entries]


def test_tasks_that_are_due_first_come_first():
    assert shown(board()) == [("daily", False, "09:30:00", ""), ("hourly", False, "10:00:00", "")]
    assert [name for name, *_ in shown(board(), count=1)] == ["daily"]


def test_running_tasks_come_first():
    it = board()
    tell(it, (0, "TaskRunStarted", "hourly"))
    assert shown(it) == [("hourly", True, "10:00:00", ""), ("daily", False, "09:30:00", "")]
    assert [*it.running] == ["hourly"]
    tell(it, (2.5, "TaskRunCompleted", "hourly"))
    assert shown(it)[1] == ("hourly", False, "10:00:00", "09:00:02 ok after 2.5 s")
    assert not it.running


def test_a_failure_is_next_at_its_retry_unless_its_minute_comes_before():
    it = board()
    tell(it, (0, "TaskRunStarted", "hourly"), (7, "TaskRunFailed", "hourly", {"error": "E: no"}))
    assert shown(it)[0] == ("hourly", False, "09:01:37", "09:00:07 failed after 7 s: E: no")
    tell(it, (1790, "TaskRetryStarted", "hourly"), (3590, "TaskRunFailed", "hourly", {"error": "E: no"}))
    assert shown(it)[1][2] == "10:00:00"


def test_a_standby_has_missed_nothing():
    it = board()
    tell(it, (0, "SchedulerStandby"))
    assert shown(it, 3600 * 4)[0][:3] == ("hourly", False, "14:00:00")


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("SchedulerInitializationStarted", "starting"),
        ("SchedulerStandby", "standby: another process leads"),
        ("SchedulerInitializationCompleted", "running"),
        ("SchedulerStopped", "stopped"),
    ],
)
def test_the_phase_follows_the_scheduler(name, phase):
    it = board()
    tell(it, (0, name))
    assert it.phase == phase


def test_a_line_is_one_line_whatever_a_task_says():
    event = SchedulerEvent("TaskRunFailed", NINE, "job", {"error": "E: a\nb\x1b[2J"})
    assert line_of(event) == "2026-01-05 09:00:00+0100 TaskRunFailed job error=E: a\\nb\\x1b[2J"


def play_on_a_terminal(folder, target, enough, lines="24"):
    """Run on a terminal, press Ctrl-C when the screen has shown `enough`; return (exit code, screen)."""
    (folder / "tasks.py").write_text(TASKS)
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(folder)
        size = {"TERM": "xterm", "COLUMNS": "140", "LINES": lines}
        os.execve(command()[0], command("run", target, "--store", "memory:"), os.environ | size)
    # Pressed one after the other: a Ctrl-C drops what was typed and not yet read.
    keys = [(enough, b"\x03"), ("stopping", b"\n"), ("a key too many", b"")]
    screen = ""
    try:
        while chunk := read_some(terminal):
            screen += chunk
            if re.search(keys[0][0], screen):
                os.write(terminal, keys.pop(0)[1])
    finally:
        os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(terminal)
    return code, screen


def read_some(terminal):
    select.select([terminal], [], [])
    try:
        return os.read(terminal, 65_536).decode(errors="replace")
    except OSError:
        # How Linux says that the other end is closed.
        return ""


def test_on_a_terminal_a_table_shows_what_runs_and_what_is_next(tmp_path):
    code, screen = play_on_a_terminal(tmp_path, "tasks:MIXED", r"held +│.*running for")
    assert code == 0
    assert re.search(r"dutiful run tasks:MIXED, memory:, \S+: running", screen)
    assert re.search(
        r"failing +│ \* \* \* \* \* +│ +│ \S+, in .* │ \S+ failed after [\d.]+ s: TimeoutError", screen
    )
    assert re.search(r"yearly +│ 0 0 1 1 \* +│ +│ \d{4}-01-01 00:00, in \d+ [dhm] ", screen)
    # What a task prints, and what went wrong, stays above the table.
    assert "held is here\r\n" in screen
    assert re.search(r"TaskRunFailed failing error=TimeoutError: no answer\r$", screen, re.MULTILINE)
    assert screen.endswith("\x1b[?25h")


def test_a_table_that_is_too_long_says_how_many_are_left_out(tmp_path):
    code, screen = play_on_a_terminal(tmp_path, "tasks:MANY", r"task-1 ", lines="20")
    assert (code, "… and 87 more" in screen) == (0, True)


def test_the_longest_delay_there_is_leaves_the_cron_text_to_decide():
    it = board_of(check([("daily", "30 9 * * *", nothing, timedelta.max)], BERLIN).schedules, NINE)
    tell(it, (0, "TaskRunStarted", "daily"), (1, "TaskRunFailed", "daily", {"error": "E: x"}))
    assert shown(it) == [("daily", False, "09:30:00", "09:00:01 failed after 1 s: E: x")]


def test_a_cancelled_run_is_shown_as_cancelled():
    it = board()
    tell(it, (0, "TaskRunStarted", "daily"), (2, "TaskRunCancelled", "daily"))
    assert shown(it)[0] == ("daily", False, "09:30:00", "09:00:02 cancelled after 2 s")


def callback():
    raise TimeoutError(LONG)


def failed():
    try:
        callback()
    except TimeoutError as error:
        return SchedulerEvent("TaskRunFailed", TEN, "job", {"error": f"TimeoutError: {LONG}"}, error)


def test_a_failed_run_is_printed_with_its_trace_and_its_whole_error(capsys):
    print_line(failed())
    first, *trace = capsys.readouterr().out.splitlines()
    assert first.startswith("2026-01-01 10:00:00+0000 TaskRunFailed job error=TimeoutError: no answer")
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-2:] == ["    raise TimeoutError(LONG)", f"TimeoutError: {LONG}".rstrip()]


def test_as_json_it_is_one_line_with_its_trace(capsys):
    print_json_line(failed())
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["traceback"].endswith(f"TimeoutError: {LONG}".rstrip())


@pytest.mark.parametrize("show", [print_line, print_json_line])
def test_other_events_are_one_line(capsys, show):
    show(SchedulerEvent("TaskRunCompleted", TEN, "job"))
    assert capsys.readouterr().out.count("\n") == 1
