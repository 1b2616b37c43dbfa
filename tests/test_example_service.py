"""What `make run` runs: the service, with schedules that are seen firing, and a clean end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from tests.ports import port_without_listener
from tests.shell import Shell
from tests.test_docs import blocks, commands

ROOT = Path(__file__).resolve().parents[1]


def test_make_run_runs_this_example():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^run:.*\n\t@\$\(BIN\)/python examples/service\.py$", makefile, re.MULTILINE)


@pytest.fixture
def port():
    with port_without_listener() as port:
        yield port


@contextmanager
def example(folder, port):
    """Run the example as `make run` does, on a store and a port of the test's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUTIFUL_")}
    own = {"DUTIFUL_PORT": str(port), "DUTIFUL_STORE": f"sqlite:{folder}/example.db"}
    command = [sys.executable, str(ROOT / "examples/service.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=kept | own, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process, text):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came: {lines} {process.stderr.read()}")


def test_examples_fire_within_seconds_and_ctrl_c_ends_it(tmp_path, port):
    with example(tmp_path, port) as process:
        lines = lines_until(process, "demo-heartbeat success")
        url = f"http://127.0.0.1:{port}"
        assert f"dutiful answers at {url}; stop with Ctrl-C\n" in lines
        assert f"  export DUTIFUL_URL={url}\n" in lines
        assert "demo-heartbeat" in httpx2.get(url, trust_env=False, timeout=60).text
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert (rest.splitlines()[-1], process.wait(), process.stderr.read()) == ("stopped", 0, "")


# What a newcomer reads with `make run` in the other terminal, in this order.
FIRST_PAGES = [
    ROOT / name
    for name in (
        "README.md",
        "docs/index.md",
        "docs/start-service.md",
        "docs/guides/service.md",
        "docs/guides/top.md",
        "docs/reference/http-api.md",
    )
]


def sessions():
    for page in FIRST_PAGES:
        for block in blocks(page, "shell-session"):
            for command, printed in commands(block):
                yield page.name, command, printed


def answer(output):
    """Return the first key of an answer in JSON and the code if it is an error, and nothing of a table."""
    return re.findall(r'^\{\s*"(\w+)"(?::\{"code":"(\w+)")?', output)


def test_the_first_pages_work_on_the_service_of_make_run(tmp_path, port):
    with example(tmp_path, port) as process:
        lines_until(process, "Ctrl-C stops it.")
        shell = Shell(tmp_path, f"http://127.0.0.1:{port}")
        for page, command, printed in sessions():
            code, output = shell.run(command)
            assert (page, command, code) == (page, command, 0), output
            assert (page, command, answer(output)) == (page, command, answer(printed)), output
        # What the pages triggered by hand has succeeded, and the examples still do.
        triggered = httpx2.get(f"http://127.0.0.1:{port}/schedules/etl/runs", trust_env=False, timeout=60)
        assert {(run["status"], run["reason"]) for run in triggered.json()["runs"]} == {("SUCCESS", None)}
        lines_until(process, "demo-report success")


def test_the_banner_says_that_one_example_fails_on_purpose_and_how_to_see_why(tmp_path, port):
    with example(tmp_path, port) as process:
        banner = [line.rstrip() for line in lines_until(process, "Ctrl-C stops it.")]
        assert banner[-3:] == [
            "demo-failing fails on purpose, once a minute. To see why a run failed:",
            "  .venv/bin/dutiful schedules runs demo-failing",
            "Ctrl-C stops it. docs/guides/service.md goes on from here.",
        ]
        shell = Shell(tmp_path, f"http://127.0.0.1:{port}")
        # Its own minute is not waited for.
        assert shell.run("dutiful schedules trigger demo-failing")[0] == 0
        failed = lines_until(process, "demo-failing failed")[-1]
        assert failed.endswith(", task_failed, RuntimeError: the supplier's server is down\n")
        shown = [line.strip().removeprefix(".venv/bin/") for line in banner if line.startswith("  ")]
        answers = [shell.run(command) for command in shown]
        assert [code for code, _ in answers] == [0] * 7
        _, _, _, status, _, _, reason, *why = answers[-1][1].splitlines()[1].split()
        assert (status, reason, " ".join(why)) == (
            "FAILED",
            "task_failed",
            "RuntimeError: the supplier's server is down",
        )


def test_a_taken_port_is_reported_and_its_owner_left_alone(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUTIFUL_")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = {"DUTIFUL_PORT": str(taken.getsockname()[1]), "DUTIFUL_STORE": f"sqlite:{tmp_path}/example.db"}
        command = [sys.executable, str(ROOT / "examples/service.py")]
        done = subprocess.run(command, env=kept | own, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Address already in use" in done.stderr
        taken.setblocking(False)
        with pytest.raises(BlockingIOError):
            taken.accept()
