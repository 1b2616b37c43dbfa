"""The output of jobs, kept in one file per run under `logs/AGENT/SCHEDULE/` of the state directory.

A file is named NUMBER.RUN_AT.KIND.log: the number counts the runs of the schedule, and the rest is the key of
the run in the history. Each file is bounded: when it is half full it becomes `….log.old`, in place of an
earlier half, so that the end of the output is always there. The oldest files go when there are too many.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dutiful.core.cadence import Instant

FOLDER = "logs"
_FILE = re.compile(r"([0-9]+)\.([0-9]+)\.(schedule|manual)\.log")
LEFT_OUT = b"[earlier output was left out]\n"
# Bytes of an output that are shown at a time, unless the caller asks for less or more.
SHOWN_BYTES = 65_536


class LogLimits(NamedTuple):
    """How many runs of a schedule keep their output, and how many bytes of each."""

    runs: int = 20
    bytes: int = 1024 * 1024


class RunLog(NamedTuple):
    """The stored output of one run; `number` counts the runs of its schedule."""

    number: int
    run_at: Instant
    kind: str
    path: Path

    def read(self) -> bytes:
        """Return the output as far as it was kept."""
        parts = []
        for path in (older_half(self.path), self.path):
            with suppress(OSError):
                parts.append(path.read_bytes())
        return b"".join(parts)


class Output(NamedTuple):
    """The output of a run as it may be shown: without control characters, of a long one the end."""

    number: int
    run_at: Instant
    kind: str
    text: str
    truncated: bool


def output_of(
    state_dir: Path, agent: str, schedule: str, number: int | None = None, limit: int = SHOWN_BYTES
) -> Output | None:
    """Return the output of a run, by default of the latest one, or None if there is none.

    At most the last `limit` bytes are returned. Characters that command a terminal are replaced; a page must
    escape the text for HTML as any other.
    """
    found = (log for log in logs_of(state_dir, agent, schedule) if number in (None, log.number))
    log = next(found, None)
    if log is None:
        return None
    kept = log.read()
    text = printable(kept[-limit:].decode("utf-8", "replace"))
    return Output(log.number, log.run_at, log.kind, text, len(kept) > limit or kept.startswith(LEFT_OUT))


def printable(text: str) -> str:
    """Return a text without the characters that command a terminal; lines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def older_half(path: Path) -> Path:
    """Return the path of the earlier half of a log."""
    return path.with_name(path.name + ".old")


def logs_of(state_dir: Path, agent: str, schedule: str) -> list[RunLog]:
    """Return the stored outputs of a schedule, the latest first."""
    return sorted(_logs_in(state_dir / FOLDER / agent / schedule), reverse=True)


def _logs_in(folder: Path) -> Iterator[RunLog]:
    with suppress(OSError):
        for path in folder.iterdir():
            if match := _FILE.fullmatch(path.name):
                yield RunLog(int(match[1]), int(match[2]), match[3], path)


class OutputLogs:
    """Writes the output of jobs. A disk that is full or read-only costs the output, never the job."""

    def __init__(self, state_dir: Path, limits: LogLimits) -> None:
        self._state_dir, self.limits = state_dir, limits

    def open(self, agent: str, schedule: str, run_at: Instant, kind: str) -> OutputLog | None:
        """Return the log of a run, which its retries share, or None if outputs are not kept."""
        if not self.limits.runs:
            return None
        folder = self._state_dir / FOLDER / agent / schedule
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            known = sorted(_logs_in(folder))
            own = next((log for log in known if (log.run_at, log.kind) == (run_at, kind)), None)
            if own is None:
                number = known[-1].number + 1 if known else 1
                own = RunLog(number, run_at, kind, folder / f"{number}.{run_at}.{kind}.log")
                for old in known[: max(0, len(known) + 1 - self.limits.runs)]:
                    older_half(old.path).unlink(missing_ok=True)
                    old.path.unlink(missing_ok=True)
            return OutputLog(own.path, self.limits.bytes // 2)
        except OSError:
            return None


class OutputLog:
    """The open log of one run."""

    def __init__(self, path: Path, half: int) -> None:
        self._path, self._half = path, half
        self._file = self._opened()

    def _opened(self) -> IO[bytes]:
        return open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")

    def write(self, chunk: bytes) -> None:
        """Append output, and make room for it first."""
        with suppress(OSError, ValueError):
            chunk = chunk[-self._half :]
            if self._file.tell() + len(chunk) > self._half:
                self._make_room()
            self._file.write(chunk)
            self._file.flush()

    def _make_room(self) -> None:
        older, again = older_half(self._path), older_half(self._path).exists()
        self._file.close()
        self._path.replace(older)
        if again:
            _mark(older)
        self._file = self._opened()

    def close(self) -> None:
        """Write no more."""
        with suppress(OSError):
            self._file.close()


def _mark(older: Path) -> None:
    """Put a line in front that says that the beginning of the output is gone."""
    kept = older.read_bytes()
    older.write_bytes(LEFT_OUT + kept.partition(b"\n")[2])
