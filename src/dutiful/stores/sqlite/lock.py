"""The leader lock of a namespace, which ends with its process or its event loop."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from dutiful.core.errors import StoreError
from dutiful.runtime.ports import Leader

if TYPE_CHECKING:
    import asyncio


class LeaderLock:
    """An advisory lock on a file beside the database. Only one holder, in any process, at a time.

    The file names the process that holds it and since when; its modification time is the holder's heartbeat.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        _locks.add(self)

    def acquire(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Try to take the lock without waiting; return whether it is held.

        The lock ends when `loop` is closed.
        """
        if self._file is None:
            self._release_abandoned()
            self._file, self.loop = self._locked(), loop
        return self._file is not None

    def release(self) -> None:
        """Release the lock for other holders."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def beat(self) -> None:
        """Update the heartbeat of the holder."""
        if self._file is not None:
            os.utime(self._file)

    def holder(self) -> Leader | None:
        """Return the holder of the lock; None where it is free or the file cannot be read."""
        try:
            with open(self.path, "rb") as file:
                if not _is_locked(file.fileno()):
                    return None
                pid, since = map(int, file.read(64).split())
                return Leader(pid, since, os.fstat(file.fileno()).st_mtime_ns // 1_000_000)
        except (OSError, ValueError):
            return None

    def _release_abandoned(self) -> None:
        """Release locks on this path whose event loop was closed without releasing them."""
        for lock in list(_locks):
            if lock.path == self.path and lock.loop is not None and lock.loop.is_closed():
                lock.release()

    def _locked(self) -> int | None:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            problem = f"The lock file {self.path} cannot be opened by this user"
            raise StoreError(problem, "run as its owner, or delete it", path=self.path) from error
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The file may have been deleted, and another process may hold a new file of the same name.
            if os.path.samestat(os.fstat(file), os.stat(self.path)):
                _sign(file)
                return file
        os.close(file)
        return None


def _sign(file: int) -> None:
    """Write this process and the time to the lock file; the time comes from the file system."""
    os.utime(file)
    since = os.fstat(file).st_mtime_ns // 1_000_000
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()} {since}\n".encode(), 0)


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


_locks: WeakSet[LeaderLock] = WeakSet()


def _let_go_in_child() -> None:
    # The child's copy of the descriptor would keep the lock after the parent's end. Closing the copy is safe.
    for lock in _locks:
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)
