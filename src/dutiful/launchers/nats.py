"""Hand-off to NATS JetStream: a run is handed over once the server has acknowledged its message."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from nats.aio.client import Client
from nats.errors import ConnectionClosedError, Error, MaxPayloadError, NoServersError
from nats.js.api import PubAck, StorageType, StreamConfig
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Outcome, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.launchers.broker import TIMEOUT_S, TLS_OPTIONS, Broker, Message

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from nats.js import JetStreamContext

    from dutiful.launchers.executor import ExecutorSettings, Meta

    Closed: TypeAlias = Callable[[], Awaitable[None]]

_FORM = "nats://HOST:PORT?stream=DUTIFUL&subject=dutiful.runs"
_OPTIONS = ("stream", "subject", "credentials", *TLS_OPTIONS)
_STREAM_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SUBJECT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_DUPLICATE_WINDOW_S = 600.0
_DUPLICATE_WINDOW_MIN_S = 120.0
# Keep messages for 30 days, like ledger rows: a report on an older run finds no row.
_KEPT_S = 30 * 86_400.0
_CLOSE_WITHIN_S = 0.5


class NatsExecutor:
    """Publishes every run to a JetStream stream, over one connection that is kept."""

    def __init__(self, url: str, settings: ExecutorSettings) -> None:
        """Raises InvalidArgumentError if the URL is not one of a NATS server."""
        self._broker = broker = Broker.parse(url, _OPTIONS, _FORM)
        self._settings, self._timeout = settings, settings.timeout or TIMEOUT_S
        self._stream = _named(broker, "stream", "DUTIFUL", _STREAM_NAME)
        self._subject = _named(broker, "subject", "dutiful.runs", _SUBJECT)
        self._tls = broker.tls() if broker.scheme == "tls" else None
        self._connecting = asyncio.Lock()
        self._kept: _Connection | None = None

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return Accepted with `STREAM:SEQUENCE` once the server has stored the message or has it already.

        Without a connection, or where the server says that it stored nothing, the outcome is Unreached. A
        message that was sent and not acknowledged is Unanswered: the server may have stored it.
        """
        with self._settings.clock.hold():
            return await self._hand_over(Message.of(dag, meta, self._settings), meta)

    async def _hand_over(self, message: Message, meta: Meta) -> Outcome:
        try:
            async with asyncio.timeout(self._timeout):
                connection = await self._connected()
        except _UnfitStreamError as error:
            return Refused(Reason.LAUNCH_REFUSED, str(error))
        except (OSError, Error, TimeoutError) as error:
            return Unreached(self._broker.problem("no connection to", error))
        return await self._publish(connection, message, meta)

    async def probe(self) -> str | None:
        """Return why no run can be published, or None; uses a connection of its own."""
        try:
            async with asyncio.timeout(self._timeout):
                connection = await self._connect()
        except _UnfitStreamError as error:
            return str(error)
        except (OSError, Error, TimeoutError) as error:
            return self._broker.problem("no connection to", error)
        await connection.close()
        return None

    async def close(self) -> None:
        """Close the connection."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.close()

    async def _publish(self, connection: _Connection, message: Message, meta: Meta) -> Outcome:
        subject = f"{self._subject}.{_token(meta.workflow_id)}"
        headers = {**_headers(message, meta), "Nats-Expected-Stream": self._stream}
        try:
            stored = await connection.publish(subject, message.body, headers)
        except MaxPayloadError:
            size = f"{len(message.body):,} bytes"
            return Refused(Reason.LAUNCH_REFUSED, f"{self._broker.shown} takes no message of {size}")
        except (APIError, NoStreamResponseError, ConnectionClosedError) as error:
            # A new connection looks for the stream again, which may have been deleted.
            await self.close()
            return Unreached(self._broker.problem("nothing was stored by", error))
        except (OSError, Error, TimeoutError) as error:
            # Without an answer the connection may be dead; the next run makes a new one.
            await self.close()
            return Unanswered(self._broker.problem("no acknowledgement from", error))
        return Accepted(f"{stored.stream}:{stored.seq}")

    async def _connected(self) -> _Connection:
        if self._kept is not None and self._kept.is_open:
            return self._kept
        async with self._connecting:
            if self._kept is None or not self._kept.is_open:
                self._kept = await self._connect()
            return self._kept

    async def _connect(self) -> _Connection:
        connection = _Connection(self._timeout)
        try:
            await connection.open(self._broker, self._tls)
            await self._ensure_stream(connection.jetstream)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _ensure_stream(self, jetstream: JetStreamContext) -> None:
        """Create the stream if it is missing; raises _UnfitStreamError where its settings lose runs."""
        try:
            config = (await jetstream.stream_info(self._stream)).config
        except NotFoundError:
            await jetstream.add_stream(self._new_stream())
            return
        if (config.duplicate_window or 0) < _DUPLICATE_WINDOW_MIN_S:
            problem = f"a duplicate window of {config.duplicate_window or 0:g} s, needed are at least 120 s"
            raise _UnfitStreamError(f"stream {self._stream} of {self._broker.shown} has {problem}")

    def _new_stream(self) -> StreamConfig:
        return StreamConfig(
            name=self._stream,
            subjects=[f"{self._subject}.>"],
            storage=StorageType.FILE,
            duplicate_window=_DUPLICATE_WINDOW_S,
            max_age=_KEPT_S,
        )


async def connect(
    broker: Broker, tls: ssl.SSLContext | None, within: float, name: str, closed: Closed | None = None
) -> Client:
    """Return a connected client; raises the error of the server that was tried last.

    The client does not reconnect by itself: it would send buffered messages after their launch was given up,
    and never return from a first connect. `closed` is called when the connection is lost.
    """
    client, problems = Client(), list[Exception]()

    async def note(error: Exception) -> None:
        problems[:] = [error]

    try:
        await client.connect(
            servers=[f"{broker.scheme}://{host}" for host in broker.hosts],
            user=broker.user if broker.password is not None else None,
            password=broker.password,
            token=broker.user if broker.password is None else None,
            user_credentials=broker.options.get("credentials"),
            tls=tls,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=max(1, round(within)),
            name=name,
            error_cb=note,
            closed_cb=closed,
        )
    except BaseException as error:
        await close(client)
        if isinstance(error, NoServersError) and problems:
            raise problems[0] from None
        raise
    return client


async def close(client: Client) -> None:
    """Close the connection of a client."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_WITHIN_S):
            await client.close()
    # The client's close hangs after a failed TLS handshake, and does nothing after a connect that was
    # cancelled: without this the socket would stay open until the garbage collector finds it.
    transport = getattr(client, "_transport", None)
    if transport is not None:
        transport.close()


