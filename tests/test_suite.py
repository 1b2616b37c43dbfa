"""The tests as a program: what they inherit, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run_tests(*names, **options):
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", *names]
    outside = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environ = outside | options.pop("env", {})
    pipes = {"capture_output": True, "text": True}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False, **pipes, **options)


def test_an_ignored_interrupt_is_not_handed_on_to_the_programs_under_test():
    done = run_tests(
        "tests/cli/test_fleet.py::test_watch_keeps_looking_until_it_is_interrupted",
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
        timeout=100,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("outcome", "left"), [("pass", 0), ("assert False", 1)])
def test_a_run_leaves_its_files_only_where_it_failed(outcome, left, tmp_path):
    (tmp_path / "conftest.py").write_text("from tests.temporary_folder import *\n")
    (tmp_path / "test_it.py").write_text(
        f"import tempfile\ndef test_it(tmp_path):\n    tempfile.mkdtemp()\n    {outcome}\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run_tests("--rootdir", tmp_path, tmp_path / "test_it.py", env={"TMPDIR": str(temporary)})
    assert len([*temporary.iterdir()]) == left
