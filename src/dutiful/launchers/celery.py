"""Hand-off to Celery: a run becomes a task message with the run's key as its task id."""

from __future__ import annotations

import asyncio
import re
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from celery import Celery
from celery.exceptions import OperationalError
from kombu.exceptions import EncodeError, KombuError

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Outcome, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.launchers.broker import TIMEOUT_S, TLS_OPTIONS, Broker, Message

if TYPE_CHECKING:
    from kombu.messaging import Producer

    from dutiful.launchers.executor import ExecutorSettings, Meta

_FORM = "celery+redis://HOST:PORT/DB?task=app.run&queue=celery"
_OPTIONS = ("task", "queue", *TLS_OPTIONS)
_TASK = re.compile(r"[A-Za-z_][\w.]{0,254}", re.ASCII)
_BROKERS = {"redis", "rediss", "amqp", "amqps"}
_IDLE_S = 1


class CeleryExecutor:
    """Sends every run to one Celery task by its name, from one thread with one kept connection."""

    def __init__(self, url: str, settings: ExecutorSettings) -> None:
        """Raises InvalidArgumentError if the URL names no broker or no task."""
        self._broker = broker = Broker.parse(url.partition("+")[2], _OPTIONS, _FORM)
        if broker.scheme not in _BROKERS:
            known = ", ".join(f"celery+{scheme}" for scheme in sorted(_BROKERS))
            raise InvalidArgumentError("executor", f"celery+{broker.scheme}", f"write one of {known}")
        self._task, self._queue = broker.options.get("task", ""), broker.options.get("queue")
        if not _TASK.fullmatch(self._task):
            raise InvalidArgumentError("executor", f"task={self._task}", f"name the task: {_FORM}")
        self._settings, self._timeout = settings, settings.timeout or TIMEOUT_S
        self._app = _app(broker, self._timeout)
        # The client blocks; more threads made it slower, not faster.
        self._thread = ThreadPoolExecutor(1, "dutiful-celery")
        self._producer: Producer | None = None
        self._errors = _errors(self._app)

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return Accepted with the task id, which is the run's key, once the broker has the message.

        Without a connection the outcome is Unreached; where the publish failed or took too long, it is
        Unanswered.
        """
        message = Message.of(dag, meta, self._settings)
        sent = self._thread.submit(self._send, [dag, meta.as_json()], _headers(message, meta), meta)
        try:
            with self._settings.clock.hold():
                async with asyncio.timeout(self._timeout):
                    return await asyncio.wrap_future(sent)
        except TimeoutError:
            problem = f"{self._broker.shown} did not take the run within {self._timeout:g} s"
            # A call that still waited for the thread was cancelled by the timeout: nothing was sent.
            return Unreached(problem) if sent.cancelled() else Unanswered(problem)

    async def probe(self) -> str | None:
        """Return why no run can be sent, or None; uses a connection of its own."""
        return await asyncio.to_thread(self._probe)

    async def close(self) -> None:
        """Close the connection and end the thread."""
        self._thread.submit(self._disconnect)
        await asyncio.to_thread(self._thread.shutdown)

    def _send(self, args: list[Any], headers: dict[str, int | str], meta: Meta) -> Outcome:
        try:
            producer = self._producer or self._connect()
        except self._errors as error:
            return Unreached(self._broker.problem("no connection to", error))
        options = {} if self._queue is None else {"queue": self._queue}
        try:
            self._app.send_task(
                self._task, args=args, task_id=meta.idempotency_key, producer=producer, headers=headers,
                retry=False, ignore_result=True, **options,
            )  # fmt: skip
        except EncodeError as error:
            return Refused(Reason.LAUNCH_REFUSED, self._broker.without_secrets(error))
        except self._errors as error:
            self._disconnect()
            return Unanswered(self._broker.problem("no answer from", error))
        return Accepted(meta.idempotency_key)

    def _connect(self) -> Producer:
        connection = self._app.connection_for_write()
        try:
            connection.connect()
            self._producer = self._app.amqp.Producer(connection.default_channel)
        except BaseException:
            connection.release()
            raise
        return self._producer

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.connection.release()

    def _probe(self) -> str | None:
        connection = self._app.connection_for_write()
        try:
            connection.connect()
            connection.default_channel.close()
        except self._errors as error:
            return self._broker.problem("no connection to", error)
        finally:
            connection.release()
        return None


def _app(broker: Broker, timeout: float) -> Celery:
    """Return a Celery app that only sends, without retries, and waits for the broker's confirmation."""
    app = Celery("dutiful", broker=_address(broker), set_as_current=False)
    app.conf.update(
        task_publish_retry=False,
        task_ignore_result=True,
        broker_connection_timeout=timeout,
        broker_connection_retry=False,
        broker_use_ssl=_tls(broker),
        broker_transport_options=_transport(broker, timeout),
    )
    return app


def _errors(app: Celery) -> tuple[type[Exception], ...]:
    """Return the exceptions of this broker's client: each client has error classes of its own."""
    connection = app.connection_for_write()
    raised = (*connection.connection_errors, *connection.channel_errors)
    return (OSError, KombuError, OperationalError, *raised)


def _transport(broker: Broker, timeout: float) -> dict[str, Any]:
    if broker.scheme.startswith("amqp"):
        return {"confirm_publish": True, "read_timeout": timeout, "write_timeout": timeout}
    return {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry_on_timeout": False,
        # Check a connection that was idle before using it: the broker may have been restarted.
        "health_check_interval": _IDLE_S,
    }


def _address(broker: Broker) -> str:
    user = "" if broker.user is None else quote(broker.user, safe="")
    password = "" if broker.password is None else f":{quote(broker.password, safe='')}"
    at = "@" if user or password else ""
    return f"{broker.scheme}://{user}{password}{at}{broker.hosts[0]}{broker.path}"


def _tls(broker: Broker) -> dict[str, Any] | None:
    if broker.scheme not in {"rediss", "amqps"}:
        return None
    broker.tls()
    prefix = "ssl_" if broker.scheme == "rediss" else ""
    files = {"ca_certs": "ca", "certfile": "cert", "keyfile": "key"}
    named = {
        f"{prefix}{name}": broker.options[option]
        for name, option in files.items()
        if option in broker.options
    }
    return {f"{prefix}cert_reqs": ssl.CERT_REQUIRED, **named}


def _headers(message: Message, meta: Meta) -> dict[str, int | str]:
    headers: dict[str, int | str] = {"dutiful_attempt": meta.attempt, "dutiful_epoch": meta.epoch}
    if message.signature is None:
        return headers
    return {**headers, "dutiful_timestamp": message.timestamp, "dutiful_signature": message.signature}
