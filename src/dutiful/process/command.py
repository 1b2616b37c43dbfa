"""Commands as child processes: bounded in time and output, and never outliving this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


_WARDEN = str(Path(__file__).with_name("warden.py"))
_CHUNK = 65_536
_PROBLEM_LINES = 3
OUTPUT_LIMIT = 65_536
# Open files that one running command needs: three pipes, the lifeline, the watch for its end, and one spare
# while it starts.
DESCRIPTORS = 6
# Commands get the limit of open files that this process began with: some break, or crawl, under a higher one.
_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
# Seconds between asking a command to end and killing it.
GRACE = 5.0
# The warden ends last, unless it is killed. After its end the streams may stay open for this many seconds.
_LINGER = 1.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# One variable may be 128 KiB on Linux, its name included.
_VARIABLE_MAX = 100_000
# Most characters of the latest line reported during a run, and of a summary or an error.
_LINE_MAX, _SUMMARY_MAX = 1000, 500


class Exit(NamedTuple):
    """How a command ended. `code` is negative for a signal; the texts are the end of each stream."""

    code: int
    stdout: str
    stderr: str
    timed_out_after: float | None = None
    """The time limit in seconds, if the command reached it."""
    truncated: bool = False

    @property
    def summary(self) -> str | None:
        """Return the last printed line, or None."""
        return last_lines(self.stdout, 1)

    @property
    def problem(self) -> str | None:
        """Return the failure in one line, or None if the command succeeded."""
        if self.timed_out_after is not None:
            return f"timed out after {self.timed_out_after:g} s"
        if self.code == 0:
            return None
        how = f"exit code {self.code}" if self.code > 0 else f"killed by signal {-self.code}"
        # Many programs print errors on stdout only.
        said = last_lines(self.stderr, _PROBLEM_LINES) or last_lines(self.stdout, _PROBLEM_LINES)
        return f"{how}: {said}" if said else how


async def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    directory: str | None = None,
    time_limit: float | None = None,
    grace: float = GRACE,
    output_limit: int = OUTPUT_LIMIT,
    on_output: Callable[[str], None] | None = None,
    on_chunk: Callable[[bytes], None] | None = None,
) -> Exit:
    """Run `argv`, never through a shell, with exactly this environment, and return how it ended.

    After `time_limit` seconds, or when the caller is cancelled, the command is asked to end, and killed if it
    has not after `grace` seconds. Processes that it leaves running are killed when it ends, and all of them
    if this process is killed. A program that cannot be run ends with 127 and says why on stderr. `on_output`
    gets the latest line of either stream, `on_chunk` all bytes. Raises OSError if `directory` cannot be
    entered.
    """
    out, err = Tail(output_limit), Tail(output_limit)
    lifeline = _Lifeline()
    try:
        process = await _spawn(lifeline, argv, environment, directory)
    except BaseException:
        lifeline.close()
        raise
    talk = asyncio.gather(
        _feed(process, stdin),
        _pump(process.stdout, out, on_output, on_chunk),
        _pump(process.stderr, err, on_output, on_chunk),
        process.wait(),
    )
    talk.add_done_callback(_read_error)
    over = asyncio.ensure_future(_over(process, talk, lifeline))
    in_time = await _ended(over, time_limit, grace, lifeline)
    lifeline.cut()
    await over
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    texts = out.text(), err.text()
    return Exit(code, *texts, None if in_time else time_limit, bool(out.dropped or err.dropped))


def _read_error(talk: asyncio.Future[Any]) -> None:
    """Read the error of a talk that ended with the event loop; asyncio would log it as lost."""
    with contextlib.suppress(asyncio.CancelledError):
        talk.exception()


def allow_many_commands() -> None:
    """Raise the limit of open files of this process, but not of its commands, as far as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems accept less than the limit that they report.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Lifeline:
    """The socket to the warden: a byte asks the command to end, the end of the stream kills it."""

    def __init__(self) -> None:
        self._near, self.far = socket.socketpair()
        self._near.setblocking(False)
        self._command = b""

    def ask_to_end(self) -> None:
        with contextlib.suppress(OSError):
            self._near.send(b"T")

    def cut(self) -> None:
        with contextlib.suppress(OSError):
            self._near.shutdown(socket.SHUT_WR)

    async def gone(self) -> None:
        """Return when the warden has ended."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionResetError):
            while said := await loop.sock_recv(self._near, 64):
                self._command += said

    def kill_group(self) -> None:
        """Kill the process group of the command, as the warden would have done."""
        with contextlib.suppress(ValueError, ProcessLookupError, PermissionError):
            os.killpg(int(self._command), signal.SIGKILL)

    def close(self) -> None:
        self._near.close()
        self.far.close()


async def _over(process: asyncio.subprocess.Process, talk: asyncio.Future[Any], lifeline: _Lifeline) -> None:
    """Return when the warden has ended and both streams are read; they end with the last descendant."""
    try:
        await lifeline.gone()
        await asyncio.wait([talk], timeout=_LINGER)
        if not talk.done():
            # The warden was killed, and the processes that it guarded still run.
            lifeline.kill_group()
            await asyncio.wait([talk], timeout=_LINGER)
    finally:
        lifeline.close()
        if not talk.done():
            talk.cancel()
            process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way


async def _spawn(
    lifeline: _Lifeline, argv: Sequence[str], environment: Mapping[str, str], directory: str | None
) -> asyncio.subprocess.Process:
    pipe, far_end = asyncio.subprocess.PIPE, lifeline.far.fileno()
    facts = (str(far_end), str(os.getpid()), environment.get("LC_CTYPE", ""), str(_OPEN_FILES))
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", _WARDEN, *facts, *argv),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            cwd=directory,
            pass_fds=(far_end,),
            start_new_session=True,
            umask=0o077,
        )
    finally:
        lifeline.far.close()


async def _ended(
    over: asyncio.Future[Any], time_limit: float | None, grace: float, lifeline: _Lifeline
) -> bool:
    """Return whether the command ended by itself in time; otherwise ask it to end."""
    try:
        await asyncio.wait([over], timeout=time_limit)
    except asyncio.CancelledError:
        lifeline.ask_to_end()
        await asyncio.wait([over], timeout=grace)
        lifeline.cut()
        await asyncio.wait([over])
        raise
    if not over.done():
        lifeline.ask_to_end()
        await asyncio.wait([over], timeout=grace)
        return False
    return True


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    assert process.stdin is not None
    # A command need not read its input.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await process.stdin.wait_closed()


async def _pump(
    stream: asyncio.StreamReader | None,
    tail: Tail,
    on_output: Callable[[str], None] | None,
    on_chunk: Callable[[bytes], None] | None,
) -> None:
    assert stream is not None
    latest = LastLine()
    while chunk := await stream.read(_CHUNK):
        tail.add(chunk)
        if on_chunk is not None:
            # An error of the callback must not end the command.
            with contextlib.suppress(Exception):
                on_chunk(chunk)
        line = latest.add(chunk)
        if line is not None and on_output is not None:
            # An error of the callback must not end the command.
            with contextlib.suppress(Exception):
                on_output(line)


def environment_of(told: Mapping[str, str | None], inherited: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment of a command: PATH, LANG, HOME, the `inherited` and the `told` variables.

    PATH and LANG are fixed. A value that is None or too long for a variable is left out.
    """
    fixed = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": os.environ.get("HOME", "/")}
    passed_on = {name: os.environ[name] for name in inherited if name in os.environ}
    return fixed | passed_on | dict(_fitting(told))


