"""`dutiful run` in a process of its own, with tasks that a test lets go one by one."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

TASKS = '''
import asyncio, os, signal, sys, time

async def quick():
    print("quick is here", flush=True)

async def held():
    """Works until the test writes a line."""
    print("held is here", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

async def forever():
    print("forever is here", flush=True)
    await asyncio.Event().wait()

async def blocking():
    print("blocking is here", flush=True)
    time.sleep(600)

async def ending():
    """Stops the process it is in."""
    os.kill(os.getpid(), signal.SIGTERM)

async def failing():
    raise TimeoutError("no answer")

QUICK = [("quick", "* * * * *", quick, 600)]
HELD = [("held", "* * * * *", held, 600)]
FOREVER = [("forever", "* * * * *", forever, 600)]
BLOCKING = [("blocking", "* * * * *", blocking, 600)]
MANY = [(f"task-{n}", "* * * * *", quick, 600) for n in range(100)]
MIXED = HELD + [("failing", "* * * * *", failing, 600), ("yearly", "0 0 1 1 *", quick, 60)]
ENDING = [("ending", "* * * * *", ending, 600)]
NOTHING = ()
MAPPING = {"quick": quick}
NEGATIVE = [*QUICK, ("late", "* * * * *", quick, -1)]
TWICE = QUICK + QUICK
SHORT = [("quick", "* * * * *", quick)]
MACRO = [("quick", "@daily", quick, 1)]

def made():
    return QUICK

async def made_later():
    return QUICK

def broken():
    return 1 / 0

class Box:
    tasks = HELD
'''


class Foreground:
    """A running command: its lines as they come, and its end."""

    def __init__(self, process):
        self.process, self.lines = process, []

    def until(self, text):
        """Read on until a line holds `text`; return the line."""
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return line.rstrip("\n")
        raise AssertionError(f"{text!r} never came: {self.lines} {self.process.stderr.read()}")

    def release(self):
        """Let the task `held` end."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Let go of whatever a new minute has started, and return the exit code and what went to stderr."""
        self.process.stdin.close()
        self.lines += self.process.stdout.read().splitlines()
        return self.process.wait(), self.process.stderr.read()

    def names(self):
        """Return "Name" or "Name task" of the events so far."""
        parts = [line.split(" ")[2:4] for line in self.lines if line[:2] == "20"]
        return [" ".join(part for part in pair if "=" not in part) for pair in parts]


def command(*arguments):
    return [sys.executable, "-m", "dutiful", *arguments]


@contextmanager
def foreground(folder, *arguments):
    """Run the command in `folder`, where the tasks are."""
    (folder / "tasks.py").write_text(TASKS)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("run", *arguments), cwd=folder, text=True, **pipes) as process:
        try:
            yield Foreground(process)
        finally:
            process.kill()
