"""The command as a process: how soon it starts, what it says without click, its exit codes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
from click.testing import CliRunner

from dutiful.cli.main import cli

NEXT = ["cron", "next", "0 9 * * *", "--from", "2026-01-01", "-n", "1"]
# What any command pays that uses click.
YARDSTICK = ("-c", "import click")
STARTS_MAX = 3


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return an environment in which bytecode is kept, outside the source tree."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}


def start(arguments, environment, *, program=("-m", "dutiful")):
    command = [sys.executable, *program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def processor_seconds_of_children():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def test_it_starts_and_answers_almost_as_soon_as_its_command_line_is_loaded(environment):
    assert start(NEXT, environment).returncode == 0

    # Processor time, because the wall clock also measures who else is running tests.
    def seconds(*program):
        begin = processor_seconds_of_children()
        start(NEXT, environment, program=program)
        return processor_seconds_of_children() - begin

    # In turns, so that a machine that becomes slower does so for both.
    both = [(seconds(*YARDSTICK), seconds("-m", "dutiful")) for _ in range(7)]
    yardstick, ours = map(min, zip(*both, strict=True))
    assert 0 < ours < STARTS_MAX * yardstick


LOADED = """
import sys
from dutiful.cli.main import cli
cli(sys.argv[1:], standalone_mode=False)
print(sorted({"asyncio", "logging", "socket", "sqlite3"} & {*sys.modules}), file=sys.stderr)
"""


def test_a_question_about_a_cron_loads_nothing_of_the_engine(environment):
    result = start(NEXT, environment, program=("-c", LOADED))
    assert (result.returncode, result.stderr) == (0, "[]\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (NEXT, 0),
        (["cron", "lint", "0 0 1 * 1"], 1),
        (["cron", "next", "0 25 * * *"], 2),
        (["cron", "next"], 2),
        (["crom"], 2),
        (["--version"], 0),
    ],
)
def test_the_exit_code_says_ok_something_wrong_or_bad_usage(arguments, code, environment):
    result = start(arguments, environment)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


WITHOUT_CLICK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "click":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from dutiful.__main__ import main
main()
"""


def test_without_click_it_says_what_to_install(environment):
    result = start(["cron"], environment, program=("-c", WITHOUT_CLICK))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == 'The dutiful command needs click: pip install "dutiful[cli]"\n'


def test_the_root_lists_its_groups_and_exit_codes():
    result = CliRunner().invoke(cli, ["--help"])
    assert result.exit_code == 0
    assert "Exit codes: 0 ok, 1 something wrong was found, 2 bad usage." in result.stdout
    assert "Ask a cron text when it fires" in result.stdout
