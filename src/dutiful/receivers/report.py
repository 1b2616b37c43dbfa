"""Status reports to the service: repeated until it has answered."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from dutiful.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from dutiful.runtime.ports import Clock

_log = logging.getLogger("dutiful.receivers")
_TIMEOUT_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 15.0
# The service has understood and will say the same again: the run is unknown, or the report is malformed.
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
        """Return None once the service has answered, else what to wait for."""
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