class _Connection:
    """One connection, which ends the waits for acknowledgements as soon as it is lost."""

    def __init__(self, within: float) -> None:
        self._within = within
        self._client: Client | None = None
        self._waits: set[asyncio.Timeout] = set()

    @property
    def is_open(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def jetstream(self) -> JetStreamContext:
        return self._jetstream

    async def open(self, broker: Broker, tls: ssl.SSLContext | None) -> None:
        self._client = await connect(broker, tls, self._within, "dutiful", self._give_up_waiting)
        self._jetstream = self._client.jetstream(timeout=self._within)

    async def publish(self, subject: str, body: bytes, headers: dict[str, str]) -> PubAck:
        limit = asyncio.timeout(self._within)
        self._waits.add(limit)
        try:
            async with limit:
                return await self._jetstream.publish(subject, body, timeout=self._within + 1, headers=headers)
        finally:
            self._waits.discard(limit)

    async def close(self) -> None:
        if self._client is not None:
            await close(self._client)

    async def _give_up_waiting(self) -> None:
        now = asyncio.get_running_loop().time()
        for limit in self._waits:
            limit.reschedule(now)


class _UnfitStreamError(Exception):
    """The stream exists, but its settings would lose runs."""


def _named(broker: Broker, option: str, default: str, pattern: re.Pattern[str]) -> str:
    name = broker.options.get(option, default)
    if not pattern.fullmatch(name):
        raise InvalidArgumentError("executor", f"{option}={name}", f"write {_FORM}")
    return name


def _token(workflow_id: str) -> str:
    """Return the workflow's part of the subject; dots that would leave an empty part are escaped."""
    return workflow_id if "" not in workflow_id.split(".") else workflow_id.replace(".", "%2E")


def _message_id(meta: Meta) -> str:
    """Return the run's key, so that the server drops repeated launches but not retries of the task."""
    return f"{meta.idempotency_key}:{meta.attempt}" if meta.task_failures else meta.idempotency_key


def _headers(message: Message, meta: Meta) -> dict[str, str]:
    headers = {
        "Nats-Msg-Id": _message_id(meta),
        "Dutiful-Attempt": str(meta.attempt),
        "Dutiful-Epoch": str(meta.epoch),
        "Dutiful-Timestamp": message.timestamp,
    }
    return headers if message.signature is None else {**headers, "Dutiful-Signature": message.signature}
