"""Commands to a running fleet: logs, waiting, cancelling, stopping, and a fleet file that was changed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.fleet.control.program import asked, command, put_fleet, started

FLEET = """
version: 1
agents:
  - name: a
    instances: {max_concurrent: 4}
    job: {type: command, command: [sh, -c, 'echo "hello $DUTIFUL_TRIGGER"; echo oops >&2']}
    schedules:
      talk: {type: interval, interval: 1h}
      fails: {type: interval, interval: 1h, job: {type: command, command: [sh, -c, 'echo "no luck"; exit 3']}}
      hangs: {type: interval, interval: 1h, job: {type: command, command: [sleep, "600"]}}
      hook: {type: webhook}
      empty: {type: webhook, work_source: {type: directory, path: inbox}}
"""


def test_a_running_fleet_obeys_each_command(tmp_path):
    put_fleet(tmp_path, FLEET)
    (tmp_path / "inbox").mkdir()
    with started(tmp_path) as fleet:
        fleet.until("a/talk: done", "a/fails: failed")
        code, output = command(tmp_path, "run", "a/hook", "--wait")
        assert (code, output) == (0, "a/hook: SUCCESS: hello manual\n")
        code, output = command(tmp_path, "run", "a/empty", "--wait")
        assert (code, output.startswith("a/empty: found no work: no file in")) == (0, True)
        log = asked(tmp_path, "logs", "a/hook")
        assert (log["run"], sorted(log["output"].splitlines()[:2])) == (1, ["hello manual", "oops"])
        code, output = command(tmp_path, "logs", "a", "fails", "--run", "1")
        assert (code, output.splitlines()[1:2]) == (0, ["no luck"])
        (failed,) = asked(tmp_path, "history", "--failed")
        assert (failed["schedule"], failed["run"], failed["detail"]) == ("fails", 1, "exit code 3: no luck")
        assert command(tmp_path, "cancel", "a/hangs") == (0, "a/hangs: 1 job(s) cancelled\n")
        fleet.until("a/hangs: cancelled by request")
        assert command(tmp_path, "cancel", "a/hangs") == (1, "a/hangs: 0 job(s) cancelled\n")
        assert [each["status"] for each in asked(tmp_path, "disable", "a")] == ["disabled"] * 5
        # What has ended is said before it is written down.
        while [each["schedule"] for each in fleet.ask("schedules", "a", "--failed")] != ["fails", "hangs"]:
            pass
        code, output = command(tmp_path, "stop")
        assert (code, output) == (0, "stopped\n")
        assert fleet.end() == (0, "")


def test_waiting_for_a_run_ends_with_the_fleet_that_has_not_begun_it(tmp_path):
    put_fleet(tmp_path, FLEET.replace('[sleep, "600"]', '["true"]') + "check_interval: 1h\n")
    asking = [sys.executable, "-m", "dutiful", "fleet", "run", "a/hook", "--wait"]
    with started(tmp_path) as fleet:
        fleet.until("a/hangs: done")
        with subprocess.Popen(asking, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting:
            while not fleet.ask("history", "a/hook"):
                pass
            assert fleet.stop() == (0, "")
            _, said = waiting.communicate(timeout=30)
    begins = "The fleet was stopped before a/hook began; the run begins with its next start"
    assert (waiting.returncode, said) == (1, f"Error: {begins}\n")


def test_a_running_fleet_is_found_whatever_its_file_says_by_now(tmp_path):
    put_fleet(tmp_path, FLEET + "state_dir: here\n")
    with started(tmp_path) as fleet:
        put_fleet(tmp_path, FLEET + "state_dir: there\n")
        fleet.until("`state_dir` cannot change while the fleet runs")
        found = asked(tmp_path, "status")
        assert (found["status"], found["state_dir"]) == ("running", str(tmp_path / "here"))
        put_fleet(tmp_path, "broken: [")
        fleet.until("The fleet goes on as it was; mend the file")
        assert asked(tmp_path, "disable", "a/talk")["status"] == "disabled"
        put_fleet(tmp_path, FLEET + "state_dir: there\n")
        code, output = command(tmp_path, "start")
        assert (code, f"Process {fleet.process.pid} already runs the fleet of" in output) == (1, True)


def test_after_kill_9_nothing_looks_as_if_it_ran(tmp_path):
    put_fleet(tmp_path, FLEET)
    with started(tmp_path) as fleet:
        fleet.until("a/hangs: triggered")
        fleet.process.kill()
        fleet.process.wait()
    (hangs,) = [each for each in asked(tmp_path, "schedules") if each["schedule"] == "hangs"]
    assert (hangs["status"], hangs["last_error"].partition(":")[0]) == ("idle", "interrupted")
    (run,) = asked(tmp_path, "history", "a/hangs")
    assert (run["status"], run["reason"], run["ended_at"]) == ("FAILED", "interrupted", None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write anywhere")
def test_a_state_directory_that_cannot_be_made_is_an_error(tmp_path):
    put_fleet(tmp_path, FLEET + "state_dir: /proc/dutiful\n")
    code, output = command(tmp_path, "start")
    assert (code, "Traceback" in output) == (1, False)


def test_a_state_directory_below_a_file_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    put_fleet(tmp_path, FLEET + "state_dir: file/below\n")
    code, output = command(tmp_path, "start")
    assert (code, "Traceback" in output) == (1, False)
    assert "the state directory cannot be made (Not a directory)" in output


def test_validate_finds_what_could_not_run_unless_it_is_offline(tmp_path):
    put_fleet(
        tmp_path,
        """
