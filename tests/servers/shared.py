"""One server of each kind for a whole test run, shared by all xdist workers.

A worker that needs a server holds a shared lock on the file `users` of the server's folder for as long as it
runs. The first worker starts a keeper process, which starts the server and then waits for an exclusive lock
on the same file: the operating system grants the lock once the last worker is gone, even a killed one. The
keeper then ends the server by its process id and removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS: dict[str, Callable[[Path], program.Program]] = {
    "nats": program.nats,
    "valkey": program.valkey,
    "postgres-oldest": lambda folder: program.postgres(folder, "oldest"),
    "postgres-newest": lambda folder: program.postgres(folder, "newest"),
}
_ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def shared_server(kind: str) -> Iterator[int]:
    """Yield the port of this run's server of that kind; the first caller waits until it is started."""
    folder = _run_folder() / kind
    with _using(folder):
        yield int((folder / "port").read_text())


@contextlib.contextmanager
def _using(folder: Path) -> Iterator[None]:
    """Hold the server's folder in use; start the server if no other worker has."""
    with _locked(folder.with_name(f"{folder.name}.lock")):
        users = folder.with_name(f"{folder.name}.users").open("a")
        fcntl.flock(users, fcntl.LOCK_SH)
        if not (folder / "port").exists():
            folder.mkdir(mode=0o711, exist_ok=True)
            _start_keeper(folder)
    with users:
        yield


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file that is still in its folder: a keeper may have removed it."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            path.parent.mkdir(mode=0o711, exist_ok=True)
            with path.open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink:
                    yield
                    return


def _start_keeper(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.servers.shared", folder.name, str(folder)]
    keeper = subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    while not (folder / "port").exists():
        if keeper.poll() is not None:
            assert keeper.stderr is not None
            raise RuntimeError(f"no server {folder.name}: {keeper.stderr.read().decode()[-2000:]}")
        time.sleep(0.01)
    assert keeper.stderr is not None
    keeper.stderr.close()
    # The keeper outlives this process on purpose; a finished Popen object would otherwise warn about it.
    keeper.returncode = 0


def _run_folder() -> Path:
    """Return the folder of this test run, the same in all of its workers."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    return Path(tempfile.gettempdir()) / f"dutiful-servers-{run[:16]}"


def keep(kind: str, folder: Path) -> None:
    """Run the server until no worker uses it any more."""
    server = KINDS[kind](folder)
    server.start()
    try:
        written = folder / "port.new"
        written.write_text(str(server.port))
        written.rename(folder / "port")
        with (folder.parent / f"{kind}.users").open("a") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            (folder / "port").unlink()
            server.close()
            shutil.rmtree(folder, ignore_errors=True)
            _remove_if_last(folder)
    finally:
        server.close()


def _remove_if_last(folder: Path) -> None:
    """Remove the files of this kind and, after the last kind, the folder of the run."""
    with contextlib.suppress(OSError), folder.with_name(f"{folder.name}.lock").open("a") as starting:
        # A worker that holds this lock waits for `users`: waiting for the worker in turn would never end.
        fcntl.flock(starting, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.with_name(f"{folder.name}.users").unlink()
        folder.with_name(f"{folder.name}.lock").unlink()
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
