"""HTTP jobs: one POST per job; the response is the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dutiful.fleet.errors import JobNotStartedError
from dutiful.fleet.file.settings import Key, allowed, headers, seconds, url
from dutiful.fleet.types import JobResult
from dutiful.outbound import Allowed, ForbiddenTargetError, NoAnswerError, Outbound
from dutiful.process.output import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.fleet.types import JobRequest
    from dutiful.outbound import Answer, Resolver

KEYS = {
    "url": Key(url, required=True, secret=True),
    "headers": Key(headers, {}, secret=True),
    "timeout": Key(seconds, 60.0),
    "allow": Key(allowed, Allowed()),
}


class HttpJob:
    """Sends every job to a URL and takes 2xx for success, unless the answer says otherwise."""

    def __init__(self, settings: Mapping[str, Any], resolver: Resolver | None = None) -> None:
        self._url = settings["url"]
        self._outbound = Outbound(
            settings["headers"], settings["allow"], settings["timeout"], resolver=resolver
        )

    async def execute(self, request: JobRequest) -> JobResult:
        """Return the result in the answer; raise JobNotStartedError if the request never left."""
        try:
            answer = await self._outbound.send("POST", self._url, _content(request))
        except ForbiddenTargetError as error:
            raise JobNotStartedError(str(error)) from None
        except NoAnswerError as error:
            if not error.sent:
                raise JobNotStartedError(str(error)) from None
            return JobResult(False, error=str(error))
        return _judged(answer)


def _content(request: JobRequest) -> dict[str, Any]:
    return {
        "agent": request.agent.name,
        "schedule": request.schedule_name,
        "prompt": request.prompt,
        "work_item": None if request.work_item is None else request.work_item._asdict(),
        **({} if request.error is None else {"error": request.error}),
    }


def _judged(answer: Answer) -> JobResult:
    if not answer.is_success:
        return JobResult(False, error=answer.problem())
    if not answer.is_whole:
        # The part that was cut off might say that the job has failed.
        return JobResult(
            False, error=f"the answer of {answer.origin} is longer than {len(answer.body)} bytes"
        )
    said = answer.json()
    if not isinstance(said, dict):
        return JobResult(True)
    success = said.get("success", True) is True
    error = None if success else _text(said.get("error")) or f"{answer.origin} answered without success"
    return JobResult(success, _text(said.get("summary")), error)


def _text(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) else None
