"""Hand-off to a stream of Redis or Valkey: a run is published by one XADD that the server has answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis.asyncio import BlockingConnectionPool, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Outcome, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.launchers.broker import TIMEOUT_S, TLS_OPTIONS, Broker, Message

if TYPE_CHECKING:
    from dutiful.launchers.executor import ExecutorSettings, Meta

_FORM = "redis://HOST:PORT/DB?stream=dutiful:runs"
_OPTIONS = ("stream", "waitaof", *TLS_OPTIONS)
_CONNECTIONS_MAX = 16


class RedisExecutor:
    """Adds every run to one stream, over a few connections that are kept."""

    def __init__(self, url: str, settings: ExecutorSettings) -> None:
        """Raises InvalidArgumentError if the URL is not one of a Redis or Valkey server."""
        self._broker = broker = Broker.parse(url, _OPTIONS, _FORM)
        self._settings, self._timeout = settings, settings.timeout or TIMEOUT_S
        self._stream = broker.options.get("stream") or "dutiful:runs"
        self._waits_for_disk = _flag(broker, "waitaof")
        self._how = _connection(broker, self._timeout)
        self._pool = BlockingConnectionPool(
            max_connections=_CONNECTIONS_MAX, timeout=self._timeout, **self._how
        )

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return Accepted with the id of the stream's entry once the server has answered.

        Without a connection, or where the server answers an error, the outcome is Unreached: nothing was
        added. A command that was sent and not answered is Unanswered.
        """
        with self._settings.clock.hold():
            return await self._hand_over(_fields(Message.of(dag, meta, self._settings), meta))

    async def _hand_over(self, fields: list[Any]) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        except (OSError, RedisError, TimeoutError) as error:
            return Unreached(self._broker.problem("no connection to", error))
        try:
            async with asyncio.timeout(self._timeout):
                return await self._add(connection, fields)
        except ResponseError as error:
            return self._refused(error)
        except (OSError, RedisError, TimeoutError) as error:
            await connection.disconnect()
            return Unanswered(self._broker.problem("no answer from", error))
        except BaseException:
            # A late answer must not be read as the answer to the next command.
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)

    async def probe(self) -> str | None:
        """Return why no run can be added, or None; uses a connection of its own."""
        how = dict(self._how)
        connection = how.pop("connection_class")(**how)
        try:
            async with asyncio.timeout(self._timeout):
                await connection.connect()
                await connection.send_command("TYPE", self._stream)
                kind = await connection.read_response()
        except (OSError, RedisError, TimeoutError) as error:
            return self._broker.problem("no connection to", error)
        finally:
            await connection.disconnect()
        if kind in {b"none", b"stream"}:
            return None
        return f"{self._stream!r} of {self._broker.shown} is a {kind.decode()}, not a stream"

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.disconnect()

    async def _add(self, connection: Any, fields: list[Any]) -> Outcome:
        await connection.send_command("XADD", self._stream, "*", *fields)
        entry: bytes = await connection.read_response()
        if self._waits_for_disk:
            await connection.send_command("WAITAOF", 1, 0, round(self._timeout * 1000))
            synced, _ = await connection.read_response()
            if not synced:
                return Unanswered(f"{self._broker.shown} did not write the run to its file in time")
        return Accepted(entry.decode())

    def _refused(self, error: ResponseError) -> Outcome:
        problem = self._broker.problem("an error was answered by", error)
        if str(error).startswith("WRONGTYPE") or "wrong kind of value" in str(error):
            return Refused(Reason.LAUNCH_REFUSED, problem)
        return Unreached(problem)


def _connection(broker: Broker, timeout: float) -> dict[str, Any]:
    """Return the connection settings, without retries: a repeated XADD would add a second entry."""
    how = broker.redis(_FORM)
    return {
        **how,
        "connection_class": SSLConnection if "ssl_ca_certs" in how else Connection,
        "socket_connect_timeout": timeout,
        "socket_timeout": timeout,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "client_name": "dutiful",
    }


def _flag(broker: Broker, option: str) -> bool:
    value = broker.options.get(option, "false")
    if value not in {"true", "false"}:
        raise InvalidArgumentError("executor", f"{option}={value}", "write true or false")
    return value == "true"


def _fields(message: Message, meta: Meta) -> list[Any]:
    fields = [
        "key", meta.idempotency_key, "attempt", meta.attempt, "epoch", meta.epoch, "body", message.body,
        "timestamp", message.timestamp,
    ]  # fmt: skip
    return fields if message.signature is None else [*fields, "signature", message.signature]
