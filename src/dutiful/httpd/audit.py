"""The audit log: the caller, request and result of every change; one JSON object per line, append-only."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from contextlib import contextmanager, suppress
from copy import deepcopy
from datetime import UTC
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from dutiful.core.cron.zone import rfc_3339
from dutiful.core.errors import DutifulError, InvalidArgumentError, quoted
from dutiful.httpd.errors import AuditUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from dutiful.runtime.ports import Clock


logger = logging.getLogger("dutiful.audit")


class AuditLog:
    """Changes as log records of `dutiful.audit`, and as lines of a file if one is named.

    The file has a line of phase `asked` before a change, and one of phase `done` after it. Both have the same
    `request`. A change without a line `done` was refused, or a crash came between.
    """

    def __init__(self, clock: Clock, path: str | Path | None = None) -> None:
        """Open the file; raises InvalidArgumentError where it cannot be opened."""
        self._clock = clock
        self._file = None if path is None else ChainedFile(path)
        self._watch = None if path is None else ChainWatch(path, clock)

    def intend(self, request: str, who: str, action: str, what: Iterable[Mapping[str, Any]]) -> None:
        """Record a change before it is made, one line for each thing that changes.

        Raises AuditUnavailableError where the file cannot be written: the change must not be made then.
        """
        if self._file is not None:
            try:
                self._file.append(self._entries(request, who, action, "asked", what))
            except OSError as error:
                logger.error("the audit log cannot be written: %s", error)  # noqa: TRY400 - no bug of ours
                raise AuditUnavailableError from None

    def record(self, request: str, who: str, action: str, **what: Any) -> None:
        """Record a change that was made. A failure is only logged: the file already has the line `asked`."""
        [entry] = self._entries(request, who, action, "done", [what])
        ids = what.get("schedule_ids")
        subject = f"{len(ids)} schedules" if ids else what.get("schedule_id") or what.get("workflow_id") or ""
        logger.info("%s: %s %s", who, action, subject, extra={"audit": entry})
        if self._file is not None:
            try:
                self._file.append([entry])
            except OSError as error:
                logger.error("the audit log lacks a line: %s", error, extra={"audit": entry})  # noqa: TRY400

    def _entries(
        self, request: str, who: str, action: str, phase: str, what: Iterable[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        at = rfc_3339(self._clock.now().astimezone(UTC))
        common = {"at": at, "who": who, "action": action, "phase": phase, "request": request}
        return [{**common, **each} for each in what]

    def verified(self) -> Verified | None:
        """Return the chain of the file, None without one; raises as `ChainWatch.verified` does."""
        return None if self._watch is None else self._watch.verified()

    def verified_now(self, most: int | None = None) -> Verified | None:
        """Return the chain of the file, None without one; else as `ChainWatch.verified_now`."""
        return None if self._watch is None else self._watch.verified_now(most)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


# The previous hash of a log's first line.
BEGINNING = "0" * 64
_PREVIOUS = "prev"
_TORN, _AFTER = "torn", "after"
_BLOCK = 65_536
_WHOLE_EVERY_S = 3600
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class AuditFileError(DutifulError):
    """A line was changed, or a line before it is missing."""

    def __init__(self, path: str | Path, line: int, reason: str) -> None:
        message = f"{quoted(path, 4096)}, line {line}: {reason}"
        super().__init__(message, path=str(path), line=line, reason=reason)


class TornRecordError(AuditFileError):
    """The last record of a file was cut off while it was written; all lines before it are intact."""

    def __init__(self, path: str | Path, line: int, size: int) -> None:
        reason = (
            f"the record was cut off after {size} bytes, by a crash or a full disk; all before it is whole."
            " `dutiful audit --repair` marks it, and so does the service when it writes the next line"
        )
        super().__init__(path, line, reason)


class TornRecord(NamedTuple):
    """A record that was cut off and is marked as such."""

    path: str
    line: int
    size: int


class Verified(NamedTuple):
    """The number of chained lines, the hash of the last one, and the places where the chain starts or was
    torn.

    `beginnings` are the files that do not continue another file.
    """

    lines: int
    last: str
    beginnings: list[str]
    torn: list[TornRecord]


class ChainedFile:
    """A log to which any number of processes append; after the file is moved away they begin a new one."""

    def __init__(self, path: str | Path) -> None:
        """Open or create the file; raises InvalidArgumentError where that is not possible."""
        self._path = path
        try:
            self._file = _opened(path)
        except OSError as error:
            raise InvalidArgumentError(
                "audit log", str(path), f"cannot be opened: {error.strerror}"
            ) from None
        # The size of the file and the hash of its last line, as of the last write of this process.
        self._end, self._last = 0, BEGINNING

    def append(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Write one line for each entry, all or none; raises OSError."""
        with self._locked():
            last, lines = self._last_hash(), list[bytes]()
            for entry in entries:
                lines.append(_ENCODER.encode({**entry, _PREVIOUS: last}).encode())
                last = _hash(lines[-1])
            self._write(b"".join(line + b"\n" for line in lines), last)

    def mend(self) -> int:
        """Mark a torn record at the end of the file, and return its size; 0 where there is none."""
        with self._locked():
            size = os.fstat(self._file).st_size
            _, torn = _tail(self._file, size)
            self._last_hash()
            return len(torn)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        while not _is_at(self._file, self._path):
            # The file was moved away. Every process continues the chain from its last line, which is complete
            # by now.
            self._last, moved = self._last_hash(), self._file
            self._file, self._end = _opened(self._path), 0
            os.close(moved)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _last_hash(self) -> str:
        """Return the hash of the last line, after marking a torn record."""
        size = os.fstat(self._file).st_size
        if size in (0, self._end):
            return self._last
        line, torn = _tail(self._file, size)
        after = self._last if line is None else _hash(line)
        if torn and _is_whole(torn):
            # Only the line end is missing, so the record is whole.
            self._write(b"\n", _hash(torn))
        elif torn:
            mark = _ENCODER.encode({_TORN: len(torn), _AFTER: after, _PREVIOUS: _hash(torn)}).encode()
            self._write(b"\n" + mark + b"\n", _hash(mark))
        else:
            self._end, self._last = size, after
        return self._last

    def _write(self, content: bytes, last: str) -> None:
        """Append all of the content or nothing; its last line has the hash `last`."""
        size = os.fstat(self._file).st_size
        try:
            while content:
                content = content[os.write(self._file, content) :]
        except BaseException:
            # A full disk may have taken a part of the content: remove that part.
            with suppress(OSError):
                os.ftruncate(self._file, size)
            raise
        self._end, self._last = os.fstat(self._file).st_size, last


