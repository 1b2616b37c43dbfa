"""A Celery task that does each run once and reports how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from dutiful.receivers.delivery import BadMessageError, Delivery, Envelope, Reports, Settled, Work
from dutiful.receivers.receiver import LATER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from dutiful.receivers.seen import Seen

_log = logging.getLogger("dutiful.receivers")
_VISIBLE_AFTER_S = 3600
T = TypeVar("T")


def celery_task(
    app: Any,
    name: str,
    *,
    seen: Seen,
    service: str | None = None,
    token: str | Callable[[], str] | None = None,
    secret: str | None = None,
    run_timeout: float = 3600.0,
) -> Callable[[Callable[[Delivery], Any]], Any]:
    """Return a decorator that makes `handle(delivery)` the Celery task of this name.

    The task is acknowledged after its work has been reported, and delivered again if its worker is lost.
    `run_timeout` is that of the schedules; a warning is logged for a broker that delivers again sooner.
    """
    reports = Reports(service, token)

    def decorate(handle: Callable[[Delivery], Any]) -> Any:
        work = Work(handle, seen, reports)

        def run(task: Any, dag: Any, meta: dict[str, Any]) -> None:
            try:
                delivery = Delivery.read(_envelope(task.request, dag, meta), secret)
            except BadMessageError as error:
                _log.error("a message is dropped: %s", error)
                return
            if run_on_loop(_prepared(seen, work, delivery)) is Settled.LATER:
                raise task.retry(countdown=LATER_S)

        # Acknowledge after the report, so that the broker delivers the message again if the worker is lost.
        registered = app.task(
            run,
            name=name,
            bind=True,
            shared=False,
            acks_late=True,
            reject_on_worker_lost=True,
            max_retries=None,
        )
        app.on_after_finalize.connect(lambda sender, **_: _warn(sender, run_timeout), weak=False)
        return registered

    return decorate


async def _prepared(seen: Seen, work: Work, delivery: Delivery) -> Settled:
    prepared = _Process.this().prepared
    try:
        if seen not in prepared:
            await seen.prepare()
            prepared.append(seen)
    except Exception:  # noqa: BLE001 - every database has errors of its own
        # An exception here would acknowledge the message, and the run would be lost.
        _log.exception("run %s is left for later: the seen store does not answer", delivery.key)
        return Settled.LATER
    return await work.do(delivery)


def _envelope(request: Any, dag: Any, meta: dict[str, Any]) -> Envelope:
    # Encode the arguments again exactly as the launcher did when it signed them.
    body = json.dumps({"dag": dag, "meta": meta}).encode()
    named = {name: request.get(name) for name in _HEADERS if request.get(name)}
    headers = {**(request.headers or {}), **named}
    signed = headers.get("dutiful_timestamp", ""), headers.get("dutiful_signature", "")
    return Envelope(str(request.id), body, None, *signed)


_HEADERS = ("dutiful_timestamp", "dutiful_signature")


class _Process:
    """The event loop of this process, on a thread of its own.

    The connections of a seen store belong to one loop, so all threads of a worker must use the same one.
    """

    _this: ClassVar[_Process | None] = None
    _making = threading.Lock()

    @classmethod
    def this(cls) -> _Process:
        """Return the loop of this process; a forked worker makes its own, as no thread survives a fork."""
        with cls._making:
            if cls._this is None or cls._this.number != os.getpid():
                cls._this = cls()
            return cls._this

    def __init__(self) -> None:
        self.number = os.getpid()
        self.prepared: list[Seen] = []
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="dutiful-receivers", daemon=True).start()


def run_on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs on the loop of this process."""
    running = asyncio.run_coroutine_threadsafe(work, _Process.this().loop)
    try:
        return running.result()
    except BaseException:
        # Celery ends a task at its time limit by raising here.
        running.cancel()
        raise


def _warn(app: Any, run_timeout: float) -> None:
    """Warn where the broker delivers a message again before its run has timed out."""
    visible_after = app.conf.broker_transport_options.get("visibility_timeout", _VISIBLE_AFTER_S)
    if str(app.conf.broker_url).startswith("redis") and visible_after < run_timeout:
        _log.warning(
            "visibility_timeout is %s s, but runs may take %s s: set broker_transport_options accordingly",
            visible_after, run_timeout,
        )  # fmt: skip
