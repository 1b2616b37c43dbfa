"""Executors by URL: the executor that a text such as "command:./run-dag" names, and a table of them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from dutiful.core.errors import InvalidArgumentError
from dutiful.launchers.command import CommandExecutor
from dutiful.launchers.executor import Closing
from dutiful.launchers.http import HttpExecutor
from dutiful.launchers.python import PythonExecutor

if TYPE_CHECKING:
    from dutiful.launchers.executor import Executor, ExecutorSettings

_CELERY = ("celery+redis", "celery+rediss", "celery+amqp", "celery+amqps")
_NATS, _REDIS = ("nats", "tls"), ("redis", "rediss", "valkey", "valkeys")
SCHEMES = ("command", "http", "https", "python", *_CELERY, *_NATS, *_REDIS)
# Executors that a service keeps for the URLs of its schedules.
_EXECUTORS_MAX = 256
_FORMS = (
    "command:PROGRAM ARGS, http(s)://HOST/PATH, python:MODULE:FUNCTION, celery+BROKER_URL?task=NAME,"
    " nats://HOST:PORT or redis://HOST:PORT/DB"
)


class Executors:
    """The executor of a service, and those that its schedules name; each is made when it is first used."""

    def __init__(self, default: Executor, settings: ExecutorSettings) -> None:
        self.default, self._settings = default, settings
        self._named: dict[str, Executor] = {}

    def get(self, url: str | None) -> Executor:
        """Return the executor of a URL, the default for None; raises InvalidArgumentError."""
        if url is None:
            return self.default
        if url not in self._named:
            if len(self._named) >= _EXECUTORS_MAX:
                advice = f"schedules name {_EXECUTORS_MAX} other executors already; use fewer, then restart"
                raise InvalidArgumentError("executor", f"{scheme_of(url)}:…", advice)
            self._named[url] = executor_for(url, self._settings)
        return self._named[url]

    @property
    def descriptors(self) -> int:
        """Return how many open files a run of the service's own executor needs."""
        return getattr(self.default, "descriptors", 1)

    async def close(self) -> None:
        """Close all executors."""
        for executor in (self.default, *self._named.values()):
            if isinstance(executor, Closing):
                await executor.close()
        self._named.clear()


def executor_for(url: str, settings: ExecutorSettings) -> Executor:
    """Return the executor; raises InvalidArgumentError that says what to write or to install instead."""
    scheme = scheme_of(url)
    try:
        return _made(scheme, url.strip(), settings)
    except ModuleNotFoundError as error:
        extra = scheme.partition("+")[0] if scheme in _CELERY else "nats" if scheme in _NATS else "redis"
        advice = f"the package {(error.name or '').partition('.')[0]!r} is missing; install dutiful[{extra}]"
        raise InvalidArgumentError("executor", f"{scheme}:…", advice) from None


def _made(scheme: str, url: str, settings: ExecutorSettings) -> Executor:
    # The clients of queues are extras, and slow to import: only the one that is used is imported.
    if scheme in _CELERY:
        from dutiful.launchers.celery import CeleryExecutor

        return CeleryExecutor(url, settings)
    if scheme in _NATS:
        from dutiful.launchers.nats import NatsExecutor

        return NatsExecutor(url, settings)
    if scheme in _REDIS:
        from dutiful.launchers.redis import RedisExecutor

        return RedisExecutor(url, settings)
    match scheme:
        case "command":
            return CommandExecutor.parse(url.partition(":")[2], settings)
        case "python":
            return PythonExecutor(url.partition(":")[2].strip(), settings)
        case _:
            return HttpExecutor(url, settings)


def scheme_of(url: str) -> str:
    """Return which of SCHEMES the text names, without a look at the rest; raises InvalidArgumentError."""
    scheme, colon, _ = url.strip().partition(":")
    if not colon or scheme.lower() not in SCHEMES:
        raise _unknown(scheme.lower())
    return scheme.lower()


def _unknown(scheme: str) -> InvalidArgumentError:
    # The rest of the text is not shown: a password may be part of it.
    if scheme.partition("+")[0] == "celery":
        advice = f"name the broker too: one of {', '.join(_CELERY)}"
        return InvalidArgumentError("executor", scheme[:32], advice)
    near = get_close_matches(scheme[:32], SCHEMES, n=1)
    advice = f"did you mean {near[0]}:…?" if near else f"write {_FORMS}"
    return InvalidArgumentError("executor", scheme[:32], advice)
