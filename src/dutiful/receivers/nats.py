"""Runs taken from NATS JetStream by a durable pull consumer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dutiful.launchers.broker import TLS_OPTIONS, Broker
from dutiful.receivers.delivery import BadMessageError, Delivery, check_signature
from dutiful.receivers.receiver import LATER_S, Receiver

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.client import Client
    from nats.aio.msg import Msg

_FORM = "nats://HOST:PORT?stream=DUTIFUL&subject=dutiful.runs"
_OPTIONS = ("stream", "subject", "credentials")
_FETCH_S = 1.0


class NatsReceiver(Receiver["Msg"]):
    """Takes runs from the stream that `DUTIFUL_EXECUTOR=nats://…` publishes to.

    `url` is the same as the service's. Receivers of one `durable` name share the runs among them.
    """

    def __init__(
        self, url: str, handle: Callable[[Delivery], Any], *, durable: str = "dutiful", **settings: Any
    ) -> None:
        super().__init__(url, handle, **settings)
        self._durable = durable
        self._client: Client | None = None
        self._broker = Broker.parse(url, (*_OPTIONS, *TLS_OPTIONS), _FORM)
        self._stream = self._broker.options.get("stream", "DUTIFUL")
        self._subject = self._broker.options.get("subject", "dutiful.runs")
        self._tls = self._broker.tls() if self._broker.scheme == "tls" else None

    async def _receive(self) -> None:
        subscription = await self._subscribed()
        while not self._stopping.is_set():
            room = await self._room()
            with suppress(TimeoutError):
                self._begin(await subscription.fetch(room, timeout=_FETCH_S))

    async def _subscribed(self) -> Any:
        from nats.js.api import AckPolicy, ConsumerConfig

        client = await self._connected()
        config = ConsumerConfig(
            durable_name=self._durable,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._silent,
            max_deliver=-1,
            filter_subject=f"{self._subject}.>",
        )
        jetstream = client.jetstream()
        return await jetstream.pull_subscribe(
            f"{self._subject}.>", durable=self._durable, stream=self._stream, config=config
        )

    async def _connected(self) -> Client:
        from nats.aio.client import Client

        if self._client is None or self._client.is_closed:
            broker, client = self._broker, Client()
            await client.connect(
                servers=[f"{broker.scheme}://{host}" for host in broker.hosts],
                user=broker.user if broker.password is not None else None,
                password=broker.password,
                token=broker.user if broker.password is None else None,
                user_credentials=broker.options.get("credentials"),
                tls=self._tls,
                max_reconnect_attempts=-1,
                reconnect_time_wait=1,
                name="dutiful receiver",
                error_cb=_ignore,
            )
            self._client = client
        return self._client

    def _errors(self) -> tuple[type[Exception], ...]:
        from nats.errors import Error

        return (Error, OSError)

    def _read(self, message: Msg) -> Delivery:
        headers = message.headers or {}
        delivery = Delivery.read(str(headers.get("Nats-Msg-Id", "")).partition(":")[0], message.data)
        timestamp, given = headers.get("Dutiful-Timestamp", ""), headers.get("Dutiful-Signature", "")
        check_signature(self._secret, timestamp, delivery.key, message.data, given)
        if str(delivery.attempt) != headers.get("Dutiful-Attempt"):
            raise BadMessageError("its attempt is not the one in its body")
        return delivery

    async def _alive(self, message: Msg) -> None:
        await message.in_progress()

    async def _acknowledge(self, message: Msg) -> None:
        # Waits for the server: an acknowledgement that is lost would bring the message again.
        await message.ack_sync()

    async def _put_back(self, message: Msg) -> None:
        await message.nak(min(LATER_S, self._silent))

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FETCH_S):
                    await client.close()


async def _ignore(_: Exception) -> None:
    """Leave errors to the call that meets them."""
