"""Runs taken from NATS JetStream by a durable pull consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dutiful.launchers.broker import TLS_OPTIONS, Broker
from dutiful.receivers.delivery import Envelope
from dutiful.receivers.receiver import LATER_S, SILENT_S, Receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from dutiful.receivers.delivery import Delivery

_FORM = "nats://HOST:PORT?stream=DUTIFUL&subject=dutiful.runs"
_OPTIONS = ("stream", "subject", "credentials")
_FETCH_S = 1.0
_CONNECT_S = 10.0


class NatsReceiver(Receiver["Msg"]):
    """Takes runs from the stream that `DUTIFUL_EXECUTOR=nats://…` publishes to.

    `url` is the same as the service's. Receivers of one `durable` name share the runs among them.
    """

    def __init__(
        self,
        url: str,
        handle: Callable[[Delivery], Any],
        *,
        durable: str = "dutiful",
        silent: float = SILENT_S,
        **settings: Any,
    ) -> None:
        super().__init__(NatsQueue(url, durable, silent), handle, silent=silent, **settings)


class NatsQueue:
    """A durable pull consumer of one stream."""

    def __init__(self, url: str, durable: str, silent: float) -> None:
        self._durable, self._silent = durable, silent
        self._broker = Broker.parse(url, (*_OPTIONS, *TLS_OPTIONS), _FORM)
        self._stream = self._broker.options.get("stream", "DUTIFUL")
        self._subject = self._broker.options.get("subject", "dutiful.runs")
        self._tls = self._broker.tls() if self._broker.scheme == "tls" else None
        self._client: Client | None = None
        self._subscription: Any = None

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the client while the server is away."""
        from nats.errors import Error

        return (Error, OSError)

    async def take(self, room: int) -> Sequence[Msg]:
        """Return at most `room` messages."""
        if self._subscription is None:
            self._subscription = await self._subscribed()
        try:
            found: list[Msg] = await self._subscription.fetch(room, timeout=_FETCH_S)
        except TimeoutError:
            return []
        except self.errors:
            self._subscription = None
            raise
        return found

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
        if self._client is None or self._client.is_closed:
            self._client = await self._connect()
        return self._client

    async def _connect(self) -> Client:
        """Return a connected client; raises ConnectionError."""
        from dutiful.launchers.nats import connect

        broker = self._broker
        try:
            return await connect(broker, self._tls, _CONNECT_S, "dutiful receiver")
        except self.errors as error:
            raise ConnectionError(broker.problem("no connection to", error)) from None

    def open(self, message: Msg) -> Envelope:
        """Return the content of a message; the message id of a task's retry is KEY:ATTEMPT."""
        headers = message.headers or {}
        return Envelope(
            str(headers.get("Nats-Msg-Id", "")).partition(":")[0],
            message.data,
            headers.get("Dutiful-Attempt", ""),
            headers.get("Dutiful-Timestamp", ""),
            headers.get("Dutiful-Signature", ""),
        )

    async def keep(self, message: Msg) -> None:
        """Tell the server that the work of a message goes on."""
        await message.in_progress()

    async def acknowledge(self, message: Msg) -> None:
        """Return when the server has confirmed the acknowledgement; without it the message comes again."""
        await message.ack_sync()

    async def put_back(self, message: Msg) -> None:
        """Request another delivery of the message after a few seconds."""
        await message.nak(min(LATER_S, self._silent))

    async def close(self) -> None:
        """Close the connection."""
        client, self._client, self._subscription = self._client, None, None
        if client is not None:
            from dutiful.launchers.nats import close

            await close(client)
