"""The connection between commands and a running fleet: a lock beside its file, and a socket in its state.

The lock (`.fleet.yaml.lock`) names the process that runs the fleet of a file, and its state directory. The
file itself may be broken at the moment, or name another state directory than the fleet was started with.

The socket takes one JSON line and answers with one. It lies in the state directory, for its owner alone. The
process that serves it leads the fleet, so an existing socket file is a leftover and is removed.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import logging
import os
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.errors import DutifulError, SchedulerError, quoted
from dutiful.fleet.errors import FleetControlError, FleetNotRunningError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


_LOGGER = logging.getLogger("dutiful.fleet")
VERSION = 1
FILE_NAME = "control.sock"
# Enough for a long prompt, and for the answer of a fleet with a hundred thousand schedules.
_REQUEST_MAX, _ANSWER_MAX = 1024 * 1024, 64 * 1024 * 1024
_SECONDS_MAX = 10.0
_CONNECTIONS_MAX = 16
# Linux allows 107 bytes in the address of a socket; other systems a few less.
_ADDRESS_MAX = 100


class ControlSocket:
    """Serves the socket in `state_dir`; `answer` gets each request, and returns or raises the answer."""

    def __init__(self, state_dir: Path, answer: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        self._state_dir, self._answer = state_dir, answer
        self._places = asyncio.Semaphore(_CONNECTIONS_MAX)
        self._server: asyncio.Server | None = None
        self._inode: int | None = None
        # The socket between `bind` and `open`, and its path, which is not yet the one that clients know.
        self._bound: socket.socket | None = None
        self._fresh = f"{FILE_NAME}.{os.getpid()}"

    def bind(self) -> None:
        """Create the socket under another name. Raises SchedulerError if it cannot be created.

        A process calls this before it leads the fleet, so that it does not begin what it cannot serve.
        """
        path, fresh = self._state_dir / FILE_NAME, self._state_dir / self._fresh
        listening = socket.socket(socket.AF_UNIX)
        try:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            fresh.unlink(missing_ok=True)
            with _address(self._state_dir, self._fresh) as address:
                listening.bind(address)
            # No client can connect before the socket listens, so the permissions are set in time.
            fresh.chmod(0o600)
        except OSError as error:
            listening.close()
            advice = "check its permissions, or set `state_dir` to a shorter path on a local disk"
            raise SchedulerError(f"{path} cannot be made ({error.strerror}); {advice}") from error
        self._bound = listening

    async def open(self) -> None:
        """Start to answer, on the socket that `bind` has created."""
        assert self._bound is not None
        path = self._state_dir / FILE_NAME
        # `start_unix_server` would look up the socket's first address, of which the directory may be closed.
        self._server = await asyncio.start_server(self._serve, sock=self._bound, limit=_REQUEST_MAX)
        self._bound = None
        os.replace(self._state_dir / self._fresh, path)
        self._inode = path.stat().st_ino

    async def close(self) -> None:
        """Answer no more requests."""
        if self._bound is not None:
            self._bound.close()
            self._bound = None
            (self._state_dir / self._fresh).unlink(missing_ok=True)
        if self._server is None:
            return
        self._server.close()
        path = self._state_dir / FILE_NAME
        with suppress(OSError):
            # A process that has taken over may have put its own socket here.
            if path.stat().st_ino == self._inode:
                path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._places, asyncio.timeout(_SECONDS_MAX):
                reply = await self._reply(reader)
                writer.write(json.dumps({"version": VERSION, **reply}).encode() + b"\n")
                await writer.drain()
        except (TimeoutError, OSError):
            # The client has gone, or takes too long.
            pass
        finally:
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader) -> dict[str, Any]:
        try:
            return {"answer": await self._answer(await _request_from(reader))}
        except DutifulError as error:
            kind = error.kind if isinstance(error, FleetControlError) else type(error).__name__
            return _refusal(kind, str(error))
        except OSError as error:
            return _refusal(type(error).__name__, str(error))
        except Exception as error:
            # An error of the fleet itself: the client is told, and the log has the traceback.
            _LOGGER.exception("a request could not be answered")
            said = f"The fleet failed at this request ({type(error).__name__}: {error}); its log says more"
            return _refusal("FleetControlError", said)


async def _request_from(reader: asyncio.StreamReader) -> dict[str, Any]:
    try:
        request = _object_in(await reader.readline())
    except (ValueError, RecursionError):
        said = f"The request is no JSON object in one line of at most {_REQUEST_MAX} bytes"
        raise FleetControlError(said) from None
    if request.get("version") != VERSION:
        raise _other_version(request.get("version"))
    return request


def _refusal(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}


def _other_version(version: object) -> FleetControlError:
    return FleetControlError(
        f"The fleet and this command are of different versions (they speak {VERSION} and {quoted(version)});"
        " restart the fleet with the version of the command"
    )


async def ask(state_dir: Path, request: dict[str, Any]) -> Any:
    """Return the answer of the running fleet.

    Raises FleetNotRunningError if there is none, FleetControlError if it refuses or does not answer.
    """
    sent = json.dumps({"version": VERSION, **request}).encode() + b"\n"
    if len(sent) > _REQUEST_MAX:
        raise FleetControlError(f"The request has {len(sent)} bytes and may have {_REQUEST_MAX}; shorten it")
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            try:
                line = await _exchanged(state_dir, sent)
            except ConnectionResetError:
                # A dying fleet resets the connection; the next attempt is refused, or answered by a new
                # fleet.
                line = await _exchanged(state_dir, sent)
        reply = _object_in(line)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise FleetNotRunningError(str(state_dir)) from None
    except TimeoutError:
        said = f"The fleet in {state_dir} has not answered within {_SECONDS_MAX:g} s"
        advice = "it is busy or suspended, and may still do what it was asked"
        raise FleetControlError(f"{said}; {advice}", "TimeoutError") from None
    except PermissionError as error:
        advice = "run this command as the user that runs the fleet"
        raise FleetControlError(
            f"The fleet in {state_dir} may not be asked by this user; {advice}"
        ) from error
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "its answer cannot be read"
        raise FleetControlError(f"The fleet in {state_dir} cannot be asked: {problem}") from error
    match reply:
        case {"version": int(version)} if version != VERSION:
            raise _other_version(version)
        case {"error": {"kind": FleetNotRunningError.__name__}}:
            raise FleetNotRunningError(str(state_dir))
        case {"error": {"kind": str(kind), "message": str(message)}}:
            raise FleetControlError(message, kind)
        case {"answer": found}:
            return found
    raise FleetControlError(f"The fleet in {state_dir} cannot be asked: its answer cannot be read")


async def _exchanged(state_dir: Path, request: bytes) -> bytes:
    with _address(state_dir) as address:
        reader, writer = await asyncio.open_unix_connection(address, limit=_ANSWER_MAX)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()


def _object_in(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line, or raise ValueError; an incomplete line has none."""
    found = json.loads(line) if line.endswith(b"\n") else None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - invalid JSON is a ValueError too
    return found


