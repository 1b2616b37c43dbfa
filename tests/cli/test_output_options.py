"""--json, --csv and --color, which every command that reads has."""

from __future__ import annotations

import csv
import json
import os
import subprocess

import click
import pytest
from click.testing import CliRunner
from tests.cli.foreground import command

from dutiful.cli.main import cli
from dutiful.cli.output import print_csv

# Commands that change something, run until they are stopped, or print a text of their own.
OTHERS = {
    *("receiver run", "run", "serve", "worker", "token", "top"),
    *("cluster drain", "cluster rebalance", "store copy", "store migrate"),
    *("tasks run-now", "tasks cancel", "apply"),
    *(f"import {name}" for name in ("apscheduler", "celery", "crontab", "kubernetes")),
    *(f"fleet {name}" for name in ("init", "start", "stop", "run", "cancel", "enable", "disable")),
    *("schedules pause", "schedules resume", "schedules delete", "schedules trigger", "schedules backfill"),
    *("schedules cancel", "schedules upsert", "schedules picture"),
}


def every_command(group=cli, *names):
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from every_command(found, *names, name)
        else:
            yield " ".join((*names, name)), found


def run(*arguments):
    result = CliRunner().invoke(cli, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stdout


def test_every_command_that_reads_has_json_csv_and_color():
    lacking = {
        name: missing
        for name, found in every_command()
        if (missing := {"--json", "--csv", "--color"} - {one for p in found.params for one in p.opts})
    }
    assert {*lacking} == OTHERS


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["cron", "next", "30 2 * * *", "--from", "2026-03-07", "--count", "1"],
            [
                {
                    "at": "2026-03-07T02:30:00+00:00",
                    "utc": "2026-03-07T02:30:00Z",
                    "epoch": "1772850600",
                    "dst": "",
                }
            ],
        ),
        (["cron", "lint", "0 9 * * *", "--from", "2026-03-07"], []),
    ],
)
def test_csv_has_a_line_for_each_thing_in_the_json(arguments, lines):
    shown = run(*arguments, "--csv").splitlines()
    assert [*csv.DictReader(shown)] == lines
    listed = next(value for value in json.loads(run(*arguments, "--json")).values() if type(value) is list)
    assert len(listed) == len(lines)


def test_of_one_thing_csv_has_the_names_and_one_line():
    [found] = csv.DictReader(run("cron", "explain", "0 9 * * *", "--csv").splitlines())
    assert (found["expression"], found["description"]) == ("0 9 * * *", "At 09:00")


def test_no_text_of_the_csv_is_taken_for_a_formula(capsys):
    texts = ["=1+1", "+1", "-1", "@daily", "\tx", "plain", "a=b"]
    print_csv([{"text": text, "number": -1, "list": ["=1"]} for text in texts], ["text", "number", "list"])
    shown = [*csv.DictReader(capsys.readouterr().out.splitlines())]
    assert [line["text"] for line in shown] == ["'=1+1", "'+1", "'-1", "'@daily", "'\tx", "plain", "a=b"]
    assert {(line["number"], line["list"]) for line in shown} == {("-1", '["=1"]')}


@pytest.mark.parametrize(
    ("environ", "arguments", "is_coloured"),
    [
        ({}, [], False),
        ({}, ["--color", "always"], True),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
        ({}, ["--color", "never"], False),
    ],
)
def test_into_a_pipe_there_is_colour_only_where_it_is_asked_for(environ, arguments, is_coloured, tmp_path):
    environ = {"DUTIFUL_STORE": f"sqlite:{tmp_path}/none/a.db", **environ}
    shown = CliRunner().invoke(cli, ["doctor", *arguments], env=environ)
    assert ("\x1b[31mwrong" in shown.stdout) is is_coloured


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_on_a_terminal_there_is_colour_unless_no_color_is_set(no_color, is_coloured, tmp_path):
    ours, theirs = os.openpty()
    environ = {"DUTIFUL_STORE": f"sqlite:{tmp_path}/none/a.db", "NO_COLOR": no_color}
    subprocess.run(command("doctor"), stdout=theirs, env=os.environ | environ, check=False)
    os.close(theirs)
    screen = os.read(ours, 65_536).decode()
    os.close(ours)
    assert ("wrong" in screen, "\x1b[31mwrong" in screen) == (True, is_coloured)
