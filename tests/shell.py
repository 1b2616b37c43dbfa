"""How the commands that the documentation shows are run: by sh, against a service of the test's."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

# The address at which the documentation says the service is.
ADDRESS = "127.0.0.1:8787"
CURL = Path(__file__).with_name("curl.py")


class Shell:
    """Runs commands in a folder, with this dutiful, this Python and, where there is none, some curl."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        programs = {"dutiful": f"{sys.executable} -m dutiful", "python3": sys.executable}
        if shutil.which("curl") is None:
            programs["curl"] = f"{sys.executable} {CURL}"
        self._bin = folder / "bin"
        self._bin.mkdir()
        for name, command in programs.items():
            (self._bin / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (self._bin / name).chmod(stat.S_IRWXU)

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit code and everything that was printed, with the documentation's address."""
        own = self._url.removeprefix("http://")
        direct = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        environ = os.environ | direct | {"PATH": path, "DUTIFUL_URL": self._url}
        real = ["sh", "-c", command.replace(ADDRESS, own)]
        done = subprocess.run(
            real, cwd=self._folder, env=environ, capture_output=True, text=True, check=False
        )
        return done.returncode, (done.stdout + done.stderr).replace(own, ADDRESS)
