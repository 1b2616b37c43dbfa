"""The pages for beginners, followed from the top as a reader does: each block is saved, typed or started.

A program that runs until Ctrl-C stays in the reader's first terminal until the page starts the next one.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from tests.ports import port_without_listener
from tests.test_docs import ON_PATH, PAGES, ROOT, blocks, commands, run_python
from tests.test_wheel import uv

SAVED = re.compile(r"Save (?:this|it).*? as `([\w.-]+)`", re.DOTALL)
# What a program that runs until Ctrl-C prints when it does what the page is about.
RUNNING = {
    "make run": "Ctrl-C stops it.",
    "python library.py": "sending the report",
    "fleet start --file hello.yaml": "greeter/often: done after",
    "fleet start": "watcher/disk: done after",
    "dutiful serve": "dutiful answers at ",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_command_hides_in_a_block_that_nothing_runs(page):
    assert [
        block.line for block in blocks(page, "text") if re.search(r"^\$ ", block.text, re.MULTILINE)
    ] == []


def test_every_page_with_a_shell_is_followed_here():
    shown = {page.name for page in PAGES if [*blocks(page, "shell")]}
    assert shown == {"start.md", "start-fleet.md", "start-service.md", "install.md", "backup.md"}


class Reader:
    """Follows a page in a folder that looks like a checkout."""

    def __init__(self, folder, **environ):
        self.folder, self.program = folder, None
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "build").mkdir()
        kept = {name: text for name, text in os.environ.items() if not name.startswith("DUTIFUL_")}
        self.environ = kept | {"PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1"} | environ

    def find_commands(self):
        self.environ["PATH"] = f"{self.folder}/.venv/bin{os.pathsep}{os.environ['PATH']}"

    def follow(self, name):
        """Do what the blocks of the page say, in order; yield each block when it is done."""
        page = ROOT / "docs" / name
        source = page.read_text(encoding="utf-8").splitlines()
        for block in blocks(page):
            before = "\n".join(source[: block.line - 1]).rpartition("```")[2]
            self.do(block, SAVED.findall(before))
            yield block

    def do(self, block, names):
        if names:
            (self.folder / names[-1]).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            # What sets a checkout up has been done: these tests run in one.
            if ON_PATH in block.text:
                self.find_commands()
            if block.text == "make run\n":
                self.start("make run")
        elif block.language in {"console", "shell-session", "shell"}:
            for command, printed in commands(block):
                self.type(command, printed)

    def type(self, command, printed):
        if any(part in command for part in RUNNING):
            self.start(command)
            return
        done = self.ran(command)
        # The clock may have taken the only place of the agent; do as the message says.
        while "wait for one to end" in done.stderr:
            done = self.ran(command)
        wanted = printed.startswith("Error: ")
        assert (command, bool(done.returncode)) == (command, wanted), done.stdout + done.stderr

    def ran(self, command):
        own = command.replace("127.0.0.1:8787", f"127.0.0.1:{self.environ.get('DUTIFUL_PORT')}")
        how = {"cwd": self.folder, "env": self.environ, "capture_output": True, "text": True}
        return subprocess.run(["sh", "-c", own], check=False, **how)

    def start(self, command):
        """Stop the program of the first terminal, start this one, and wait until it works."""
        self.interrupt()
        own = command.replace("make run", f"{sys.executable} {ROOT}/examples/service.py")
        # In place of the shell, so that the program gets the signal.
        own = re.sub(r"(\S*(?:python|dutiful)\S* )", r"exec \1", own, count=1)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.program = subprocess.Popen(["sh", "-c", own], cwd=self.folder, env=self.environ, **pipes)
        self.until(next(text for part, text in RUNNING.items() if part in command))

    def until(self, text):
        lines = []
        for line in self.program.stdout:
            lines.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} never came: {lines}")

    def interrupt(self):
        if self.program:
            self.program.send_signal(signal.SIGINT)
            self.program.communicate()
            assert self.program.returncode == 0
            self.program = None


@contextmanager
def reader(folder, **environ):
    """A reader, the time that the page took, and the end of what still runs."""
    one, began = Reader(folder, **environ), time.monotonic()
    try:
        yield one
        one.interrupt()
        assert time.monotonic() - began < 300
    finally:
        if one.program:
            one.program.kill()
            one.program.communicate()


def test_the_start_of_the_library_ends_with_a_report_sent_on_demand(tmp_path):
    with reader(tmp_path) as one:
        assert [*one.follow("start.md")]
        one.until("sending the report")


def test_the_start_of_the_fleet_ends_with_an_agent_of_your_own(tmp_path):
    with reader(tmp_path) as one:
        assert [*one.follow("start-fleet.md")]
        shown = one.ran("dutiful fleet logs greeter often --file hello.yaml")
        assert "hello from often" in shown.stdout.splitlines()


def test_the_start_of_the_service_ends_with_work_done_by_your_own_program(tmp_path):
    with port_without_listener() as port:
        own = {"DUTIFUL_PORT": str(port), "DUTIFUL_URL": f"http://127.0.0.1:{port}"}
        with reader(tmp_path, DUTIFUL_STORE=f"sqlite:{tmp_path}/build/example.db", **own) as one:
            assert [*one.follow("start-service.md")]
            while "hello got" not in (shown := one.ran("dutiful schedules runs hello --limit 1").stdout):
                one.until("hello")
            assert shown.splitlines()[1].split(maxsplit=6)[2:] == [
                "▮",
                "SUCCESS",
                "schedule",
                "1",
                'hello got {"nodes": ["hello"]}',
            ]


def test_the_wheel_is_built_and_installed_as_the_page_says(tmp_path):
    sessions = [commands(block) for block in blocks(ROOT / "docs/install.md", "shell")]
    ((build, printed), (install, _)) = itertools.chain(*sessions)
    for name in ("pyproject.toml", "README.md", "LICENSE", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    one = Reader(tmp_path)
    one.find_commands()
    assert printed in one.ran(build).stderr
    assert uv("venv", "--quiet", "--python", sys.executable, tmp_path / "own") == (0, "")
    # uv in place of pip, because it takes the packages from the cache that the set-up has filled.
    options = f"--offline --python {tmp_path}/own --constraint {ROOT}/requirements/dev.lock"
    own = install.replace("pip install", f"uv pip install {options}").replace("/path/to", str(tmp_path))
    one.type(own, "")
    one.type("own/bin/dutiful schedules --help", "")


@pytest.mark.parametrize("postgres_port", ["newest"], indirect=True)
def test_a_copy_is_made_looked_over_and_moved_as_the_page_says(tmp_path, postgres_url, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, one = ROOT / "docs/guides/backup.md", Reader(tmp_path)
    one.find_commands()
    run_python(page)
    for command, printed in itertools.chain(*[commands(block) for block in blocks(page, "shell")]):
        done = one.ran(re.sub(r"postgresql://\S+", f"'{postgres_url}'", command))
        assert (done.returncode, done.stdout) == (0, printed)
