"""The root of the command line: its help, and what it says where a package is missing."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from dutiful.cli.main import COMMANDS, cli

# Runs the command line with some packages hidden, then names the modules of dutiful.cli that were imported.
HIDING = """
import sys

sys.modules.update(dict.fromkeys(filter(None, sys.argv[1].split(","))))
from dutiful.cli.main import cli
try:
    cli(sys.argv[2:], prog_name="dutiful")
finally:
    print(*sorted(name for name in sys.modules if name.startswith("dutiful.cli.")))
"""


def run_without(packages, *arguments, cwd=None, **variables):
    command = [sys.executable, "-c", HIDING, packages, *arguments]
    env = {**os.environ, **variables}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def completed(packages, line):
    """Return what a shell offers at the end of a line, and what it would print into it."""
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_DUTIFUL_COMPLETE": "bash_complete"}
    done = run_without(packages, **asked)
    offered = [text for text in done.stdout.splitlines() if text.startswith("plain,")]
    return [text.removeprefix("plain,") for text in offered], done.stderr


def test_the_help_imports_no_command():
    done = run_without("", "--help")
    assert done.stdout.splitlines()[-1] == "dutiful.cli.main dutiful.cli.output"


def helps(command=cli, name="dutiful"):
    """Yield every command and group with its full name and its help."""
    context = click.Context(command, info_name=name)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            yield from helps(command.get_command(context, each), f"{name} {each}")


def test_every_help_has_an_example_that_calls_it():
    examples = {name: text.partition("Example")[2].split() for name, text in helps()}
    assert [name for name, words in examples.items() if name not in " ".join(words)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_repeats_the_summary_of_each_command(name):
    command = cli.get_command(click.Context(cli), name)
    assert COMMANDS[name].summary == command.get_short_help_str(1000)


@pytest.mark.parametrize(
    ("packages", "arguments", "needed"),
    [
        (
            "yaml",
            ["fleet", "validate"],
            'dutiful fleet needs yaml, which is not installed: pip install "dutiful[fleet]"',
        ),
        (
            "jwt",
            ["token", "--keys", "keys.json", "--new-key"],
            'dutiful token needs jwt, which is not installed: pip install "dutiful[service]"',
        ),
        (
            "uvicorn",
            ["serve"],
            'dutiful serve needs uvicorn, which is not installed: pip install "dutiful[service]"',
        ),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it(
    packages, arguments, needed, tmp_path
):
    done = run_without(packages, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"Error: {needed}\n")


def test_a_shell_completes_commands_and_stays_silent_where_an_extra_is_missing():
    assert completed("", "dutiful sc") == (["schedules"], "")
    assert completed("", "dutiful cron n") == (["next"], "")
    assert completed("yaml", "dutiful fleet s") == ([], "")


def test_a_module_that_a_users_own_module_lacks_is_not_blamed_on_an_extra(tmp_path):
    (tmp_path / "tasks.py").write_text("import yaml\n")
    done = run_without("yaml", "run", "tasks:REGISTRATIONS", cwd=tmp_path)
    assert done.returncode == 1
    assert "dutiful[" not in done.stderr


def test_a_summary_that_is_wider_than_the_terminal_is_wrapped_and_not_cut():
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=50).output
    assert "…" not in shown
    assert "..." not in shown.partition("Commands:")[2]
    assert " ".join(shown.split()).count(COMMANDS["worker"].summary) == 1
