"""What a fleet can be asked and told from outside, whether it runs or not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dutiful.core.cron.zone import from_epoch_ms
from dutiful.core.errors import InvalidArgumentError, SchedulerError

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.plan.verdict import Verdict
    from dutiful.core.run import Run
    from dutiful.fleet.types import ScheduleInfo
    from dutiful.fleet.view import Job

Document: TypeAlias = dict[str, Any]

HISTORY_MAX = 1000


class Answering(Protocol):
    """A fleet that answers. All raise what is wrong as errors of the fleet."""

    async def status(self) -> Document:
        """Return what the fleet does."""

    async def schedules(self) -> list[Document]:
        """Return every schedule, ordered by agent and name."""

    async def switch(self, agent: str, schedule: str, *, enabled: bool) -> Document:
        """Enable or disable a schedule and return it."""

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:
        """Have a schedule run with the next pass, and return it."""

    async def history(self, agent: str, schedule: str, limit: int) -> list[Document]:
        """Return what became of the last occurrences, newest first."""

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant, did not, or will."""


async def answer(fleet: Answering, request: object) -> Document | list[Document]:
    """Return the answer to a request, or raise the DutifulError that speaks against it."""
    match request:
        case {"ask": "status"}:
            return await fleet.status()
        case {"ask": "schedules"}:
            return await fleet.schedules()
        case {"ask": str(ask), "agent": str(agent), "schedule": str(schedule), **rest}:
            return await _answer_on_schedule(fleet, ask, agent, schedule, rest)
    raise SchedulerError("The request is not one that the fleet knows")


async def _answer_on_schedule(
    fleet: Answering, ask: str, agent: str, schedule: str, rest: dict[object, object]
) -> Document | list[Document]:
    match ask, rest:
        case "enable" | "disable", _:
            return await fleet.switch(agent, schedule, enabled=ask == "enable")
        case "run", {"prompt": str() | None as prompt}:
            return await fleet.run(agent, schedule, prompt)
        case "history", {"limit": int(limit)} if 1 <= limit <= HISTORY_MAX:
            return await fleet.history(agent, schedule, limit)
        case "explain", {"at": str(at)}:
            return await fleet.explain(agent, schedule, _instant(at))
    raise SchedulerError("The request is not one that the fleet knows")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidArgumentError("at", text, "write ISO 8601 with an offset, such as 2026-03-08T06:30:00Z")
    return at


def iso(at: datetime | None) -> str | None:
    """Return an instant as RFC 3339 in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _iso_ms(at: Instant | None) -> str | None:
    return None if at is None else iso(from_epoch_ms(at))


def of_schedule(info: ScheduleInfo) -> Document:
    """Return a schedule as it is shown."""
    reason = info.skip_reason
    return {
        "agent": info.agent_name,
        "schedule": info.name,
        "type": info.type,
        "status": info.status,
        "last_run_at": iso(info.last_run_at),
        "next_run_at": iso(info.next_run_at),
        "last_error": info.last_error,
        "skip_reason": None if reason is None else reason.value,
        "skipped_since": iso(info.skipped_since),
    }


def of_job(job: Job, output: str | None) -> Document:
    """Return a job that runs, with the latest line that it printed."""
    return {
        "agent": job.entry.agent.name,
        "schedule": job.entry.name,
        "trigger": "manual" if job.kind == "manual" else job.entry.written.type,
        "started_at": _iso_ms(job.started_at),
        "output": output,
    }


def of_run(run: Run) -> Document:
    """Return what became of an occurrence, or of several that were skipped for one reason."""
    return {
        "run_at": _iso_ms(run.run_at),
        "run_until": _iso_ms(run.run_until),
        "ticks": run.ticks,
        "trigger": run.kind,
        "status": run.status.value,
        "reason": None if run.reason is None else run.reason.value,
        "started_at": _iso_ms(run.started_at),
        "ended_at": _iso_ms(run.ended_at),
        "detail": run.detail,
    }


def of_verdict(verdict: Verdict) -> Document:
    """Return why a schedule ran at an instant, did not, or will."""
    return {
        "at": _iso_ms(verdict.at),
        "due": verdict.due,
        "code": str(verdict.code),
        "setting": verdict.setting,
        "text": verdict.text,
        "run": None if verdict.run is None else of_run(verdict.run),
    }
