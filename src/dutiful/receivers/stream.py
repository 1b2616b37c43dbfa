"""Runs taken from a stream of Redis or Valkey by a consumer group."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from dutiful.launchers.broker import TLS_OPTIONS, Broker
from dutiful.receivers.delivery import Envelope
from dutiful.receivers.receiver import SILENT_S, Receiver
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from redis.asyncio import Redis

    from dutiful.receivers.delivery import Delivery
    from dutiful.runtime.ports import Clock

_BLOCK_MS = 1000
_FORM = "redis://HOST:PORT/DB?stream=dutiful:runs"
Entry: TypeAlias = "tuple[bytes, dict[bytes, bytes]]"


class StreamReceiver(Receiver[Entry]):
    """Takes runs from the stream that `DUTIFUL_EXECUTOR=redis://…` adds to.

    `url` is the same as the service's. Receivers of one `group` share the runs among them; entries are
    deleted once acknowledged, so that the stream stays short, unless `delete` is False because other groups
    read it too.
    """

    def __init__(
        self,
        url: str,
        handle: Callable[[Delivery], Any],
        *,
        group: str = "dutiful",
        delete: bool = True,
        silent: float = SILENT_S,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        queue = StreamQueue(url, group, delete, silent, clock or SystemClock())
        super().__init__(queue, handle, silent=silent, clock=clock, **settings)


class StreamQueue:
    """One consumer of a group that reads a stream."""

    def __init__(self, url: str, group: str, delete: bool, silent: float, clock: Clock) -> None:
        self._group, self._delete, self._silent_ms, self._clock = group, delete, round(silent * 1000), clock
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"
        broker = Broker.parse(url, ("stream", "waitaof", *TLS_OPTIONS), _FORM)
        self._how = broker.redis(_FORM)
        self._stream = broker.options.get("stream", "dutiful:runs")
        self._client: Redis | None = None
        self._has_group = False
        self._looked_at = 0.0
        # Entries in work here; a late renewal may make them look silent, but they must not be taken over
        # here.
        self._held: set[bytes] = set()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the client while the server is away."""
        from redis.exceptions import RedisError

        return (RedisError, OSError)

    async def take(self, room: int) -> Sequence[Entry]:
        """Return at most `room` entries: first those of silent consumers, then new ones."""
        try:
            if not self._has_group:
                await self._ensure_group()
            entries = await self._taken_over(room) or await self._read(room)
        except self.errors:
            # A server that was restarted without its data has lost the group too.
            self._has_group = False
            raise
        self._held.update(entry for entry, _ in entries)
        return entries

    async def _ensure_group(self) -> None:
        from redis.exceptions import ResponseError

        try:
            await self._connected().xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._has_group = True

    async def _taken_over(self, room: int) -> list[Entry]:
        """Return entries of consumers that were silent for too long; checks twice in that time."""
        if self._clock.monotonic() - self._looked_at < self._silent_ms / 2000:
            return []
        self._looked_at = self._clock.monotonic()
        found: Any = await self._connected().xautoclaim(
            self._stream, self._group, self._consumer, self._silent_ms, count=room
        )
        return [(entry, fields) for entry, fields in found[1] if fields and entry not in self._held]

    async def _read(self, room: int) -> list[Entry]:
        found = await self._connected().xreadgroup(
            self._group, self._consumer, {self._stream: ">"}, count=room, block=_BLOCK_MS
        )
        return [entry for _, entries in _pairs(found) for entry in entries]

    def open(self, message: Entry) -> Envelope:
        """Return the content of an entry."""
        fields = {name.decode(errors="replace"): value for name, value in message[1].items()}

        def text(name: str) -> str:
            return fields.get(name, b"").decode(errors="replace")

        body = fields.get("body", b"")
        return Envelope(text("key"), body, text("attempt"), text("timestamp"), text("signature"))

    async def keep(self, message: Entry) -> None:
        """Claim the entry again, which resets its idle time."""
        await self._connected().xclaim(
            self._stream, self._group, self._consumer, 0, [message[0]], justid=True
        )

    async def acknowledge(self, message: Entry) -> None:
        """Acknowledge an entry, and delete it unless other groups read the stream."""
        self._held.discard(message[0])
        async with self._connected().pipeline(transaction=True) as pipeline:
            pipeline.xack(self._stream, self._group, message[0])
            if self._delete:
                pipeline.xdel(self._stream, message[0])
            await pipeline.execute()

    async def put_back(self, message: Entry) -> None:
        """Leave the entry: it stays pending, and is taken over when it has been idle for long enough."""
        self._held.discard(message[0])

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connected(self) -> Redis:
        if self._client is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            # One retry, for a connection that was closed while idle. The pauses of the client's own retries
            # would hold up `stop` while the server is away.
            retry = Retry(NoBackoff(), 1)
            self._client = Redis(**self._how, ssl="ssl_ca_certs" in self._how, retry=retry)
        return self._client


def _pairs(found: Any) -> Any:
    """Return (stream, entries) pairs of an answer, a mapping or a list depending on the protocol."""
    if not found:
        return []
    if isinstance(found, dict):
        # The newer protocol wraps the entries of a stream in one more list.
        return [(name, [entry for part in parts for entry in part]) for name, parts in found.items()]
    return found
