"""Files that are reloaded when they change, so that keys and certificates rotate without a restart."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Generic, TypeVar

from dutiful.core.errors import DutifulError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class ReloadingFile(Generic[T]):
    """The value that `read` makes of some files, read again after they change."""

    def __init__(self, paths: tuple[str, ...], read: Callable[[], T]) -> None:
        """Read the files; raises the errors of `read`."""
        self._paths, self._read = paths, read
        # Taken before reading: a change during the reading is noticed at the next call.
        self._stamps = [_stamp(path) for path in paths]
        self._value = read()

    def current(self) -> T:
        """Return the value. A changed file that cannot be used is logged, and the last value stays."""
        stamps = [_stamp(path) for path in self._paths]
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._value = self._read()
            except DutifulError as error:
                message = "%s; what was read before stays in force"
                logging.getLogger("dutiful").error(message, error)  # noqa: TRY400 - the trace says nothing
        return self._value


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
