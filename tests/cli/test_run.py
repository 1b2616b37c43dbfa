"""`dutiful run` as a process: what it prints, how it stops, who takes over."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager, suppress

import pytest
from tests.cli.foreground import TASKS, command, foreground


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_what_runs_end_and_then_the_process_ends_well(tmp_path, number):
    with foreground(tmp_path, "tasks:HELD") as run:
        run.until("held is here")
        run.process.send_signal(number)
        run.until("PollingStopRequested")
        run.release()
        assert run.end() == (0, "")
    assert run.names() == [
        "SchedulerInitializationStarted",
        "TaskDifference held",
        "SchedulerInitializationCompleted",
        "PollingStarted",
        "TaskRunStarted held",
        "SchedulerStopRequested",
        "PollingStopRequested",
        "TaskRunCompleted held",
        "PollingStopped",
        "SchedulerStopped",
    ]
    assert (tmp_path / "dutiful.db").exists()


def insist(process):
    """Send signals until the process ends: one within a moment of the first is the same request."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.2)


@pytest.mark.parametrize("name", ["forever", "blocking"])
def test_a_second_signal_ends_it_at_once_and_what_it_cut_short_starts_again(tmp_path, name):
    arguments = (f"tasks:{name.upper()}", "--store", "sqlite:state.db")
    with foreground(tmp_path, *arguments) as run:
        run.until(f"{name} is here")
        run.process.send_signal(signal.SIGTERM)
        if name == "forever":
            run.until("PollingStopRequested")
        insist(run.process)
        code, errors = run.end()
    assert code == 1
    assert errors == f"Stopped at once; cut short, to start again next time: {name}\n"
    with foreground(tmp_path, *arguments) as again:
        assert again.until("TaskDifference").endswith(f"{name} kind=orphaned")
        again.until(f"{name} is here")


@contextmanager
def leader_and_standby(folder):
    with foreground(folder, "tasks:HELD") as first:
        first.until("held is here")
        with foreground(folder, "tasks:HELD") as second:
            second.until("SchedulerStandby")
            yield first, second


def test_a_second_process_stands_by_and_takes_over_when_the_first_is_killed(tmp_path):
    with leader_and_standby(tmp_path) as (first, second):
        first.process.kill()
        second.until("held is here")
        second.process.send_signal(signal.SIGTERM)
        second.release()
        assert second.end() == (0, "")
    assert second.names()[1:6] == [
        "SchedulerStandby",
        "TaskDifference held",
        "SchedulerInitializationCompleted",
        "PollingStarted",
        "TaskRunStarted held",
    ]


def test_a_standby_can_be_stopped(tmp_path):
    with leader_and_standby(tmp_path) as (_, second):
        second.process.send_signal(signal.SIGINT)
        assert second.end() == (0, "")
    assert second.names()[-2:] == ["SchedulerStopRequested", "SchedulerStopped"]


def test_namespaces_do_not_wait_for_each_other(tmp_path):
    with foreground(tmp_path, "tasks:HELD") as first:
        first.until("held is here")
        with foreground(tmp_path, "tasks:HELD", "--namespace", "other") as second:
            second.until("held is here")


def test_events_can_be_json_lines_in_the_zone_that_was_asked_for(tmp_path):
    options = ("--json-lines", "--store", "memory:", "--timezone", "Asia/Tokyo")
    with foreground(tmp_path, "tasks:made", *options) as run:
        run.until("TaskRunCompleted")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == (0, "")
    events = [json.loads(line) for line in run.lines if line != "quick is here"]
    names = [event["name"] for event in events]
    assert ("SchedulerStopRequested" in names, names[-1]) == (True, "SchedulerStopped")
    assert {event["at"][-6:] for event in events} == {"+09:00"}


def test_quiet_prints_only_what_the_tasks_print(tmp_path):
    with foreground(tmp_path, "tasks:Box.tasks", "--quiet") as run:
        run.until("held is here")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == (0, "")
    assert run.lines == ["held is here"]


def test_an_empty_list_waits_for_its_signal(tmp_path):
    with foreground(tmp_path, "tasks:NOTHING") as run:
        run.until("SchedulerInitializationCompleted tasks=0")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == (0, "")


