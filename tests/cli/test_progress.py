"""Long work has a bar on the terminal of standard error; into a pipe none, and the output is the same."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.foreground import command
from tests.stores.notation import put, schedule
from tests.web.running import SCHEDULE, running

from dutiful.core.changes import Changes
from dutiful.stores.sqlite import SqliteStore
from dutiful.stores.transfer import CHUNK, copy

ROOT = Path(__file__).parents[2]
QUICK_SECTIONS = """
import sys
from benchmarks import __main__ as bench
from benchmarks.report import Row, Section

def section(name):
    return lambda: Section(name, (Row("item", 1.0, "s", {}),))

bench.SECTIONS = {"first": section("first"), "second": section("second")}
bench._machine = lambda: {"Python": "3"}
bench._measured = lambda name: bench.SECTIONS[name]()
sys.argv[1:] = []
sys.exit(bench.main())
"""


@contextmanager
def opened(path):
    store = SqliteStore(path)
    with asyncio.Runner() as runner:
        runner.run(store.open())
        yield store, runner.run
        runner.run(store.close())


def shown(arguments, **options):
    """Return the standard output of a command, and what it drew on the terminal of its standard error."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", 0) as screen:
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, check=True, **options)
        os.close(theirs)
        return done.stdout, screen.read(65_536).decode()


def piped(arguments, **options):
    done = subprocess.run(arguments, capture_output=True, check=True, **options)
    return done.stdout, done.stderr.decode()


def test_a_copy_tells_the_fraction_of_the_rows_that_are_written(tmp_path):
    told = []
    with opened(tmp_path / "a.db") as (source, run), opened(tmp_path / "b.db") as (target, _):
        run(source.apply(Changes([put(schedule(f"s{n}")) for n in range(CHUNK + 1)])))
        counts = run(copy(source, target, told.append))
    rows = sum(counts.values())
    texts = counts["texts"]
    assert [round(fraction * rows) for fraction in told] == [
        texts,
        texts + CHUNK,
        texts + CHUNK + 1,
        texts + 2 * CHUNK + 1,
        rows,
    ]


@pytest.mark.parametrize(
    ("asked", "label"), [(["check", "a"], "reading every schedule"), (["copy", "a", "b"], "copying rows")]
)
def test_the_store_commands_have_a_bar_on_a_terminal_only(tmp_path, asked, label):
    with opened(tmp_path / "a.db") as (store, run):
        run(store.apply(Changes([put(schedule("nightly"))])))
    name, *stores = asked
    arguments = command("store", name, *(f"sqlite:{tmp_path}/{each}.db" for each in stores))
    told, drawn = shown(arguments)
    (tmp_path / "b.db").unlink(missing_ok=True)
    assert label in drawn
    assert piped(arguments) == (told, "")


def test_many_schedules_are_stored_with_a_bar_on_a_terminal_only(tmp_path):
    file = tmp_path / "many.json"
    file.write_text(json.dumps([{**SCHEDULE, "schedule_id": f"s{n}"} for n in range(3)]))
    arguments = command("schedules", "upsert", str(file))
    with running(tmp_path) as service:
        service.put("/workflows/report/1", {})
        environ = {**os.environ, "DUTIFUL_URL": service.url, "DUTIFUL_TOKEN": ""}
        told, drawn = shown(arguments, env=environ)
        assert "storing schedules" in drawn
        assert piped(arguments, env=environ) == (told, "")


def test_the_benchmarks_say_on_a_terminal_which_section_is_measured():
    arguments = [sys.executable, "-c", QUICK_SECTIONS]
    told, drawn = shown(arguments, cwd=ROOT)
    assert [f"section {n} of 2: {name}" in drawn for n, name in ((1, "first"), (2, "second"))] == [True, True]
    assert ("  0 %" in drawn, " 50 %" in drawn) == (True, True)
    assert piped(arguments, cwd=ROOT) == (told, "")
