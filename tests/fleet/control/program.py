"""A fleet as a program: `dutiful fleet start` in a process of its own, and the command line to ask it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

from click.testing import CliRunner

from dutiful.cli.main import cli


class Started:
    """A running `dutiful fleet start`: its lines as they come, and its end."""

    def __init__(self, folder, process):
        self.folder, self.process, self.lines = folder, process, []
        self._unread = []

    def until(self, *texts):
        """Read on until every one of the texts has been seen in a line; return the last line."""
        missing = {*texts}
        for line in self._coming():
            missing -= {text for text in missing if text in line}
            if not missing:
                return line
        raise AssertionError(f"{missing} never came: {self.lines} {self.process.stderr.read()}")

    def read_again(self):
        """Read from the first line on: the first pass is made before the fleet says that it has started."""
        self._unread = [*self.lines]

    def _coming(self):
        while self._unread:
            yield self._unread.pop(0)
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            yield self.lines[-1]

    def ask(self, *arguments):
        """Return the JSON that a command prints about this fleet."""
        return asked(self.folder, *arguments)

    def stop(self, number=signal.SIGTERM):
        """Send a signal; return the exit code and what was written to standard error."""
        self.process.send_signal(number)
        return self.end()

    def end(self):
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait(), self.process.stderr.read()


@contextmanager
def started(folder, *options):
    """Run the fleet in `folder`; when the block is left, the process is gone and its jobs with it."""
    command = [sys.executable, "-m", "dutiful", "fleet", "start", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, text=True, env=environment, **pipes) as process:
        try:
            fleet = Started(folder, process)
            fleet.until("started: ")
            fleet.read_again()
            yield fleet
        finally:
            process.kill()


def command(folder, *arguments, columns=80, file="fleet.yaml"):
    """Return the exit code and the output of a fleet command, on a terminal of so many columns."""
    words = ["fleet", *arguments, "--file", str(folder / file)]
    if arguments[0] == "start":
        # It takes over the process that it is in.
        line = [sys.executable, "-m", "dutiful", *words]
        ended = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return ended.returncode, ended.stdout
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def asked(folder, *arguments):
    code, output = command(folder, *arguments, "--json")
    assert code == 0, output
    return json.loads(output)


def put_fleet(folder, text, name="fleet.yaml"):
    """Replace the file as an editor does, at once."""
    fresh = folder / f"{name}.new"
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(folder / name)


class Pids:
    """A pipe into which jobs write their process numbers."""

    def __init__(self, folder):
        self.path = folder / "pids"
        os.mkfifo(self.path)
        # Open for both, so that it has no end between two writers.
        self._file = open(os.open(self.path, os.O_RDWR), encoding="ascii")  # noqa: SIM115

    def next(self):
        return int(self._file.readline())

    def close(self):
        self._file.close()
