"""Running scenarios over a SQLite store, here and in other processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

from dutiful.stores.sqlite import SqliteStore

ROOT = Path(__file__).resolve().parents[2]


def with_store(path, scenario, **settings):
    """Run a scenario over an open store and close it."""

    async def run():
        store = SqliteStore(path, **settings)
        await store.open()
        try:
            return await scenario(store)
        finally:
            await store.close()

    return asyncio.run(run())


def command(script, *arguments):
    return [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)]


def run_script(script, *arguments):
    """Return the lines that a script prints in a process of its own."""
    done = subprocess.run(command(script, *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def process(script, *arguments):
    """Keep a script running in a process of its own, to be spoken to line by line."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(script, *arguments), cwd=ROOT, **pipes) as running:
        yield running
        running.kill()


def say(running, line=""):
    running.stdin.write(f"{line}\n")
    running.stdin.flush()
