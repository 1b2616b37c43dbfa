"""The output of commands in bounded files, and `OutputFolder`, which has one file for each run of a service.

When a file is half full it is renamed to `….log.old`, replacing an earlier half, so that the end of the
output is always there. On a full or read-only disk the output is lost, never the command.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

LEFT_OUT = b"[earlier output was left out]\n"
# Bytes of an output that are shown at a time by default.
SHOWN_BYTES = 65_536
# A folder keeps at most this many outputs of this many bytes. Old outputs are deleted after so many new ones.
_OUTPUTS_MAX, _BYTES_MAX, _LOOK_EVERY = 1000, 1024 * 1024, 50


class Shown(NamedTuple):
    """An output for display: without control characters, and only the end of a long one."""

    output: str
    truncated: bool


def shown(kept: bytes, limit: int = SHOWN_BYTES) -> Shown:
    """Return the last `limit` bytes of an output as text; HTML pages must still escape it."""
    text = printable(kept[-limit:].decode("utf-8", "replace"))
    return Shown(text, len(kept) > limit or kept.startswith(LEFT_OUT))


def printable(text: str) -> str:
    """Return a text without terminal control characters; line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def kept_in(path: Path) -> bytes:
    """Return the content of a log: its earlier half and its later one."""
    parts = []
    for half in (older_half(path), path):
        with suppress(OSError):
            parts.append(half.read_bytes())
    return b"".join(parts)


def older_half(path: Path) -> Path:
    """Return the path of the earlier half of a log."""
    return path.with_name(path.name + ".old")


class OutputFolder:
    """The outputs of the latest runs, each in a file named by a hash of the run's key."""

    def __init__(self, folder: Path, outputs: int = _OUTPUTS_MAX) -> None:
        self._folder, self._outputs, self._begun = folder, outputs, 0

    def flaw(self) -> str | None:
        """Return why no output can be kept in the folder, which is made if it is missing; else None."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            return f"is no folder, and cannot be made one: {error.strerror}"
        return None if os.access(self._folder, os.W_OK | os.X_OK) else "no file can be made in this folder"

    def open(self, key: str) -> OutputLog | None:
        """Return the log of a run, which its attempts share, or None if it cannot be written."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._begun % _LOOK_EVERY == 0:
                self._drop_oldest()
            self._begun += 1
            return OutputLog(self._path(key), _BYTES_MAX // 2)
        except OSError:
            return None

    def read(self, key: str) -> Shown | None:
        """Return the output of a run, or None if none is stored here."""
        path = self._path(key)
        return shown(kept_in(path)) if path.exists() else None

    def _path(self, key: str) -> Path:
        # A caller may choose any text as a key; its hash is a safe file name.
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.log"

    def _drop_oldest(self) -> None:
        logs = sorted(self._folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        for path in logs[: max(0, len(logs) - self._outputs)]:
            older_half(path).unlink(missing_ok=True)
            path.unlink(missing_ok=True)


class OutputLog:
    """The open log of one run."""

    def __init__(self, path: Path, half: int) -> None:
        self._path, self._half = path, half
        self._file = self._opened()
        self._ends_line = True

    def _opened(self) -> IO[bytes]:
        return open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")

    def write(self, chunk: bytes) -> None:
        """Append output, after making room for it."""
        with suppress(OSError, ValueError):
            chunk = chunk[-self._half :]
            if self._file.tell() + len(chunk) > self._half:
                self._make_room()
            self._file.write(chunk)
            self._file.flush()
        self._ends_line = chunk.endswith(b"\n")

    def note(self, line: bytes) -> None:
        """Append a line of this program; an unfinished last line of the output is ended first."""
        self.write((b"" if self._ends_line else b"\n") + line + b"\n")

    def _make_room(self) -> None:
        older, again = older_half(self._path), older_half(self._path).exists()
        self._file.close()
        self._path.replace(older)
        self._file = self._opened()
        if again:
            _mark(older)

    def close(self) -> None:
        """Close the log."""
        with suppress(OSError):
            self._file.close()


def _mark(older: Path) -> None:
    """Put a line in front that says that the beginning of the output was left out.

    The file is replaced, not changed: a reader that follows the output has it open, and goes on at its place.
    """
    kept, fresh = older.read_bytes(), older.with_name(f"{older.name}.new")
    try:
        fresh.touch(0o600)
        fresh.write_bytes(LEFT_OUT + kept.partition(b"\n")[2])
        fresh.replace(older)
    except OSError:
        # On a full disk the output stays without the mark.
        fresh.unlink(missing_ok=True)
