"""A whole run: a real file, a real command, the state on disk, and a real `kill -9` in the middle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest
from tests.process.living import ends, numbers

from dutiful.fleet.run.jobs import executor_for
from dutiful.fleet.run.run_schedule import run_schedule
from dutiful.fleet.run.work_sources import WorkSources
from dutiful.fleet.state.file import get_schedule_state
from dutiful.fleet.types import Agent, AgentSchedule


@pytest.fixture
def inbox(tmp_path):
    path = tmp_path / "inbox"
    path.mkdir()
    (path / "a.md").write_text("Fix it\n\nIt fails.\n", encoding="utf-8")
    return path


def run(inbox, *command: str):
    schedule = AgentSchedule(
        "interval", interval="5m", prompt="Do this.", work_source={"type": "directory", "path": str(inbox)}
    )
    running = run_schedule(
        agent=Agent("scout"),
        schedule=schedule,
        schedule_name="look",
        state_dir=inbox.parent,
        job_executor=executor_for({"type": "command", "command": [*command]}),
        work_source_manager=WorkSources(),
    )
    return asyncio.run(running)


def places(inbox) -> list[str]:
    return sorted(path.parent.name for path in inbox.rglob("*.md"))


def test_a_file_is_done_by_a_command(inbox):
    result = run(inbox, "sh", "-c", "cat; exit 0")
    assert (result.success, result.summary, result.work_item.title) == (True, "- source: directory", "Fix it")
    assert places(inbox) == ["done"]
    assert get_schedule_state(inbox.parent, "scout", "look").status == "idle"


def test_a_file_whose_command_fails_has_failed(inbox):
    assert run(inbox, "sh", "-c", "exit 3").error == "exit code 3"
    assert places(inbox) == ["failed"]


def test_a_file_whose_command_is_not_there_waits_on(inbox):
    assert not run(inbox, "no-such-program").ran
    assert places(inbox) == ["inbox"]


def test_a_fleet_that_is_killed_leaves_its_file_to_the_next_one_and_no_command_running(inbox):
    told = inbox.parent / "told"
    program = f"""
        import pathlib
        from tests.fleet.run.test_run_schedule_for_real import run

        script = "echo $$ > {told}.new; mv {told}.new {told}; sleep 300"
        print("up", flush=True)
        run(pathlib.Path({str(inbox)!r}), "sh", "-c", script)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    ) as fleet:
        fleet.stdout.readline()
        while not told.exists():
            assert fleet.poll() is None
        fleet.kill()
    (command,) = numbers(told.read_text(encoding="ascii"))
    assert ends(command)
    assert get_schedule_state(inbox.parent, "scout", "look").status == "running"
    assert run(inbox, "true").work_item.external_id == "a.md"
    assert places(inbox) == ["done"]
