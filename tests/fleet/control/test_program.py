"""`dutiful fleet start` with real jobs in real time: intervals, caps, stops, kills and edits."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from itertools import pairwise

import pytest
from tests.fleet.control.program import Pids, command, put_fleet, started
from tests.process.living import ends

# What a busy machine may add to any time.
SLACK = 5.0

# Every job writes when it begins and ends; the prompt says how long it takes.
JOURNAL = """\
    job:
      type: command
      command:
        - sh
        - -c
        - |
          seconds=$(cat)
          echo "$DUTIFUL_AGENT/$DUTIFUL_SCHEDULE begin $(date +%s.%N)" >> journal
          sleep "$seconds"
          echo "$DUTIFUL_AGENT/$DUTIFUL_SCHEDULE end $(date +%s.%N)" >> journal
"""
TWELVE = f"""
version: 1
check_interval: 1s
agents:
  - name: single
{JOURNAL}
    schedules:
      short: {{type: interval, interval: 1s, prompt: "0.2"}}
      long: {{type: interval, interval: 2s, prompt: "2.5"}}
      minutely: {{type: cron, expression: "* * * * *", prompt: "0.1"}}
      hook: {{type: webhook, prompt: "0.1"}}
  - name: pair
    instances: {{max_concurrent: 2}}
{JOURNAL}
    schedules:
      one: {{type: interval, interval: 1s, prompt: "1.2"}}
      two: {{type: interval, interval: 1s, prompt: "1.2"}}
      three: {{type: interval, interval: 1s, prompt: "1.2"}}
      yearly: {{type: cron, expression: "@yearly", prompt: "0.1"}}
  - name: free
    instances: {{max_concurrent: 4}}
{JOURNAL}
    schedules:
      steady: {{type: interval, interval: 2s, prompt: "0.5"}}
      failing: {{type: interval, interval: 3s, job: {{type: command, command: ["false"]}}}}
      chat: {{type: chat}}
      off: {{type: interval, interval: 1s, enabled: false}}
"""
RUNNING = {"single/short", "single/long", "pair/one", "pair/two", "pair/three", "free/steady"}
INTERVALS = dict.fromkeys(RUNNING, 1.0) | {"single/long": 2.0, "free/steady": 2.0}
PLACES = {"single": 1, "pair": 2, "free": 4}


def journal(folder):
    """Return (begin, end) of every job that has ended, by name."""
    spans, open_since = {}, {}
    for line in (folder / "journal").read_text().splitlines():
        name, word, at = line.split()
        if word == "begin":
            open_since[name] = float(at)
        else:
            spans.setdefault(name, []).append((open_since.pop(name), float(at)))
    return spans


def gaps(spans):
    """Return the seconds from the end of each job of a schedule to the beginning of the next."""
    return {name: [later[0] - earlier[1] for earlier, later in pairwise(spans[name])] for name in spans}


def most_at_once(spans, agent):
    """Return how many jobs of an agent ran at the same time, at most."""
    own = [span for name in spans if name.startswith(f"{agent}/") for span in spans[name]]
    steps = sorted([(begin, 1) for begin, _ in own] + [(end, -1) for _, end in own])
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


def observe(fleet, seconds):
    """Follow the fleet for so long; return the reasons that `schedules` gave meanwhile, with since."""
    reasons, until = set(), time.monotonic() + seconds
    # A slow machine needs longer until each has had its turn.
    while time.monotonic() < until or not {*journal(fleet.folder)} >= RUNNING:
        fleet.until(": done after")
        for each in fleet.ask("schedules"):
            if each["skipped_since"] is not None or each["skip_reason"] == "not_due":
                reasons.add((f"{each['agent']}/{each['schedule']}", each["skip_reason"]))
    return reasons


def assert_obligations(folder, reasons):
    spans = journal(folder)
    between = gaps(spans)
    assert {*spans} - {"single/minutely"} == RUNNING
    for name, interval in INTERVALS.items():
        assert all(gap >= interval - 0.01 for gap in between[name]), (name, between[name])
    # Nobody blocks this one: a pass finds it within a second of being due.
    assert all(gap <= 2.0 + 1.0 + SLACK for gap in between["free/steady"]), between["free/steady"]
    assert {agent: most_at_once(spans, agent) <= places for agent, places in PLACES.items()} == dict.fromkeys(
        PLACES, True
    )
    assert most_at_once(spans, "pair") == 2
    assert reasons >= {
        ("single/hook", "unsupported_type"),
        ("free/chat", "unsupported_type"),
        ("free/off", "disabled"),
        ("pair/yearly", "not_due"),
        ("single/short", "at_capacity"),
    }


@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.soak)])
def test_twelve_schedules_of_three_agents_keep_their_intervals_and_places(tmp_path, seconds):
    put_fleet(tmp_path, TWELVE)
    with started(tmp_path) as fleet:
        reasons = observe(fleet, seconds)
        assert fleet.stop() == (0, "")
        assert fleet.lines[-1].endswith("INFO stopped")
    assert_obligations(tmp_path, reasons)
    begun = (tmp_path / "journal").read_text().count("begin")
    # The stop waited: everything that began has ended.
    assert begun == (tmp_path / "journal").read_text().count("end")
    code, output = command(tmp_path, "schedules")
    assert (code, "running" in output) == (0, False)


HELD = """
version: 1
check_interval: 1s
agents:
  - name: a
    instances: {max_concurrent: 3}
    job: {type: command, command: [sh, -c, 'echo $$ > pids; echo "begun"; exec sleep 600']}
    schedules:
      one: {type: interval, interval: 1h}
      two: {type: interval, interval: 1h}
  - name: b
    job: {type: command, command: ["true"]}
    schedules:
      quick: {type: interval, interval: 1h}
