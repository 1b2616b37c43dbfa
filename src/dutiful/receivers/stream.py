"""Runs taken from a stream of Redis or Valkey by a consumer group."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dutiful.launchers.broker import TLS_OPTIONS, Broker
from dutiful.receivers.delivery import BadMessageError, Delivery, check_signature
from dutiful.receivers.receiver import Receiver

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis

_BLOCK_MS = 1000
_FORM = "redis://HOST:PORT/DB?stream=dutiful:runs"


class StreamReceiver(Receiver[tuple[bytes, dict[bytes, bytes]]]):
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
        **settings: Any,
    ) -> None:
        super().__init__(url, handle, **settings)
        self._group, self._delete, self._silent_ms = group, delete, round(self._silent * 1000)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"
        broker = Broker.parse(url, ("stream", "waitaof", *TLS_OPTIONS), _FORM)
        self._how = broker.redis(_FORM)
        self._stream = broker.options.get("stream", "dutiful:runs")
        self._client: Redis | None = None
        self._held: set[bytes] = set()

    async def _receive(self) -> None:
        client = self._connected()
        await self._ensure_group(client)
        looked_at = 0.0
        while not self._stopping.is_set():
            room = await self._room()
            if self._clock.monotonic() - looked_at >= self._silent_ms / 2000:
                looked_at = self._clock.monotonic()
                room -= await self._take_over(client, room)
            if room > 0:
                found = await client.xreadgroup(
                    self._group, self._consumer, {self._stream: ">"}, count=room, block=_BLOCK_MS
                )
                self._begin(entry for _, entries in _pairs(found) for entry in entries)

    async def _take_over(self, client: Redis, room: int) -> int:
        """Begin the runs of consumers that are silent for too long; return how many."""
        found: Any = await client.xautoclaim(
            self._stream, self._group, self._consumer, self._silent_ms, count=room
        )
        entries = [(entry, fields) for entry, fields in found[1] if fields and entry not in self._held]
        self._begin(entries)
        return len(entries)

    async def _ensure_group(self, client: Redis) -> None:
        from redis.exceptions import ResponseError

        try:
            await client.xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def _settle(self, message: tuple[bytes, dict[bytes, bytes]]) -> None:
        self._held.add(message[0])
        try:
            await super()._settle(message)
        finally:
            self._held.discard(message[0])

    def _errors(self) -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError, OSError)

    def _read(self, message: tuple[bytes, dict[bytes, bytes]]) -> Delivery:
        fields = {name.decode(errors="replace"): value for name, value in message[1].items()}
        texts = {name: fields.get(name, b"").decode(errors="replace") for name in ("key", "attempt")}
        body, timestamp = fields.get("body", b""), fields.get("timestamp", b"").decode(errors="replace")
        delivery = Delivery.read(texts["key"], body)
        given = fields.get("signature", b"").decode(errors="replace")
        check_signature(self._secret, timestamp, delivery.key, body, given)
        if str(delivery.attempt) != texts["attempt"]:
            raise BadMessageError("its attempt is not the one in its body")
        return delivery

    async def _alive(self, message: tuple[bytes, dict[bytes, bytes]]) -> None:
        # Claiming one's own entry sets its idle time back to zero.
        await self._connected().xclaim(
            self._stream, self._group, self._consumer, 0, [message[0]], justid=True
        )

    async def _acknowledge(self, message: tuple[bytes, dict[bytes, bytes]]) -> None:
        async with self._connected().pipeline(transaction=True) as pipeline:
            pipeline.xack(self._stream, self._group, message[0])
            if self._delete:
                pipeline.xdel(self._stream, message[0])
            await pipeline.execute()

    async def _put_back(self, message: tuple[bytes, dict[bytes, bytes]]) -> None:
        """Leave the entry: it stays pending, and is taken over when it has been idle for long enough."""

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _connected(self) -> Redis:
        if self._client is None:
            from redis.asyncio import Redis

            self._client = Redis(**self._how, ssl="ssl_ca_certs" in self._how)
        return self._client


def _pairs(found: Any) -> Any:
    """Return (stream, entries) pairs of an answer, which is a mapping or a list by the protocol spoken."""
    if not found:
        return []
    if isinstance(found, dict):
        # The newer protocol wraps the entries of a stream in one more list.
        return [(name, [entry for part in parts for entry in part]) for name, parts in found.items()]
    return found
