"""A file of JSON lines of which each has the hash of the one before: what is changed or taken out shows."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import DutifulError, InvalidArgumentError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

# What the first line has in place of a hash.
BEGINNING = "0" * 64
_PREVIOUS = "prev"
_BLOCK = 65_536
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class AuditFileError(DutifulError):
    """A line is not what was written, or one is missing before it."""

    def __init__(self, path: str | Path, line: int, reason: str) -> None:
        message = f"{quoted(path, 4096)}, line {line}: {reason}"
        super().__init__(message, path=str(path), line=line, reason=reason)


class Verified(NamedTuple):
    """How many lines follow each other, the hash of the last, and the files that do not go on from others."""

    lines: int
    last: str
    beginnings: list[str]


class ChainedFile:
    """Lines are added by any number of processes; whoever moves the file away makes them begin a new one."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file = _opened(path)
        # Where this process left the file, and the hash of the line that ended there.
        self._end, self._last = 0, BEGINNING

    def append(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Write one line for each entry."""
        with self._locked():
            last, lines = self._last_hash(), list[bytes]()
            for entry in entries:
                lines.append(_ENCODER.encode({**entry, _PREVIOUS: last}).encode())
                last = _hash(lines[-1])
            _write(self._file, b"".join(line + b"\n" for line in lines))
            self._end, self._last = os.fstat(self._file).st_size, last

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        while not _is_at(self._file, self._path):
            # Moved away: all who had it open go on from its last line, which is written by now.
            self._last, moved = self._last_hash(), self._file
            self._file, self._end = _opened(self._path), 0
            os.close(moved)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _last_hash(self) -> str:
        size = os.fstat(self._file).st_size
        if size in (0, self._end):
            return self._last
        line, is_whole = _last_line(self._file, size)
        if not is_whole:
            # A crash cut it off; it stays there to be seen, on a line of its own.
            _write(self._file, b"\n")
        return _hash(line)


def verify(paths: Iterable[str | Path]) -> Verified:
    """Return what these files, the oldest first, add up to.

    Raises AuditFileError at the first break, InvalidArgumentError for a file that cannot be read.
    """
    count, last, beginnings = 0, BEGINNING, list[str]()
    for path in paths:
        for number, line in enumerate(_lines(path), 1):
            previous = _previous(path, number, line)
            if number == 1 and previous == BEGINNING:
                beginnings.append(str(path))
            elif count and previous != last:
                raise AuditFileError(path, number, "a line before it was changed, added or taken out")
            count, last = count + 1, _hash(line)
    return Verified(count, last, beginnings)


def _previous(path: str | Path, number: int, line: bytes) -> str:
    try:
        previous = json.loads(line)[_PREVIOUS]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise AuditFileError(path, number, "it is not a line of an audit log, or was cut off") from None
    return str(previous)


def _lines(path: str | Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            for line in file:
                yield line.removesuffix(b"\n")
    except OSError as error:
        raise InvalidArgumentError("file", str(path), f"cannot be read: {error.strerror}") from None


def _opened(path: str | Path) -> int:
    # Appended by the system itself, and its owner's alone.
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_at(file: int, path: str | Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _last_line(file: int, size: int) -> tuple[bytes, bool]:
    """Return the last line without its end, and whether it had one."""
    read = b""
    while len(read) < size and b"\n" not in read[:-1]:
        begin = max(0, size - len(read) - _BLOCK)
        read = os.pread(file, size - len(read) - begin, begin) + read
    return read.removesuffix(b"\n").rpartition(b"\n")[2], read.endswith(b"\n")


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