"""


@pytest.fixture
def held(tmp_path):
    """A folder with a fleet whose two jobs of `a` never end, and the pipe that tells of them."""
    put_fleet(tmp_path, HELD)
    pids = Pids(tmp_path)
    yield tmp_path, pids
    pids.close()


def held_jobs(fleet, pids):
    """Return the processes of the two jobs that never end, when the third has ended."""
    while [run["status"] for run in fleet.ask("history", "b/quick")] != ["SUCCESS"]:
        pass
    return [pids.next(), pids.next()]


def status_of(folder, name):
    from dutiful.fleet import get_schedule_state

    return get_schedule_state(folder / ".dutiful", *name.split("/"))


def test_a_stop_that_takes_too_long_kills_the_jobs_and_says_so(held):
    folder, pids = held
    with started(folder, "--timeout", "0.5") as fleet:
        running = held_jobs(fleet, pids)
        code, errors = fleet.stop()
    assert code == 1
    assert errors.startswith(
        "Scheduler shutdown timed out after 500ms with 2 job(s) still running; killed: a/"
    )
    assert all(ends(pid) for pid in running)
    state = status_of(folder, "a/one")
    assert (state.status, state.last_error.partition(":")[0]) == ("idle", "interrupted")
    assert not (folder / ".dutiful/control.sock").exists()
    with started(folder) as fleet:
        (run,) = fleet.ask("history", "a/one")
    assert (run["status"], run["reason"]) == ("FAILED", "interrupted")


def test_a_second_signal_does_not_wait(held):
    folder, pids = held
    with started(folder) as fleet:
        running = held_jobs(fleet, pids)
        fleet.process.send_signal(signal.SIGTERM)
        fleet.until("stopping: waiting for 2 jobs, at most 30 s")
        time.sleep(0.6)
        code, errors = fleet.stop(signal.SIGINT)
    assert (code, errors.partition("a/")[0]) == (1, "Stopped at once; killed: ")
    assert all(ends(pid) for pid in running)


def test_two_signals_of_one_moment_are_one_request_to_stop(held):
    folder, pids = held
    with started(folder, "--timeout", "2") as fleet:
        held_jobs(fleet, pids)
        fleet.process.send_signal(signal.SIGTERM)
        fleet.process.send_signal(signal.SIGINT)
        code, errors = fleet.end()
    assert (code, errors.startswith("Scheduler shutdown timed out after 2000ms")) == (1, True)


def test_a_fleet_that_stops_can_still_be_asked_and_starts_nothing(held):
    folder, pids = held
    with started(folder) as fleet:
        running = held_jobs(fleet, pids)
        fleet.process.send_signal(signal.SIGTERM)
        fleet.until("stopping: ")
        assert fleet.ask("status")["status"] == "stopping"
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        assert fleet.end() == (0, "")
    assert status_of(folder, "a/one").last_error == "killed by signal 9: begun"


def test_after_kill_9_no_job_survives_and_the_next_start_knows_what_was_cut_short(held):
    folder, pids = held
    with started(folder) as fleet:
        killed = held_jobs(fleet, pids)
        fleet.process.kill()
        assert fleet.end()[0] == -signal.SIGKILL
    assert all(ends(pid) for pid in killed)
    # The socket of the dead is in nobody's way.
    assert (folder / ".dutiful/control.sock").exists()
    code, output = command(folder, "run", "a/one")
    assert (code, "is not running" in output) == (1, True)
    with started(folder) as fleet:
        schedules = {f"{each['agent']}/{each['schedule']}": each for each in fleet.ask("schedules")}
        cut = [fleet.ask("history", name) for name in ("a/one", "a/two")]
        (done,) = fleet.ask("history", "b/quick")
        assert fleet.stop() == (0, "")
    assert {name: each["status"] for name, each in schedules.items()} == dict.fromkeys(schedules, "idle")
    assert schedules["a/one"]["last_error"].startswith("interrupted: ")
    assert [[(run["status"], run["reason"]) for run in runs] for runs in cut] == [
        [("FAILED", "interrupted")]
    ] * 2
    assert done["status"] == "SUCCESS"
    assert [status_of(folder, name).status for name in ("a/one", "a/two", "b/quick")] == ["idle"] * 3


def test_two_processes_do_not_run_one_fleet(held):
    folder, pids = held
    with started(folder) as fleet:
        held_jobs(fleet, pids)
        code, output = command(folder, "start")
        assert (code, f"Process {fleet.process.pid} already runs the fleet" in output) == (1, True)
        # Nor does one fleet hear what was meant for another that was given its directory.
        put_fleet(folder, HELD, "other.yaml")
        code, output = command(folder, "disable", "a/one", file="other.yaml")
        assert (code, "add --file" in output and "set another `state_dir`" in output) == (1, True)
        assert status_of(folder, "a/one").status == "running"
        assert fleet.ask("status")["status"] == "running"


EDITED = """
version: 1
check_interval: 1s
agents:
  - name: a
    job: {type: command, command: [echo, first]}
    schedules:
      one: {type: interval, interval: 1s%s}
  - path: b.yaml
