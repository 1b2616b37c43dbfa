"""Terminals and files that lack letters: every command prints what it can, and none ends over a letter."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess

import click
import pytest
from tests.cli.foreground import command

from dutiful.cli.output import state_cell
from dutiful.cli.stream_encoding import NarrowStream

FILE = """
[[schedules]]
id = "ночь"
cron = "0 9 * * *"
"""
SIMULATE = ("simulate", "file.toml", "--from", "2026-03-01", "--for", "1d")


def narrow(encoding):
    written = io.BytesIO()
    return NarrowStream(io.TextIOWrapper(written, encoding, write_through=True)), written


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "file.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def run(folder, encoding, *arguments):
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(command(*arguments), cwd=folder, env=environ, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", b"x failed  Gr\\xfc\\xdfe \\u0436 ab~\n"),
        ("latin-1", b"x failed  Gr\xfc\xdfe \\u0436 ab~\n"),
    ],
)
def test_shapes_are_ascii_and_letters_that_are_lacking_are_escapes(encoding, shown):
    stream, written = narrow(encoding)
    click.echo(f"{state_cell('failed')}  Grüße ж ab…", file=stream)
    assert written.getvalue() == shown


def test_on_a_terminal_a_letter_that_is_lacking_takes_one_column(folder):
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    with os.fdopen(ours, "rb", 0) as screen:
        subprocess.run(command(*SIMULATE), cwd=folder, env=environ, stdout=theirs, check=True)
        os.close(theirs)
        lines = screen.read(65_536).decode("ascii").splitlines()
    assert lines[-1].startswith("????      ")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_table_and_an_error_are_printed_whatever_their_letters(folder, encoding):
    table, refused = run(folder, encoding, *SIMULATE), run(folder, encoding, "cron", "next", "ж")
    assert (table.returncode, table.stderr) == (0, b"")
    assert rb"\u043d\u043e\u0447\u044c" in table.stdout
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr.startswith(rb'Error: Invalid cron expression "\u0436"')


def test_json_has_its_own_escapes(folder):
    told = run(folder, "ascii", *SIMULATE, "--json")
    assert told.stdout.isascii()
    assert [*json.loads(told.stdout)["schedules"]] == ["ночь"]
