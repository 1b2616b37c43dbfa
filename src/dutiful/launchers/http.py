"""Workflows that a web service runs: one signed POST, and the status of the answer as the outcome."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Any

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.outcome import Accepted, Outcome, Refused, Unanswered, Unreached
from dutiful.core.policy import Reason
from dutiful.core.signature import signature
from dutiful.outbound import Allowed, ForbiddenTargetError, HttpClient, NoAnswerError, Outbound, parse_target
from dutiful.outbound.client import tls_context
from dutiful.outbound.guard import check

if TYPE_CHECKING:
    from dutiful.launchers.executor import ExecutorSettings, Meta
    from dutiful.outbound import Answer, Target

_TIMEOUT = 10.0
# Too early, too many, too slow: the service is there, and asks to be asked again.
_LATER = {408, 425, 429}
_RUN_ID_MAX = 256


class HttpExecutor:
    """Posts every run to exactly one URL."""

    def __init__(self, url: str, settings: ExecutorSettings) -> None:
        """Raises InvalidArgumentError if no request may go to `url`."""
        try:
            target = parse_target(url)
            allowed = _with_loopback(target, settings.allowed)
            if target.address is not None:
                check(target.host, target.port, [target.address], allowed)
        except ForbiddenTargetError as error:
            raise InvalidArgumentError("executor", _without_query(url), str(error)) from None
        self._url, self._secret, self._clock = url, settings.secret, settings.clock
        self._client = HttpClient()
        if target.scheme == "https":
            # Load the authorities now: that takes tens of milliseconds, too long for a launch.
            tls_context()
        self._outbound = Outbound(allowed=allowed, deadline=settings.timeout or _TIMEOUT, client=self._client)

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Return what the answer means.

        2xx is Accepted, with the `run_id` of the answer if it has one. No connection is Unreached. After the
        request has left, no answer, 408, 425, 429 and 5xx are Unanswered: whoever says so may have begun all
        the same. Everything else is Refused.
        """
        body = json.dumps({"dag": dag, "meta": meta.as_json()}).encode()
        outbound = self._outbound._replace(plain_headers=self._headers(meta, body))
        try:
            answer = await outbound.send("POST", self._url, body)
        except ForbiddenTargetError as error:
            return Refused(Reason.LAUNCH_REFUSED, str(error))
        except NoAnswerError as error:
            return Unanswered(str(error)) if error.sent else Unreached(str(error))
        if answer.is_success:
            return Accepted(_run_id(answer))
        if answer.status in _LATER or answer.status >= 500:
            return Unanswered(answer.problem())
        return Refused(Reason.LAUNCH_REFUSED, answer.problem())

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


def _with_loopback(target: Target, allowed: Allowed) -> Allowed:
    """Return what is allowed, with the loopback if that is what the URL itself names."""
    if target.address is not None and target.address.is_loopback:
        return allowed._replace(networks=(*allowed.networks, ipaddress.ip_network(target.address)))
    if target.host == "localhost":
        return allowed._replace(hosts=allowed.hosts | {"localhost"})
    return allowed


def _without_query(url: str) -> str:
    """Return a URL without the parts that hold secrets."""
    return url.partition("?")[0].rpartition("@")[2]


def _run_id(answer: Answer) -> str | None:
    said = answer.json()
    run_id = said.get("run_id") if isinstance(said, dict) else None
    fits = isinstance(run_id, str) and 0 < len(run_id) <= _RUN_ID_MAX and run_id.isprintable()
    return run_id if fits else None
