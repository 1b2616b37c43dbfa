"""The right to lead a namespace: a lock that dies with its process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from weakref import WeakSet


class LeaderLock:
    """An advisory lock on a file beside the database. Only one holder, in any process, at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        _locks.add(self)

    def acquire(self) -> bool:
        """Return whether the lock is held now; never waits."""
        if self._file is None:
            self._file = self._locked()
        return self._file is not None

    def release(self) -> None:
        """Let another one have it."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _locked(self) -> int | None:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Somebody may have deleted the file and locked a new one of the same name.
            if os.path.samestat(os.fstat(file), os.stat(self._path)):
                return file
        os.close(file)
        return None


_locks: WeakSet[LeaderLock] = WeakSet()


def _let_go_in_child() -> None:
    # A child's copy would keep the lock alive after its parent; closing the copy does not release it.
    for lock in _locks:
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)
