"""One temporary folder per run of the tests, with everything in it that tests and examples leave."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

_FOLDERS = pytest.StashKey[tuple[str, str]]()
_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, for this process and for all that it starts."""
    if not hasattr(config, "workerinput"):
        # Short names: the path of a socket may have 107 bytes.
        usual, own = tempfile.gettempdir(), tempfile.mkdtemp(prefix="dt-")
        # PostgreSQL runs as another user, who must be able to pass.
        Path(own).chmod(0o711)
        config.stash[_FOLDERS] = usual, own
        _use(own)
        config.option.basetemp = config.option.basetemp or f"{own}/t"


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder after a run that passed; after any other, say where it is."""
    if _FOLDERS not in config.stash:
        return
    usual, own = config.stash[_FOLDERS]
    _use(usual)
    if config.stash.get(_PASSED, False):
        shutil.rmtree(own, ignore_errors=True)
    else:
        sys.stderr.write(f"The files of the tests are in {own}\n")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note whether all tests passed."""
    passed = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    session.config.stash[_PASSED] = passed


def _use(folder: str) -> None:
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
