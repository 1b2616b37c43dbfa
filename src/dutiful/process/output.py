"""The end of what a command prints, however much that is."""

from __future__ import annotations

from collections import deque

# What is told of a line while the command runs; the whole of it is in the output.
_LINE_MAX = 1000
# What a summary or an error holds of all that was printed.
_SUMMARY_MAX = 500


def one_line(text: str) -> str | None:
    """Return the end of a text without control characters, or None if nothing is left."""
    shown = "".join(c if c.isprintable() else " " for c in text).strip()
    return shown[-_SUMMARY_MAX:] or None


def last_lines(output: str, count: int) -> str | None:
    """Return the last lines that are not blank, as one, or None if there are none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()][-count:]
    return one_line(" | ".join(lines))


class Tail:
    """Keeps the last `limit` bytes of a stream, and remembers that there were more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take the next piece of the stream."""
        self._chunks.append(chunk)
        self._kept += len(chunk)
        while self._kept > self._limit:
            surplus = self._kept - self._limit
            first = self._chunks.popleft()
            if len(first) > surplus:
                self._chunks.appendleft(first[surplus:])
            cut = min(surplus, len(first))
            self._kept -= cut
            self.dropped += cut

    def text(self) -> str:
        """Return what was kept, with a mark in front if that is not all."""
        kept = b"".join(self._chunks).decode("utf-8", "replace")
        return f"[{self.dropped} bytes left out]\n{kept}" if self.dropped else kept


class LastLine:
    """Finds the last whole line of a stream that comes in pieces; `\\r` ends a line too."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, chunk: bytes) -> str | None:
        """Take the next piece; return the last line that it completed and that is not blank."""
        *whole, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-_LINE_MAX:]
        for line in reversed(whole):
            if line.strip():
                return line.decode("utf-8", "replace").strip()[:_LINE_MAX]
        return None
