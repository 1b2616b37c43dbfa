"""Files that are read again when they change: keys and certificates are replaced without a restart."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Generic, TypeVar

from dutiful.core.errors import DutifulError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Watched(Generic[T]):
    """What `read` makes of some files, as they are now."""

    def __init__(self, paths: tuple[str, ...], read: Callable[[], T]) -> None:
        """Read the files; raises what `read` raises."""
        self._paths, self._read = paths, read
        # Before the reading: what changes meanwhile is noticed the next time.
        self._stamps = [_stamp(path) for path in paths]
        self._value = read()

    def current(self) -> T:
        """Return the value. Files that changed and cannot be used are logged, and the last value stays."""
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