def test_the_trace_of_several_lives_is_one_that_the_monitor_accepts(tmp_path):
    arguments = ("tasks:HELD", "--trace", "trace.jsonl")
    with foreground(tmp_path, *arguments) as run:
        run.until("TaskRunStarted")
        run.process.kill()
        run.end()
    with foreground(tmp_path, *arguments) as run:
        run.until("held is here")
        run.release()
        run.until("TaskRunCompleted")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == (0, "")
    done = call(tmp_path, "monitor", "trace.jsonl")
    assert (done.returncode, done.stdout[:4]) == (0, "ok: ")
    names = [json.loads(line).get("name") for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert names.count("Crash") == 1
    assert names.count(None) == 2


def test_the_tasks_go_on_when_the_reader_of_the_output_has_gone(tmp_path):
    with foreground(tmp_path, "tasks:ENDING", "--trace", "trace.jsonl") as run:
        run.process.stdout.close()
        assert (run.process.wait(), run.process.stderr.read()) == (0, "")
    names = [json.loads(line).get("name") for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert (names.count("TaskRunCompleted"), names[-1]) == (1, "SchedulerStopped")


def call(folder, *arguments):
    (folder / "tasks.py").write_text(TASKS)
    return subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, check=False)


REFUSED = [
    ("tasks", "'tasks' names no list: write MODULE:NAME, such as tasks:REGISTRATIONS"),
    ("taks:QUICK", "there is no module 'taks' here; did you mean 'tasks'?"),
    ("unheard.of:QUICK", "there is no module 'unheard.of' here"),
    (
        "./tasks.py:QUICK",
        "'./tasks.py' is not the name of a module; write it with dots, such as jobs.nightly",
    ),
    ("tasks:QUIK", "tasks:QUIK: tasks has no 'QUIK'; did you mean 'QUICK'?"),
    ("tasks:Box.task", "tasks:Box.task: Box has no 'task'; did you mean 'tasks'?"),
    (
        "tasks:MAPPING",
        "tasks:MAPPING is of type dict; write a list of (name, cron text, callback, retry delay)",
    ),
    ("tasks:made_later", "tasks:made_later is an async function; write a plain one"),
    ("tasks:NEGATIVE", "tasks:NEGATIVE[1]: Retry delay must be non-negative"),
    ("tasks:TWICE", 'tasks:TWICE: Task with name "quick" is already scheduled'),
    (
        "tasks:SHORT",
        "tasks:SHORT[0]: Invalid registration shape: expected [string, string, function, Duration]",
    ),
    ("tasks:MACRO", 'tasks:MACRO[0]: Invalid cron expression "@daily": expression field has the macro'),
]


@pytest.mark.parametrize(("target", "message"), REFUSED)
def test_what_cannot_be_run_is_bad_usage_and_says_what_to_write(tmp_path, target, message):
    done = call(tmp_path, "run", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"\nError: {message}" in done.stderr
    assert not (tmp_path / "dutiful.db").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--timezone", "Mars/Phobos"], "is not in the time zone database"),
        (["--store", "mysql:x"], 'write "sqlite:FILE", "postgresql://USER@HOST/DATABASE" or "memory:"'),
        (["--namespace", "../up"], "letters, digits"),
        (["--quiet", "--json-lines"], "prints nothing"),
        (["--trace", "no/trace"], "No such file or directory"),
        (["--trace", "tasks.py"], "is there and is no trace; name another file"),
    ],
)
def test_an_option_that_cannot_be_is_bad_usage(tmp_path, options, message):
    done = call(tmp_path, "run", "tasks:QUICK", *options)
    assert (done.returncode, done.stdout, message in done.stderr) == (2, "", True), done.stderr
    assert (tmp_path / "tasks.py").read_text() == TASKS


def test_a_module_that_fails_to_load_shows_its_own_lines_and_no_others(tmp_path):
    (tmp_path / "sour.py").write_text("import unheard_of\n")
    done = call(tmp_path, "run", "sour:TASKS")
    assert (done.returncode, done.stdout) == (1, "")
    told = f'File "{tmp_path}/sour.py", line 1, in <module>'
    assert done.stderr.startswith(f"Error: sour could not be loaded:\n  {told}\n")
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'unheard_of'\n")
    assert "dutiful/cli" not in done.stderr


def test_a_function_that_fails_shows_where(tmp_path):
    done = call(tmp_path, "run", "tasks:broken")
    assert (done.returncode, "Error: tasks:broken could not be loaded:" in done.stderr) == (1, True)
    assert "return 1 / 0" in done.stderr


def test_a_store_that_cannot_be_used_is_exit_code_1(tmp_path):
    done = call(tmp_path, "run", "tasks:QUICK", "--store", "sqlite:no/state.db")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: The database {tmp_path}/no/state.db has no directory")
