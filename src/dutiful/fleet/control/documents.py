"""The fleet as JSON documents: what its control socket answers and the command line shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from dutiful.core.cron.zone import from_epoch_ms

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.plan.verdict import Verdict
    from dutiful.core.run import Run
    from dutiful.fleet.types import ScheduleInfo
    from dutiful.fleet.view import Job

Document: TypeAlias = dict[str, Any]


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