@contextmanager
def _address(state_dir: Path, name: str = FILE_NAME) -> Iterator[str]:
    """Yield a path of the socket that is short enough for a socket address."""
    path = str(state_dir / name)
    if len(os.fsencode(path)) <= _ADDRESS_MAX:
        yield path
        return
    directory = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{name}"
    finally:
        os.close(directory)


class FleetLock:
    """The lock that a running fleet holds on its file; its content names the process."""

    def __init__(self, fleet_file: Path, state_dir: Path) -> None:
        self._path, self._fleet_file, self._state_dir = _path_of(fleet_file), fleet_file, state_dir
        self._held: int | None = None

    def hold(self) -> None:
        """Take the lock. Raises SchedulerError while another process has it.

        In a read-only directory there is no lock: the store's lock still keeps a second process out, and
        commands look for the fleet in the state directory that the file names.
        """
        while self._held is None:
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError:
                return
            try:
                self._lock(descriptor)
                # A process that has just stopped may have deleted the file that is locked here.
                if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                    self._held = descriptor
            except FileNotFoundError:
                continue
            except OSError as error:
                advice = "put it on a file system that has locks"
                problem = f"{self._path} cannot be locked ({error.strerror})"
                raise SchedulerError(f"{problem}; {advice}") from error
            finally:
                if self._held is None:
                    os.close(descriptor)
        self._write(ready=False)

    def _lock(self, descriptor: int) -> None:
        while not _locks(descriptor, fcntl.LOCK_EX):
            # A command shares the lock for a moment to read who runs the fleet; a fleet never shares it.
            if not _locks(descriptor, fcntl.LOCK_SH):
                running = _named_in(descriptor)
                process = "Another process" if running is None else f"Process {running.pid}"
                advice = "stop it with `dutiful fleet stop`, or use another file"
                raise SchedulerError(f"{process} already runs the fleet of {self._fleet_file}; {advice}")

    def tell_ready(self) -> None:
        """Record that the fleet answers requests."""
        if self._held is not None:
            self._write(ready=True)

    def _write(self, *, ready: bool) -> None:
        assert self._held is not None
        facts = {"pid": os.getpid(), "state_dir": str(self._state_dir), "ready": int(ready)}
        content = json.dumps(facts).encode()
        # On a full disk the lock names no process; commands then look in the state directory that the file
        # names.
        with suppress(OSError):
            # Write before truncating: a reader must not find an empty file when only `ready` changes.
            os.pwrite(self._held, content, 0)
            os.ftruncate(self._held, len(content))

    def release(self) -> None:
        """Release the lock."""
        if self._held is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._held)
            self._held = None


class Running(NamedTuple):
    """The process that runs a fleet, its state directory, and whether it answers requests yet."""

    pid: int
    state_dir: Path
    ready: bool = True

    @property
    def is_cut_off(self) -> bool:
        """Whether the socket of a fleet that answers requests was deleted, perhaps with the directory."""
        return self.ready and not (self.state_dir / FILE_NAME).exists()


def running_fleet(fleet_file: Path) -> Running | None:
    """Return the process that runs the fleet of this file. None: no process does, or no lock can tell."""
    try:
        descriptor = os.open(_path_of(fleet_file), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _locks(descriptor, fcntl.LOCK_SH) else _named_in(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _locks(descriptor: int, how: int) -> bool:
    """Lock a file and return True; return False while another process holds a lock that excludes this.

    Raises OSError where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named_in(descriptor: int) -> Running | None:
    """Return the process that the content of a lock names, or None."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(os.pread(descriptor, 65_536, 0))
        return Running(int(found["pid"]), Path(found["state_dir"]), bool(found["ready"]))
    return None


def _path_of(fleet_file: Path) -> Path:
    # Resolve symlinks, so that all names of a file share one lock.
    real = Path(os.path.realpath(fleet_file))
    return real.with_name(f".{real.name}.lock")
