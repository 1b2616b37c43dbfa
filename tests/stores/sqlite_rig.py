"""Running scenarios over a SQLite store, here and in other processes."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path

from tests.stores.notation import T0, declare, ending, pass_at, schedule

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


async def populate(store, count=300):
    await declare(store, *(schedule(f"s{n:03}") for n in range(count)))
    await store.lead("me")
    await run_all(store, T0, 1)


async def run_all(store, now, epoch):
    """Launch what is due and end it well."""
    launches = await pass_at(store, now, epoch)
    await store.settle([ending(launch, now) for launch in launches], epoch)


def edit(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def own_text(column, expression, id_="a"):
    """Return the statements that give one schedule a text of its own, whatever the others have."""
    return [
        f"INSERT INTO texts SELECT 1 + max(number), {expression} FROM texts",
        f"UPDATE declarations SET {column}_number = (SELECT max(number) FROM texts) WHERE id = '{id_}'",
    ]


async def found_damaged(store):
    """Look at every row, and return those that cannot be read."""
    await store.every()
    return await store.damaged()


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
        try:
            yield running
        finally:
            running.kill()


def say(running, line=""):
    running.stdin.write(f"{line}\n")
    running.stdin.flush()
