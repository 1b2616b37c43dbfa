"""HTTP executors: one signed POST per run; the status of the answer is the outcome."""

from __future__ import annotations

import ipaddress
import json
import math
from contextlib import contextmanager, suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from dutiful.core.delivery_signature import signature
from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Outcome, Refused, Succeeded, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.launchers.executor import Mode
from dutiful.outbound import Allowed, ForbiddenTargetError, HttpClient, NoAnswerError, Outbound, parse_target
from dutiful.outbound.client import prepare
from dutiful.outbound.guard import check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from dutiful.launchers.executor import ExecutorSettings, Meta
    from dutiful.outbound import Answer, Target

# Seconds for one call. A webhook does its work before it answers, so it gets more time.
_TIMEOUTS = {Mode.REPORT: 10.0, Mode.WEBHOOK: 60.0}
# Timeout, too early, too many requests: the service is there, and asks for another attempt.
_LATER = {408, 425, 429}
_RUN_ID_MAX = 256


class HttpExecutor:
    """Posts every run to exactly one URL."""

    def __init__(self, url: str, settings: ExecutorSettings) -> None:
        """Raises InvalidArgumentError if no request may go to `url`."""
        target, allowed = reachable_target(url, settings)
        self._url, self._secret, self._clock = url, settings.secret, settings.clock
        self._mode, self._client = settings.mode, HttpClient()
        prepare(target)
        deadline = settings.timeout or _TIMEOUTS[settings.mode]
        self._outbound = Outbound(allowed=allowed, deadline=deadline, client=self._client)

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return the outcome that the answer means.

        2xx is Accepted, with the `run_id` of the answer if it has one; in the mode `webhook` it is Succeeded.
        No connection is Unreached. After the request has left, no answer, 408, 425, 429 and 5xx are
        Unanswered: the run may have begun all the same. Everything else is Refused.
        """
        body = json.dumps({"dag": dag, "meta": meta.as_json()}).encode()
        outbound = self._outbound._replace(plain_headers=self._headers(meta, body))
        try:
            answer = await outbound.send("POST", self._url, body)
        except ForbiddenTargetError as error:
            return Refused(Reason.LAUNCH_REFUSED, str(error))
        except NoAnswerError as error:
            return Unanswered(str(error)) if error.sent else Unreached(str(error))
        return self._outcome(answer)

    def _outcome(self, answer: Answer) -> Outcome:
        if answer.is_success and self._mode is Mode.WEBHOOK:
            return Succeeded(answer.excerpt() or None)
        if answer.is_success:
            return Accepted(_run_id(answer))
        if answer.status in _LATER or answer.status >= 500:
            return Unanswered(answer.problem(), _retry_after(answer, self._clock.now()))
        return Refused(Reason.LAUNCH_REFUSED, answer.problem())

    async def cancel(self, meta: Meta, run_id: str | None) -> None:
        """Send one DELETE to the URL, with the headers of the run; the answer is ignored."""
        headers = self._headers(meta, b"")
        if run_id is not None:
            headers["Dutiful-Run-Id"] = run_id
        with suppress(ForbiddenTargetError, NoAnswerError):
            await self._outbound._replace(plain_headers=headers).send("DELETE", self._url)

    async def close(self) -> None:
        """Close the connections that are kept open."""
        await self._client.close()

    def _headers(self, meta: Meta, body: bytes) -> dict[str, str]:
        timestamp = str(int(self._clock.now().timestamp()))
        headers = {
            "Idempotency-Key": meta.idempotency_key,
            "Dutiful-Attempt": str(meta.attempt),
            "Dutiful-Epoch": str(meta.epoch),
            "Dutiful-Timestamp": timestamp,
        }
        if self._secret is None:
            return headers
        signed = signature(self._secret.reveal(), timestamp, meta.idempotency_key, body)
        return {**headers, "Dutiful-Signature": signed}


def check_target(url: str) -> Target:
    """Return the target of a URL; raises InvalidArgumentError if it is not one of HTTP."""
    with _refusing(url):
        return parse_target(url)


def reachable_target(url: str, settings: ExecutorSettings) -> tuple[Target, Allowed]:
    """Return the target of a URL and the addresses that are open; raises InvalidArgumentError.

    An address in the URL is checked here; the addresses of a name are found and checked for every request.
    """
    target, allowed = check_target(url), settings.allowed
    if settings.opens_loopback:
        allowed = _with_loopback(target, allowed)
    if target.address is not None:
        with _refusing(url):
            check(target.host, target.port, [target.address], allowed)
    return target, allowed


@contextmanager
def _refusing(url: str) -> Iterator[None]:
    try:
        yield
    except ForbiddenTargetError as error:
        raise InvalidArgumentError("executor", _without_query(url), str(error)) from None


def _with_loopback(target: Target, allowed: Allowed) -> Allowed:
    """Return the allowed targets, with the loopback added if the URL itself names it."""
    # From Python 3.13 on, IPv4 addresses inside IPv6 addresses count as loopback, too; here they never do.
    mapped = getattr(target.address, "ipv4_mapped", None) is not None
    if target.address is not None and target.address.is_loopback and not mapped:
        return allowed._replace(networks=(*allowed.networks, ipaddress.ip_network(target.address)))
    if target.host == "localhost":
        return allowed._replace(hosts=allowed.hosts | {"localhost"})
    return allowed


def _without_query(url: str) -> str:
    """Return a URL without the parts that hold secrets."""
    return url.partition("?")[0].rpartition("@")[2]


def _retry_after(answer: Answer, now: datetime) -> int:
    """Return the answer's Retry-After in milliseconds: seconds or an HTTP date, 0 for neither."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return int(text[:12]) * 1000
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(0, math.ceil((at - now).total_seconds() * 1000))


def _run_id(answer: Answer) -> str | None:
    said = answer.json()
    run_id = said.get("run_id") if isinstance(said, dict) else None
    fits = isinstance(run_id, str) and 0 < len(run_id) <= _RUN_ID_MAX and run_id.isprintable()
    return run_id if fits else None
