"""`dutiful fleet`: every command, as JSON and as a table that fits 80 columns."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from click.testing import CliRunner
from tests.fleet.control.program import asked, command, put_fleet, started

from dutiful.cli.main import cli

FLEET = """
version: 1
check_interval: 1s
agents:
  - name: watcher-of-many-things
    job: {type: command, command: [sh, -c, 'echo "begun"; cat; echo; exec sleep 600']}
    schedules:
      long-running-schedule: {type: interval, interval: 1h, prompt: Look.}
      blocked: {type: interval, interval: 1h}
  - name: reporter
    job: {type: command, command: [sh, -c, 'echo "$(cat) and a summary that is longer than any line here"']}
    schedules:
      quick: {type: interval, interval: 1h, prompt: All is well}
      failing:
        type: interval
        interval: 1h
        job: {type: command, command: [sh, -c, 'echo "a long story of what went wrong, and why" >&2; exit 3']}
      hook: {type: webhook}
      off: {type: interval, interval: 1h, enabled: false}
  - name: idler
    schedules:
      jobless: {type: interval, interval: 1h}
"""


ENDING = ("reporter/quick", "reporter/failing", "idler/jobless")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    put_fleet(folder, FLEET)
    with started(folder) as running:
        running.until("reporter/quick: done", "reporter/failing: failed", "idler/jobless")
        while [job["output"] for job in running.ask("status")["jobs"]] != ["Look."]:
            pass
        # What has ended is said before it is written down.
        while {running.ask("history", name)[0]["status"] for name in ENDING} != {"SUCCESS", "FAILED"}:
            pass
        yield folder


@pytest.fixture
def stopped(tmp_path):
    put_fleet(tmp_path, FLEET)
    return tmp_path


def fits(output):
    return max(map(len, output.splitlines())) <= 80


def by_name(schedules):
    return {f"{each['agent']}/{each['schedule']}": each for each in schedules}


def counts(failing, done, failed):
    return {"failing": failing, "done": done, "failed": failed, "no_work": 0}


def test_status_tells_of_agents_and_jobs_with_their_latest_line(fleet):
    found = asked(fleet, "status")
    assert (found["status"], found["problem"], found["check_interval"]) == ("running", None, 1.0)
    assert found["agents"] == [
        {
            "name": "watcher-of-many-things",
            "running": 1,
            "max_concurrent": 1,
            "schedules": 2,
            **counts(0, 0, 0),
        },
        {"name": "reporter", "running": 0, "max_concurrent": 1, "schedules": 4, **counts(1, 1, 1)},
        {"name": "idler", "running": 0, "max_concurrent": 1, "schedules": 1, **counts(1, 0, 1)},
    ]
    (job,) = found["jobs"]
    assert (job["agent"], job["schedule"], job["trigger"], job["output"]) == (
        "watcher-of-many-things", "long-running-schedule", "interval", "Look.",
    )  # fmt: skip
    code, output = command(fleet, "status")
    assert code == 0
    assert "fleet.yaml: running" in output.splitlines()[0]
    assert "watcher-of-many-thin…ong-running-schedule" in output
    assert fits("\n".join(output.splitlines()[1:]))


def test_schedules_tells_why_each_does_not_run_and_since_when(fleet):
    found = by_name(asked(fleet, "schedules"))
    assert {name: each["skip_reason"] for name, each in found.items()} == {
        "idler/jobless": "not_due",
        "reporter/failing": "not_due",
        "reporter/hook": "unsupported_type",
        "reporter/off": "disabled",
        "reporter/quick": "not_due",
        "watcher-of-many-things/blocked": "at_capacity",
        "watcher-of-many-things/long-running-schedule": "already_running",
    }
    assert all(each["skipped_since"] for each in found.values())
    assert found["idler/jobless"]["last_error"].startswith("the job could not be started: neither it nor its")
    code, output = command(fleet, "schedules")
    assert (code, fits(output)) == (0, True)
    assert "at_capacity" in output
    assert "exit code 3: a long story" in " ".join(output.split())


def test_a_schedule_that_waits_to_be_triggered_does_not_read_as_an_error(fleet):
    _, shown = command(fleet, "schedules", "reporter")
    assert "manual_only" in shown
    assert "unsupported_type" not in shown
    for reason in ("manual_only", "unsupported_type"):
        assert [*by_name(asked(fleet, "schedules", "--reason", reason))] == ["reporter/hook"]


def test_history_tells_what_became_of_occurrences(fleet):
    (run,) = asked(fleet, "history", "reporter/failing")
    assert (run["status"], run["reason"], run["trigger"], run["ticks"]) == (
        "FAILED",
        "task_failed",
        "schedule",
        1,
    )
    assert run["detail"].startswith("exit code 3: a long story")
    code, output = command(fleet, "history", "reporter/failing", "--limit", "1")
    assert (code, fits(output)) == (0, True)
    assert re.match(r"due \(.+\)  +state  +run  trigger  +reason  +took$", output.splitlines()[0])


def test_history_of_what_never_ran_is_empty(fleet):
    assert asked(fleet, "history", "reporter/hook") == []
    assert command(fleet, "history", "reporter/hook") == (0, "reporter/hook has no history yet\n")


def test_explain_tells_of_any_time(fleet):
    found = asked(fleet, "explain", "reporter/quick", "--at", "2020-01-01T09:00")
    assert (found["due"], found["code"]) == (False, "not_due")
    (run,) = asked(fleet, "history", "reporter/quick")
    found = asked(fleet, "explain", "reporter/quick", "--at", run["run_at"])
    assert (found["due"], found["code"], found["run"]) == (True, "SUCCESS", {**run, "run": None})
    code, output = command(fleet, "explain", "reporter/quick")
    assert code == 0
    assert "reporter/quick now: not_due; next run " in output


def test_disable_and_enable_act_on_the_running_fleet(fleet):
    assert asked(fleet, "disable", "reporter/quick")["status"] == "disabled"
    assert by_name(asked(fleet, "schedules"))["reporter/quick"]["skip_reason"] == "disabled"
    assert command(fleet, "enable", "reporter/quick") == (0, "reporter/quick is idle\n")
    assert asked(fleet, "enable", "reporter/quick")["status"] == "idle"
    assert command(fleet, "disable", "reporter/quick") == (0, "reporter/quick is disabled\n")
    asked(fleet, "enable", "reporter/quick")


def test_what_the_file_disables_cannot_be_enabled_elsewhere(fleet):
    code, output = command(fleet, "enable", "reporter/off")
    assert code == 1
    assert "reporter/off stays disabled" in output


def test_run_needs_a_place(fleet):
    code, output = command(fleet, "run", "watcher-of-many-things/blocked")
    assert code == 1
    assert 'Agent "watcher-of-many-things" is at its limit: 1 of 1 job(s) running' in output


@pytest.mark.parametrize("word", ["enable", "disable", "run", "history", "explain"])
def test_names_that_are_not_there_are_bad_usage_with_what_was_meant(fleet, stopped, word):
    for folder in (fleet, stopped):
        code, output = command(folder, word, "reporter/qick")
        assert (code, '(did you mean "quick"?)' in output) == (2, True)
        code, output = command(folder, word, "reportr/quick")
        assert (code, '(did you mean "reporter"?)' in output) == (2, True)
        if word in ("run", "explain"):
            code, output = command(folder, word, "reporter")
            assert (code, "write AGENT/SCHEDULE" in output) == (2, True)


@pytest.mark.parametrize("word", ["schedules", "enable", "explain", "history", "logs"])
def test_a_name_may_be_two_words(fleet, word):
    assert command(fleet, word, "reporter", "quick") == command(fleet, word, "reporter/quick")
    code, output = command(fleet, word, "reporter", "qick")
    assert (code, '(did you mean "quick"?)' in output) == (2, True)
    for words in (["reporter/quick", "failing"], ["reporter", "quick", "failing"]):
        code, output = command(fleet, word, *words)
        assert (code, "names more than one schedule; write one AGENT/SCHEDULE" in output) == (2, True)


@pytest.mark.parametrize("words", [["history", "nobody"], ["history", ""], ["history", "nobody/x"]])
def test_the_history_of_an_unknown_agent_is_bad_usage(fleet, stopped, words):
    for folder in (fleet, stopped):
        code, output = command(folder, *words)
        assert (code, "There is no agent" in output) == (2, True)


def test_options_that_mean_nothing_are_bad_usage(fleet):
    code, output = command(fleet, "schedules", "--reason", "at_capacty", columns=200)
    assert (code, "'at_capacty' is none of already_running, at_capacity, disabled" in output) == (2, True)
    code, output = command(fleet, "logs", "reporter/quick", "--follow", "--json")
    assert (code, "--json prints one answer, so not together with --follow" in output) == (2, True)


def test_a_file_that_cannot_be_reached_is_bad_usage(tmp_path):
    code, output = command(tmp_path, "status", file="x" * 300, columns=1000)
    assert (code, "cannot be reached (File name too long); check its path" in output) == (2, True)


def test_a_bad_time_is_bad_usage(fleet):
    code, output = command(fleet, "explain", "reporter/quick", "--at", "yesterday")
    assert (code, "write ISO 8601" in output) == (2, True)


def watching(folder, *options):
    line = [sys.executable, "-m", "dutiful", "fleet", "status", "--watch", *options]
    return subprocess.Popen(line, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_watch_keeps_looking_until_it_is_interrupted(fleet):
    with watching(fleet, "--json") as process:
        seen = [json.loads(process.stdout.readline())]
        # Both look once a second, so that the second look may come before the next pass.
        while seen[-1]["check_count"] == seen[0]["check_count"]:
            seen.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert (process.wait(), process.stderr.read()) == (0, "")
    assert seen[-1]["check_count"] > seen[0]["check_count"]
    assert {each["jobs"][0]["output"] for each in seen} == {"Look."}


def test_on_a_terminal_the_watch_is_drawn_in_its_place(fleet):
    ours, theirs = os.openpty()
    line = [sys.executable, "-m", "dutiful", "fleet", "status", "--watch"]
    size = {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(line, cwd=fleet, stdout=theirs, stderr=theirs, env=os.environ | size) as process:
        os.close(theirs)
        screen = ""
        while screen.count("latest output") < 3:
            screen += os.read(ours, 65_536).decode(errors="replace")
        process.send_signal(signal.SIGINT)
        # A terminal whose last writer has ended is an error to its reader.
        with suppress(OSError):
            while rest := os.read(ours, 65_536):
                screen += rest.decode(errors="replace")
        assert process.wait() == 0, screen
    os.close(ours)
    assert "fleet.yaml: running" in screen
    # The cursor goes up and the lines are written anew.
    assert "\x1b[1A" in screen


def test_reads_of_a_fleet_that_never_ran(stopped):
    assert asked(stopped, "status")["status"] == "stopped"
    found = by_name(asked(stopped, "schedules"))
    assert found["reporter/quick"]["status"] == "idle"
    assert found["reporter/off"]["skip_reason"] == "disabled"
    assert asked(stopped, "history", "reporter/quick") == []
    code, output = command(stopped, "explain", "reporter/quick")
    assert (code, "is not running; start it with `dutiful fleet start`" in output) == (1, True)
    for words in (("status",), ("schedules",)):
        code, output = command(stopped, *words)
        assert (code, fits("\n".join(output.splitlines()[1:]))) == (0, True)


def test_running_something_needs_a_running_fleet(stopped):
    code, output = command(stopped, "run", "reporter/quick")
    assert (code, "is not running; start it with `dutiful fleet start`" in output) == (1, True)


def test_what_is_disabled_while_the_fleet_is_stopped_stays_so(stopped):
    assert command(stopped, "disable", "reporter/quick") == (0, "reporter/quick is disabled\n")
    with started(stopped) as running:
        running.until("reporter/failing: failed")
        assert by_name(asked(stopped, "schedules"))["reporter/quick"]["skip_reason"] == "disabled"
    assert asked(stopped, "enable", "reporter/quick")["status"] == "idle"


def test_the_example_of_init_is_valid_runs_and_is_never_overwritten(tmp_path):
    assert command(tmp_path, "init")[0] == 0
    code, output = command(tmp_path, "validate")
    assert (code, output) == (0, "ok: 3 agents with 6 schedules in 1 file\n")
    written = (tmp_path / "fleet.yaml").read_text()
    with started(tmp_path) as running:
        running.until("watcher/disk: done", "watcher/load: done")
        assert command(tmp_path, "run", "reporter/on-demand", "--prompt", "Write about disks.")[0] == 0
        assert "done: Write about disks." in running.until("reporter/on-demand: done")
        assert running.stop() == (0, "")
    # What it did can be asked for when it no longer runs.
    (run,) = asked(tmp_path, "history", "reporter/on-demand")
    assert (run["trigger"], run["status"], run["detail"]) == ("manual", "SUCCESS", "done: Write about disks.")
    first = asked(tmp_path, "history", "watcher/disk")[-1]
    found = asked(tmp_path, "explain", "watcher/disk", "--at", first["run_at"])
    assert (found["due"], found["code"], found["now"]["status"]) == (True, "SUCCESS", "idle")
    code, output = command(tmp_path, "init")
    assert (code, "is there already" in output) == (1, True)
    assert (tmp_path / "fleet.yaml").read_text() == written


def test_validate_prints_every_problem_with_its_line(tmp_path):
    put_fleet(
        tmp_path, "version: 1\nagents:\n  - name: a\n    schedules:\n      s: {type: interval}\n      t: {}\n"
    )
    code, output = command(tmp_path, "validate")
    assert code == 1
    assert [line.rpartition("/")[2].split(": ")[:2] for line in output.splitlines()] == [
        ["fleet.yaml:5", "agents[0].schedules.s.interval"],
        ["fleet.yaml:6", "agents[0].schedules.t.type"],
    ]
    code, output = command(tmp_path, "validate", "--json")
    assert code == 1
    assert [each["line"] for each in json.loads(output)["problems"]] == [5, 6]


@pytest.mark.parametrize("words", [("status",), ("validate",), ("start",), ("run", "a/b")])
def test_without_a_file_it_is_said_how_to_make_one(tmp_path, words):
    code, output = command(tmp_path, *words)
    assert (code, "`dutiful fleet init`" in output) == (2, True)


def test_a_fleet_whose_file_cannot_be_used_does_not_start(tmp_path):
    put_fleet(tmp_path, "version: 1\nagents: [{name: a, shedules: {}}]\n")
    code, output = command(tmp_path, "start")
    assert (code, 'did you mean "schedules"?' in output) == (2, True)


@pytest.mark.parametrize("name", ["start", "stop"])
@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_a_wait_is_a_number_of_seconds(name, seconds):
    done = CliRunner().invoke(cli, ["fleet", name, "--timeout", seconds])
    assert (done.exit_code, "--timeout" in done.stderr) == (2, True)