version: 1
agents:
  - name: a
    schedules:
      jobless: {type: interval, interval: 1h}
      nowhere: {type: interval, interval: 1h, job: {type: command, command: [nonesuch]}}
      module: {type: interval, interval: 1h, job: {type: python, call: "nonesuch:run"}}
      inbox: {type: interval, interval: 1h, job: {type: command, command: ["true"]},
              work_source: {type: directory, path: inbox}}
      untold: {type: interval, interval: 1h, job: {type: command, command: ["true"]},
               on_failure: {type: command, command: [nonesuch]}}
      off: {type: interval, interval: 1h, enabled: false}
  - name: b
    job: {type: command, command: ["true"]}
    on_failure: {type: command, command: ["true"], directory: nowhere}
    schedules: {x: {type: webhook}, y: {type: webhook}}
""",
    )
    code, output = command(tmp_path, "validate")
    places = [line.split(": ")[1] for line in output.splitlines()]
    assert (code, places) == (
        1,
        [
            "agents[0].schedules.jobless",
            "agents[0].schedules.nowhere.job.command",
            "agents[0].schedules.module.job.call",
            "agents[0].schedules.inbox.work_source.path",
            "agents[0].schedules.untold.on_failure.command",
            "agents[1].on_failure.directory",
        ],
    )
    assert command(tmp_path, "validate", "--offline")[0] == 0


def test_a_fleet_whose_state_directory_was_deleted_is_not_taken_for_stopped(tmp_path):
    # Without the job that hangs, for which a stop would wait half a minute.
    put_fleet(tmp_path, FLEET.replace('[sleep, "600"]', '["true"]'))
    with started(tmp_path) as fleet:
        fleet.until("a/talk: done")
        (tmp_path / ".dutiful").rename(tmp_path / "elsewhere")
        fleet.until("no schedule is triggered, because passes fail")
        said = f"process {fleet.process.pid} runs the fleet, and its socket in {tmp_path}/.dutiful was"
        for words in (["status"], ["schedules"], ["disable", "a"], ["history"]):
            code, output = command(tmp_path, *words)
            assert (code, said in " ".join(output.split())) == (1, True), output
        # The process can still be stopped.
        assert command(tmp_path, "stop") == (0, "stopped\n")
    code, output = command(tmp_path, "status")
    assert (code, output.splitlines()[0].endswith("fleet.yaml: stopped")) == (0, True)


def test_a_fleet_whose_socket_was_deleted_is_not_taken_for_stopped(tmp_path):
    put_fleet(tmp_path, FLEET.replace('[sleep, "600"]', '["true"]'))
    with started(tmp_path) as fleet:
        fleet.until("a/talk: done")
        (tmp_path / ".dutiful" / "control.sock").unlink()
        code, output = command(tmp_path, "status")
        assert (code, f"process {fleet.process.pid} runs the fleet, and its socket" in output) == (1, True)
        assert command(tmp_path, "stop") == (0, "stopped\n")


def test_a_fleet_that_cannot_be_asked_starts_no_job(tmp_path):
    put_fleet(tmp_path, FLEET)
    (tmp_path / ".dutiful" / "control.sock").mkdir(parents=True)
    code, output = command(tmp_path, "start")
    assert (code, "control.sock cannot be made (Is a directory)" in output) == (1, True)
    assert not (tmp_path / ".dutiful" / "history.db").exists()


YEARLY = """
version: 1
agents:
  - name: a
    job: {type: command, command: ["true"]}
    schedules: {yearly: {type: cron, expression: "@yearly"}}
