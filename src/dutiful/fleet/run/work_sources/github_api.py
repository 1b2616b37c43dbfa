"""Requests to the REST API of GitHub, with its headers, its rate limits and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import DutifulError
from dutiful.fleet.run.work_sources.claim import WorkSourceError
from dutiful.outbound import Allowed, Outbound

if TYPE_CHECKING:
    from dutiful.outbound import Answer
    from dutiful.runtime.ports import Clock

# Fifty issues, each with a body of up to 64 KiB and as much again around it.
_ANSWER_LIMIT = 8 * 1024 * 1024
# A write is worth waiting for: without it an issue stays with a label that is not true.
_PATIENCE, _ATTEMPTS = 60.0, 3
# When a limit is hit and nothing is said about its end.
_PAUSE = 60.0


class RateLimitedError(WorkSourceError):
    """GitHub wants no requests for so many `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__("work source `github`", f"the rate limit is used up for {seconds:g} s")
        self.seconds = seconds


class GithubApi(NamedTuple):
    """The API under `url`, for the owner of the token."""

    url: str
    token: str
    allowed: Allowed
    timeout: float
    clock: Clock

    async def ask(
        self, method: str, path: str, content: object = None, *, absent: int | None = None
    ) -> Answer:
        """Return the answer, also one with the status `absent`; raise WorkSourceError for any other failure.

        Writes wait for the end of a short rate limit; what is longer, and reads, raise RateLimitedError.
        """
        attempts = _ATTEMPTS if method != "GET" else 1
        for attempt in range(1, attempts + 1):
            answer = await self._send(method, path, content)
            pause = self._pause(answer)
            if pause is None:
                break
            if attempt == attempts or pause > _PATIENCE:
                raise RateLimitedError(pause)
            await self.clock.sleep(pause)
        if not answer.is_success and answer.status != absent:
            raise WorkSourceError(
                "work source `github`", f"{method} {path.partition('?')[0]}: {answer.problem()}"
            )
        return answer

    async def _send(self, method: str, path: str, content: object) -> Answer:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self.token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        outbound = Outbound(headers, self.allowed, self.timeout, _ANSWER_LIMIT)
        try:
            with self.clock.hold():
                return await outbound.send(method, self.url + path, content)
        except DutifulError as error:
            raise WorkSourceError("work source `github`", str(error)) from None

    def _pause(self, answer: Answer) -> float | None:
        """Return how long to wait if this answer is about a rate limit."""
        after, reset = answer.headers.get("retry-after", ""), answer.headers.get("x-ratelimit-reset", "")
        used_up = answer.headers.get("x-ratelimit-remaining") == "0"
        if answer.status not in {403, 429} or not (answer.status == 429 or after or used_up):
            return None
        if after.isdigit():
            return float(after)
        if used_up and reset.isdigit():
            return max(1.0, int(reset) - self.clock.now().timestamp())
        return _PAUSE