def _fitting(told: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    for name, value in told.items():
        if value is not None and len(value.encode("utf-8", "replace")) <= _VARIABLE_MAX:
            # A value may come from a user; no variable can hold a NUL or half a character.
            yield name, value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def one_line(text: str) -> str | None:
    """Return the end of a text without control characters, or None if nothing is left."""
    shown = "".join(c if c.isprintable() else " " for c in text).strip()
    return shown[-_SUMMARY_MAX:] or None


def last_lines(output: str, count: int) -> str | None:
    """Return the last lines that are not blank, joined as one, or None if there are none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()][-count:]
    return one_line(" | ".join(lines))


class Tail:
    """Keeps the last `limit` bytes of a stream, and counts the dropped ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self.dropped = 0

    def add(self, chunk: bytes) -> None:
        """Add the next piece of the stream."""
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
        """Return the kept text, after a mark if earlier bytes were dropped."""
        kept = b"".join(self._chunks).decode("utf-8", "replace")
        return f"[{self.dropped} bytes left out]\n{kept}" if self.dropped else kept


class LastLine:
    """Finds the last complete line of a stream that comes in pieces; `\\r` ends a line too."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, chunk: bytes) -> str | None:
        """Add the next piece; return the last line that it completed and that is not blank."""
        *whole, rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[-_LINE_MAX:]
        for line in reversed(whole):
            if line.strip():
                return line.decode("utf-8", "replace").strip()[:_LINE_MAX]
        return None