"""


def test_a_terminal_that_closes_stops_a_fleet_as_other_signals_do(tmp_path):
    put_fleet(tmp_path, YEARLY)
    # Under `nohup` the tests ignore the signal, and a fleet that they start would do so too.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with started(tmp_path) as fleet:
            assert fleet.stop(signal.SIGHUP) == (0, "")
            assert fleet.lines[-1].endswith("INFO stopped")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stalled_fleet_is_reported_by_every_question_about_it_until_it_is_mended(tmp_path):
    # No job ends while the state file is replaced, which would write it again.
    put_fleet(tmp_path, YEARLY)
    questions = (["status"], ["schedules"], ["explain", "a/yearly"])
    with started(tmp_path) as fleet:
        assert [command(tmp_path, *words)[0] for words in questions] == [0, 0, 0]
        state = tmp_path / ".dutiful" / "state.yaml"
        # In one step, so that no pass finds the file missing.
        (tmp_path / "link").symlink_to(tmp_path)
        (tmp_path / "link").replace(state)
        fleet.until("no schedule is triggered, because passes fail")
        stall = f"StateFileError: {tmp_path}: cannot be read (Is a directory); check its permissions"
        code, output = command(tmp_path, "status")
        shown = output.splitlines()[2]
        assert (code, shown.startswith("STALLED since "), shown.endswith(f": {stall}")) == (1, True, True)
        code, output = command(tmp_path, "status", "--json")
        found = json.loads(output)
        assert (code, found["status"], found["stall"]) == (1, "running", stall)
        said = f"Error: the fleet triggers nothing, because its passes fail: {stall}"
        for words in (["schedules"], ["schedules", "a", "--failed", "--json"], ["explain", "a/yearly"]):
            code, output = command(tmp_path, *words)
            assert (code, output.splitlines()[-1]) == (1, said), words
        state.unlink()
        fleet.until("passes succeed again")
        assert [command(tmp_path, *words)[0] for words in questions] == [0, 0, 0]


@pytest.fixture
def talking(tmp_path):
    """A fleet whose job prints a line whenever the test lets it."""
    put_fleet(
        tmp_path,
        """
version: 1
agents:
  - name: a
    job: {type: command, command: [sh, -c, 'while read -r line; do echo "heard $line"; done < words']}
    schedules: {s: {type: webhook}}
""",
    )
    os.mkfifo(tmp_path / "words")
    with started(tmp_path):
        assert command(tmp_path, "run", "a/s")[0] == 0
        with (tmp_path / "words").open("w", buffering=1) as words:
            yield words


def test_followed_logs_show_each_line_as_it_comes(tmp_path, talking):
    line = [sys.executable, "-m", "dutiful", "fleet", "logs", "a", "--follow"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as following:
        for word in ("one", "two", "three"):
            talking.write(f"{word}\n")
            shown = next(line for line in following.stdout if not line.startswith("=="))
            assert shown == f"heard {word}\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 0