def verify(paths: Iterable[str | Path]) -> Verified:
    """Return the verified chain of these files, oldest first.

    Raises AuditFileError at the first break, TornRecordError where only the last record of a file was cut
    off, InvalidArgumentError for a file that cannot be read.
    """
    chain = _Chain()
    for path in paths:
        with _open(path) as file:
            chain.read(path, file)
    return Verified(chain.count, chain.last, chain.beginnings, chain.torn)


class ChainWatch:
    """Verifies one file again and again: its new lines each time, and the whole file once an hour.

    A line that is changed after it was verified is found within that hour.
    """

    def __init__(self, path: str | Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._whole_again, self._seen = 0.0, _Seen(_Chain())
        # One thread reads the file at a time; a thread that waited then reads only the newest lines.
        self._turn = Lock()

    def verified(self) -> Verified:
        """Return the verified chain, after other threads; raises as `verify` does."""
        with self._turn, _open(self._path) as file:
            return self._verify(file)

    def verified_now(self, most: int | None = None) -> Verified | None:
        """Return the verified chain without waiting; raises as `verify` does.

        None while another thread verifies the file, and where more than `most` bytes would have to be read.
        """
        if not self._turn.acquire(blocking=False):
            return None
        try:
            with _open(self._path) as file:
                is_long = most is not None and self._unverified(os.fstat(file.fileno())) > most
                return None if is_long else self._verify(file)
        finally:
            self._turn.release()

    def _verify(self, file: IO[bytes]) -> Verified:
        found, seen = os.fstat(file.fileno()), self._seen
        if not self._continues(found):
            seen, self._whole_again = _Seen(_Chain()), self._clock.monotonic() + _WHOLE_EVERY_S
        file.seek(seen.end)
        chain = deepcopy(seen.chain)
        lines = chain.read(self._path, file, seen.lines)
        self._seen = _Seen(chain, lines, file.tell(), found.st_ino)
        return Verified(chain.count, chain.last, chain.beginnings, chain.torn)

    def _unverified(self, found: os.stat_result) -> int:
        """Return how many bytes are to be read."""
        return found.st_size - (self._seen.end if self._continues(found) else 0)

    def _continues(self, found: os.stat_result) -> bool:
        """Return whether the file still begins with its verified part."""
        is_same = self._seen.inode == found.st_ino and self._seen.end <= found.st_size
        return is_same and self._clock.monotonic() < self._whole_again


class _Seen(NamedTuple):
    """The part of a file that is verified: its chain, its lines and its end."""

    chain: _Chain
    lines: int = 0
    end: int = 0
    inode: int = -1


class _Chain:
    """The state of a verification: the lines read so far, and the hash that the next line must name."""

    def __init__(self) -> None:
        self.count, self.last = 0, BEGINNING
        self.beginnings: list[str] = []
        self.torn: list[TornRecord] = []

    def read(self, path: str | Path, lines: Iterable[bytes], taken: int = 0) -> int:
        """Add the lines of a file after the first `taken` ones; return the number of lines added so far."""
        # A line that is not a record may be a torn one; the line after it shows whether it is marked as such.
        cut: bytes | None = None
        number = taken
        for number, line in enumerate(lines, taken + 1):
            if cut is not None:
                self._take_mark(path, number, line.removesuffix(b"\n"), cut)
                cut = None
            elif _is_whole(line):
                self._take(path, number, line.removesuffix(b"\n"))
            elif line.endswith(b"\n"):
                cut = line.removesuffix(b"\n")
            else:
                raise TornRecordError(path, number, len(line))
        if cut is not None:
            raise AuditFileError(path, number, "it is no record of an audit log")
        return number

    def _take(self, path: str | Path, number: int, line: bytes) -> None:
        previous = json.loads(line)[_PREVIOUS]
        if number == 1 and previous == BEGINNING:
            self.beginnings.append(str(path))
        elif self.count and previous != self.last:
            raise AuditFileError(path, number, "a line before it was changed, added or taken out")
        self.count, self.last = self.count + 1, _hash(line)

    def _take_mark(self, path: str | Path, number: int, line: bytes, cut: bytes) -> None:
        mark = json.loads(line) if _is_whole(line) else {}
        if (mark.get(_TORN), mark.get(_PREVIOUS)) != (len(cut), _hash(cut)):
            raise AuditFileError(path, number - 1, "it is no record of an audit log")
        if self.count and mark.get(_AFTER) != self.last:
            raise AuditFileError(path, number - 1, "a line before it was changed, added or taken out")
        if number == 2 and mark.get(_AFTER) == BEGINNING:
            self.beginnings.append(str(path))
        self.torn.append(TornRecord(str(path), number - 1, len(cut)))
        self.count, self.last = self.count + 1, _hash(line)


def _is_whole(line: bytes) -> bool:
    """Return whether a line is a complete record."""
    try:
        return isinstance(json.loads(line)[_PREVIOUS], str)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


@contextmanager
def _open(path: str | Path) -> Iterator[IO[bytes]]:
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise InvalidArgumentError("file", str(path), f"cannot be read: {error.strerror}") from None


def _opened(path: str | Path) -> int:
    # O_APPEND: the system finds the end for every write. Only the owner may read the file.
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_at(file: int, path: str | Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _tail(file: int, size: int) -> tuple[bytes | None, bytes]:
    """Return the last complete line, None where there is none, and the bytes after it."""
    read = b""
    while len(read) < size and read.count(b"\n") < 2:
        begin = max(0, size - len(read) - _BLOCK)
        read = os.pread(file, size - len(read) - begin, begin) + read
    lines, end, torn = read.rpartition(b"\n")
    return (lines.rpartition(b"\n")[2] if end else None), torn


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()
