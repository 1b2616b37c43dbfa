"""Deliveries, and the work of every receiver: read a message, check whether it is new, do it, report."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import urllib.error
import urllib.request
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from dutiful.core.delivery_signature import is_signed
from dutiful.core.errors import DutifulError
from dutiful.core.plan.outcome import raised
from dutiful.receivers.seen import Answer, Claim, TaskFailedError
from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.receivers.seen import Seen
    from dutiful.runtime.ports import Clock


class BadMessageError(DutifulError):
    """The message is not a run published by dutiful, or its signature is wrong."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"This is no message of dutiful: {reason}", reason=reason)


class Envelope(NamedTuple):
    """A message as the queue holds it: the body, and the values beside it."""

    key: str
    body: bytes
    attempt: str | None = None
    """None where the queue does not repeat the attempt beside the body."""
    timestamp: str = ""
    signature: str = ""


class Delivery(NamedTuple):
    """One run, delivered once or more often; the key is the same each time."""

    key: str
    attempt: int
    epoch: int
    dag: Any
    meta: dict[str, Any]
    connection: Any = None
    """The connection inside the transaction that records the key, where the seen store has one."""
    starts: int = 1
    """How often consumers have started the work of this key, this time included.

    Above 1, an earlier start failed, or its consumer died, perhaps after its effect.
    """

    @classmethod
    def read(cls, envelope: Envelope, secret: str | None) -> Delivery:
        """Return the run of a message; raises BadMessageError, also if it is not signed with the secret."""
        try:
            content = json.loads(envelope.body)
            dag, meta = content["dag"], content["meta"]
            found = cls(str(meta["idempotency_key"]), int(meta["attempt"]), int(meta["epoch"]), dag, meta)
        except (ValueError, KeyError, TypeError):
            raise BadMessageError("the body is not JSON with `dag` and `meta`") from None
        if found.key != envelope.key:
            raise BadMessageError("its key is not the one in its body")
        if envelope.attempt not in (None, str(found.attempt)):
            raise BadMessageError("its attempt is not the one in its body")
        signed = envelope.timestamp, envelope.key, envelope.body, envelope.signature
        if secret is not None and not is_signed(secret, *signed):
            raise BadMessageError("its signature is missing or wrong")
        return found


_log = logging.getLogger("dutiful.receivers")
_TIMEOUT_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 15.0
# Final answers, which a repetition would not change: the run is unknown, or the report is malformed.
_FINAL = {400, 404, 409, 410, 422}


class Reports:
    """Posts to `SERVICE/runs/KEY/status`; without a service it does nothing."""

    def __init__(
        self, service: str | None, token: str | Callable[[], str] | None = None, clock: Clock | None = None
    ) -> None:
        self._service = service.rstrip("/") if service else None
        self._token, self._clock = token, clock or SystemClock()
        # No proxy and no redirect: the report goes to this service or nowhere.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())

    async def send(self, key: str, attempt: int, status: str, error: str | None = None) -> None:
        """Return once the service has answered; repeats with growing pauses until then."""
        if self._service is None:
            return
        content: dict[str, Any] = {"status": status, "attempt": attempt}
        body = json.dumps(content if error is None else {**content, "error": error[:2000]}).encode()
        pause = _FIRST_PAUSE_S
        while (problem := await asyncio.to_thread(self._post, key, body)) is not None:
            _log.warning("%s of run %s is not reported yet: %s", status, key, problem)
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _post(self, key: str, body: bytes) -> str | None:
        """Return None once the service has answered, else the problem."""
        request = urllib.request.Request(f"{self._service}/runs/{key}/status", body, method="POST")  # noqa: S310
        request.add_header("Content-Type", "application/json")
        if self._token is not None:
            token = self._token() if callable(self._token) else self._token
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S):
                return None
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _FINAL:
                    return f"{self._service} answers {error.code}"
                _log.error("run %s: the service refuses the report with %s", key, error.code)
                return None
        except OSError as error:
            return f"no answer from {self._service}: {getattr(error, 'reason', error)}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class Settled(Enum):
    """What to do with the message."""

    ACKNOWLEDGE = auto()
    LATER = auto()


class Work:
    """Calls `handle(delivery)` for each run that is new."""

    def __init__(self, handle: Callable[[Delivery], Any], seen: Seen, reports: Reports) -> None:
        self._handle, self._seen, self._reports = handle, seen, reports

    async def do(self, delivery: Delivery) -> Settled:
        """Return what to do with the message, after the service has answered the report."""
        try:
            claim = await self._claimed(delivery)
        except TaskFailedError as error:
            claim = Claim(Answer.DONE, str(error))
        except Exception:  # noqa: BLE001 - every database has errors of its own
            # The seen store did not answer; the next delivery shows whether the work is done.
            _log.exception("run %s is left for later", delivery.key)
            return Settled.LATER
        if claim.answer is Answer.BUSY:
            return Settled.LATER
        if claim.answer is not Answer.OLDER:
            status = "SUCCESS" if claim.error is None else "FAILED"
            await self._reports.send(delivery.key, delivery.attempt, status, claim.error)
        return Settled.ACKNOWLEDGE

    async def _claimed(self, delivery: Delivery) -> Claim:
        """Return the answer for this delivery, after its work where it was new; raises TaskFailedError."""
        async with self._seen.once(delivery.key, delivery.attempt) as claim:
            if claim.answer is not Answer.NEW:
                return claim
            if claim.starts > 1:
                said = "run %s is started again: start %d, attempt %d"
                _log.info(said, delivery.key, claim.starts, delivery.attempt)
            started = asyncio.create_task(self._reports.send(delivery.key, delivery.attempt, "STARTED"))
            try:
                await self._call(delivery._replace(connection=claim.connection, starts=claim.starts))
            finally:
                started.cancel()
                with suppress(asyncio.CancelledError):
                    await started
        return Claim(Answer.DONE)

    async def _call(self, delivery: Delivery) -> None:
        try:
            if inspect.iscoroutinefunction(self._handle):
                await self._handle(delivery)
            elif inspect.isawaitable(answer := await asyncio.to_thread(self._handle, delivery)):
                await answer
        except Exception as error:
            _log.exception("run %s failed", delivery.key)
            raise TaskFailedError(raised(error).detail or type(error).__name__) from error
