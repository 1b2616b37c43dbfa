"""Executors by URL: the executor that a text such as "command:./run-dag" names, and a table of them."""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import InvalidArgumentError
from dutiful.launchers.command import CommandExecutor
from dutiful.launchers.executor import Closing
from dutiful.launchers.http import HttpExecutor, check_target, reachable_target
from dutiful.launchers.python import PythonExecutor

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from dutiful.launchers.executor import Executor, ExecutorSettings

# Most idle executors that a service keeps for the URLs of its schedules.
EXECUTORS_MAX = 256


class Kind(NamedTuple):
    """One kind of executor: its schemes, what to write, how it is made, and the extra that it needs."""

    schemes: tuple[str, ...]
    form: str
    make: Callable[[str, ExecutorSettings], Executor]
    extra: str | None = None


def _of_module(name: str) -> Callable[[str, ExecutorSettings], Executor]:
    """Return a maker that imports its executor on first use: the client is an extra, and slow to import."""
    module, _, executor = name.partition(":")

    def make(url: str, settings: ExecutorSettings) -> Executor:
        made: Executor = getattr(import_module(f"dutiful.launchers.{module}"), executor)(url, settings)
        return made

    return make


def _rest(url: str) -> str:
    return url.partition(":")[2].strip()


# A new executor is a file of its own and a line here.
KINDS = (
    Kind(("command",), "command:PROGRAM ARGS", lambda url, how: CommandExecutor.parse(_rest(url), how)),
    Kind(("http", "https"), "http(s)://HOST/PATH", HttpExecutor),
    Kind(("python",), "python:MODULE:FUNCTION", lambda url, how: PythonExecutor(_rest(url), how)),
    Kind(
        ("celery+redis", "celery+rediss", "celery+amqp", "celery+amqps"),
        "celery+BROKER_URL?task=NAME",
        _of_module("celery:CeleryExecutor"),
        "celery",
    ),
    Kind(("nats", "tls"), "nats://HOST:PORT", _of_module("nats:NatsExecutor"), "nats"),
    Kind(
        ("redis", "rediss", "valkey", "valkeys"),
        "redis://HOST:PORT/DB",
        _of_module("redis:RedisExecutor"),
        "redis",
    ),
)
_KIND_OF = {scheme: kind for kind in KINDS for scheme in kind.schemes}
SCHEMES = tuple(_KIND_OF)


class Executors:
    """The executor of a service, and those that its schedules name; each is created on first use."""

    def __init__(self, default: Executor, settings: ExecutorSettings) -> None:
        self.default, self._settings = default, settings
        # Executors by URL, the least recently used first; and how many runs use each executor now.
        self._named: dict[str, Executor] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def using(self, url: str | None) -> AsyncGenerator[Executor]:
        """Yield the executor of a URL, the default for None; raises InvalidArgumentError.

        It stays open for the next use. Beyond `EXECUTORS_MAX` the least recently used one is closed, never
        one that is in use: schedules change their URLs, and a service runs for years.
        """
        if url is None:
            yield self.default
            return
        executor = self._named.pop(url, None) or executor_for(url, self._settings)
        self._named[url] = executor
        self._users[url] += 1
        try:
            yield executor
        finally:
            self._users[url] -= 1
            await self._close_beyond(EXECUTORS_MAX)

    def refusal(self, url: str) -> str | None:
        """Return why every request to the URL of a web service would be refused, else None."""
        if scheme_of(url) not in ("http", "https"):
            return None
        try:
            reachable_target(url.strip(), self._settings)
        except InvalidArgumentError as error:
            return str(error)
        return None

    @property
    def descriptors(self) -> int:
        """Return how many open files a run of the service's own executor needs."""
        return getattr(self.default, "descriptors", 1)

    async def close(self) -> None:
        """Close all executors."""
        self._users.clear()
        await self._close_beyond(0)
        await _close(self.default)

    async def _close_beyond(self, kept: int) -> None:
        """Close idle executors, the least recently used first, until so many are left."""
        if (surplus := len(self._named) - kept) <= 0:
            return
        idle = [url for url in self._named if not self._users[url]][:surplus]
        # Take all of them out before the first is closed: other runs begin and end meanwhile.
        closing = [self._named.pop(url) for url in idle]
        for url in idle:
            del self._users[url]
        for executor in closing:
            await _close(executor)


async def _close(executor: Executor) -> None:
    if isinstance(executor, Closing):
        await executor.close()


def executor_for(url: str, settings: ExecutorSettings) -> Executor:
    """Return the executor; raises InvalidArgumentError that says what to write or to install instead."""
    scheme = scheme_of(url)
    kind = _KIND_OF[scheme]
    try:
        return kind.make(url.strip(), settings)
    except ModuleNotFoundError as error:
        if kind.extra is None:
            raise
        package = (error.name or "").partition(".")[0]
        advice = f"the package {package!r} is missing; install dutiful[{kind.extra}]"
        raise InvalidArgumentError("executor", f"{scheme}:…", advice) from None


def check_url(url: str) -> None:
    """Raise InvalidArgumentError for a text that names no executor on any machine.

    Whether the program, the function or the host is there only the worker can tell.
    """
    match scheme_of(url):
        case "http" | "https":
            check_target(url.strip())
        case "command":
            CommandExecutor.split(_rest(url))


def scheme_of(url: str) -> str:
    """Return the scheme of SCHEMES that the text begins with; raises InvalidArgumentError."""
    scheme, colon, _ = url.strip().partition(":")
    if not colon or scheme.lower() not in SCHEMES:
        raise _unknown(scheme.lower())
    return scheme.lower()


def _unknown(scheme: str) -> InvalidArgumentError:
    # The rest of the text is not shown: a password may be part of it.
    if scheme.partition("+")[0] == "celery":
        brokers = ", ".join(known for known in SCHEMES if known.startswith("celery+"))
        return InvalidArgumentError("executor", scheme[:32], f"name the broker too: one of {brokers}")
    near = get_close_matches(scheme[:32], SCHEMES, n=1)
    *forms, last = (kind.form for kind in KINDS)
    advice = f"did you mean {near[0]}:…?" if near else f"write {', '.join(forms)} or {last}"
    return InvalidArgumentError("executor", scheme[:32], advice)