"""
B = """
name: b
job: {type: command, command: [echo, %s]}
schedules:
  two: {type: interval, interval: 1s}
"""


def test_edits_of_the_files_act_with_the_next_pass(tmp_path):
    put_fleet(tmp_path, B % "hello", "b.yaml")
    put_fleet(tmp_path, EDITED % "")
    with started(tmp_path) as fleet:
        fleet.until("a/one: done", "b/two: done")

        put_fleet(tmp_path, EDITED % ", enabled: false")
        before = passes = fleet.ask("status")["check_count"]
        while [each["skip_reason"] == "disabled" for each in fleet.ask("schedules")] != [True, False]:
            # Of two passes that began after the edit the first is over.
            assert passes < before + 2
            passes = fleet.ask("status")["check_count"]
        fleet.until("was read again: 2 agent(s)")

        put_fleet(tmp_path, B % "changed" + "  three: {type: interval, interval: 1h}\n", "b.yaml")
        fleet.until("b/three: done after", "b/two: done after")
        assert "a/one: done" not in " ".join(fleet.lines[-3:])
        assert fleet.until("b/two: done").endswith(": changed")

        put_fleet(tmp_path, EDITED.replace("type", "tpye") % "")
        fleet.until("The fleet goes on as it was")
        assert any('(did you mean "type"?)' in line for line in fleet.lines)
        assert "cannot be used" in fleet.ask("status")["problem"]
        # It goes on, and the file is not complained of with every pass.
        fleet.until("b/two: done")
        fleet.until("b/two: done")
        assert sum("The fleet goes on" in line for line in fleet.lines) == 1

        put_fleet(tmp_path, EDITED % "")
        fleet.until("a/one: done")
        assert fleet.ask("status")["problem"] is None
        assert fleet.stop() == (0, "")


def test_a_job_runs_where_the_file_is_and_finds_its_modules_there(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "work.py").write_text("def job(request):\n    return f'did {request.prompt}'\n")
    job = "job: {type: python, call: 'work:job'}"
    where = "job: {type: command, command: [pwd]}"
    put_fleet(
        tmp_path,
        f"version: 1\nagents:\n  - name: a\n    {job}\n    schedules:\n"
        "      call: {type: interval, interval: 1h, prompt: this}\n"
        f"      where: {{type: interval, interval: 1h, {where}}}\n",
    )
    with started(elsewhere, "--file", "../fleet.yaml") as fleet:
        fleet.until("a/call: done after", f": {tmp_path}")
        assert any(line.endswith(": did this") for line in fleet.lines)


def test_a_job_that_holds_up_the_event_loop_is_named_while_it_does(tmp_path):
    os.mkfifo(tmp_path / "door")
    # Nothing else of the fleet can run until the test has opened the other end.
    (tmp_path / "work.py").write_text("async def job(request):\n    return open('door').read()\n")
    put_fleet(
        tmp_path,
        "version: 1\nagents:\n  - name: a\n    job: {type: python, call: 'work:job'}\n"
        "    schedules: {holds: {type: webhook}}\n",
    )
    with started(tmp_path) as fleet:
        assert command(tmp_path, "run", "a/holds")[0] == 0
        line = fleet.until("the event loop is blocked by a/holds")
        assert line.partition(" WARNING ")[2] == "the event loop is blocked by a/holds, for 1.0 s"
        (tmp_path / "door").write_text("open")
        fleet.until("a/holds: done after")
        # It is told once for each time that the loop is held up.
        assert [line for line in fleet.lines if "is blocked by a/holds" in line] == [line]
        assert fleet.stop() == (0, "")


@pytest.fixture
def few_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_fleet_may_open_more_files_than_its_shell_and_its_jobs_may_not(tmp_path, few_files):
    # The parent of a job is its warden, which has the limit of the fleet.
    told = "echo $(ulimit -Sn) $(grep '^Max open files' /proc/$PPID/limits)"
    job = {"type": "command", "command": ["sh", "-c", told]}
    schedules = {"limits": {"type": "interval", "interval": "1h", "job": job}}
    put_fleet(tmp_path, json.dumps({"version": 1, "agents": [{"name": "a", "schedules": schedules}]}))
    with started(tmp_path) as fleet:
        line = fleet.until("a/limits: done")
    assert line.partition(" s: ")[2] == f"200 Max open files {few_files} {few_files} files"
