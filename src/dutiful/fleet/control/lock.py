"""The lock of a fleet file: which process runs the fleet of this file, and where it keeps its state.

The lock lies beside the fleet file (`.fleet.yaml.lock`), so that commands find the running fleet whatever the
file says at the moment: it may be broken, or name another state directory than the fleet was started with.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path

from dutiful.core.errors import SchedulerError


class FleetLock:
    """The lock that a running fleet holds on its file."""

    def __init__(self, fleet_file: Path, state_dir: Path) -> None:
        self._path, self._fleet_file, self._state_dir = _path_of(fleet_file), fleet_file, state_dir
        self._held: int | None = None

    def hold(self) -> None:
        """Take the lock. Raises SchedulerError while another process has it.

        In a directory that cannot be written there is no lock: the store's lock still keeps a second process
        out, and commands look for the fleet in the state directory that the file names.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            advice = "stop it with `dutiful fleet stop`, or use another file"
            raise SchedulerError(
                f"Another process already runs the fleet of {self._fleet_file}; {advice}"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "state_dir": str(self._state_dir)}).encode())
        self._held = descriptor

    def release(self) -> None:
        """Let go of the lock."""
        if self._held is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._held)
            self._held = None


def running_state_dir(fleet_file: Path) -> Path | None:
    """Return the state directory of the process that runs the fleet of this file, or None if none does."""
    try:
        descriptor = os.open(_path_of(fleet_file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return Path(json.loads(os.read(descriptor, 65_536))["state_dir"])
    finally:
        os.close(descriptor)
    return None


def _path_of(fleet_file: Path) -> Path:
    # One lock for all names of a file that is a symlink.
    real = Path(os.path.realpath(fleet_file))
    return real.with_name(f".{real.name}.lock")
