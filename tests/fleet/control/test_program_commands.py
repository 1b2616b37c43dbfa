"""Commands to a running fleet: logs, waiting, cancelling, stopping, and a fleet file that was changed."""

from __future__ import annotations

import os

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


def test_what_a_running_fleet_can_be_told(tmp_path):
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
        assert [each["schedule"] for each in asked(tmp_path, "schedules", "a", "--failed")] == [
            "fails",
            "hangs",
        ]
        code, output = command(tmp_path, "stop")
        assert (code, output) == (0, "stopped\n")
        assert fleet.end() == (0, "")


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
        assert (code, "Another process already runs the fleet of" in output) == (1, True)


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
      off: {type: interval, interval: 1h, enabled: false}
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
        ],
    )
    assert command(tmp_path, "validate", "--offline")[0] == 0
