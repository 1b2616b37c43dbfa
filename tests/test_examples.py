"""The examples as whole files: each runs as a newcomer would; a page that shows one shows all of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from tests.ports import port_without_listener
from tests.test_docs import EXAMPLE_FILE, PAGES, ROOT, blocks

SHOWN = [
    (f"{page.stem}-{name[1]}", name[1], block.text)
    for page in PAGES
    for block in [*blocks(page, "python"), *blocks(page, "yaml")]
    if (name := EXAMPLE_FILE.match(block.text))
]


@pytest.mark.parametrize(("name", "text"), [pair for _, *pair in SHOWN], ids=[place for place, *_ in SHOWN])
def test_an_example_that_a_page_shows_is_the_file(name, text):
    assert (ROOT / name).read_text(encoding="utf-8") == text


def test_every_example_is_run_by_a_test_and_reachable_from_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    users = [*(ROOT / "tests").rglob("*.py"), ROOT / "examples/service.py"]
    used = "".join(path.read_text(encoding="utf-8") for path in users)
    examples = [path for path in (ROOT / "examples").iterdir() if path.suffix in {".py", ".yaml"}]
    assert [path.name for path in examples if path.name not in pages] == []
    assert [path.name for path in examples if path.stem not in used] == []


@contextmanager
def started(folder, *command):
    environ = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT / "examples")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *command], cwd=folder, env=environ, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_library_runs_its_task_at_once_and_stops_on_ctrl_c(tmp_path):
    with started(tmp_path, ROOT / "examples/library.py") as process:
        assert process.stdout.readline() == "sending the report\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(), process.stderr.read()) == (0, "")
    assert (tmp_path / "state.db").exists()


def test_a_week_on_a_virtual_clock_has_five_reports():
    command = [sys.executable, ROOT / "examples/working_week.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["Mon 09:00", "Tue 09:00", "Wed 09:00", "Thu 09:00", "Fri 09:00"]


def test_a_synchronous_program_runs_its_task_beside_its_own_work_and_ends(tmp_path):
    with started(tmp_path, ROOT / "examples/sync_program.py") as process:
        assert process.stdout.readline() == "cleaning up\n"
        # A new minute may begin just now, and run the task again.
        out, error = process.communicate("a line\n", timeout=60)
    assert (out.replace("cleaning up\n", ""), error, process.returncode) == ("read a line\n", "", 0)


def test_collected_tasks_run_with_their_arguments(tmp_path):
    with started(tmp_path, "-m", "dutiful", "run", "collected_tasks:TASKS", "--quiet") as process:
        lines = {process.stdout.readline() for _ in range(3)}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert lines == {"alive\n", "report for eu in short\n", "report for us in detail\n"}


def test_the_fleet_works_through_the_folder_and_stops_on_ctrl_c(tmp_path):
    shutil.copy(ROOT / "examples/fleet.yaml", tmp_path)
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox/orders.txt").write_text("one\ntwo\nthree\n")
    with started(tmp_path, "-m", "dutiful", "fleet", "start") as process:
        wanted, seen = {"reporter/inbox", "watcher/disk"}, set()
        while seen != wanted:
            line = process.stdout.readline()
            assert line, seen
            seen |= {name for name in wanted if f"{name}: done" in line}
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 0
    said = ["-m", "dutiful", "fleet", "logs", "reporter", "inbox"]
    with started(tmp_path, *said) as process:
        assert re.fullmatch(r"read \d+ lines\n", process.stdout.readlines()[1])


def test_the_fastapi_app_refreshes_and_stops_with_uvicorn(tmp_path):
    import httpx2

    with (
        port_without_listener() as port,
        started(tmp_path, "-m", "uvicorn", "fastapi_app:app", "--port", str(port)) as process,
    ):
        while "Application startup complete" not in process.stderr.readline():
            assert process.poll() is None
        while "running on" not in (line := process.stderr.readline()):
            assert process.poll() is None, line
        url = f"http://127.0.0.1:{port}/seen"
        assert re.match(r'\["fresh"', httpx2.get(url, trust_env=False, timeout=60).text)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait() in {0, -signal.SIGTERM}
