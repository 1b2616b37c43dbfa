"""The questions and commands that a fleet takes from outside, and its answers as JSON documents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from dutiful.core.cron.zone import from_epoch_ms, read_instant, rfc_3339
from dutiful.core.errors import SchedulerError
from dutiful.core.policy import Reason
from dutiful.core.run import Status
from dutiful.fleet.run.output_log import logs_of
from dutiful.process.output_log import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from dutiful.core.cadence import Instant
    from dutiful.core.plan.verdict import Verdict
    from dutiful.core.run import Run
    from dutiful.fleet.types import ScheduleInfo
    from dutiful.fleet.view import Job

Document: TypeAlias = dict[str, Any]

HISTORY_MAX = 1000
# Most schedules that one request about past ticks may name, and most ticks of each.
IDS_MAX, PAST_MAX = 1000, 20
_OPEN = (Status.ENQUEUED, Status.STARTED)


class Target(NamedTuple):
    """The facts of a schedule on which a trigger depends: its type, its prompt, whether it is disabled."""

    type: str
    prompt: str
    disabled: bool = False


class Answering(Protocol):
    """A fleet that answers, running or stopped. All methods raise errors of the fleet."""

    async def status(self) -> Document:
        """Return the state of the fleet, its agents and its running jobs."""

    async def schedules(self, agent: str | None) -> list[Document]:
        """Return every schedule, or those of one agent, ordered by agent and name."""

    async def switch(self, agent: str, schedule: str | None, *, enabled: bool) -> list[Document]:
        """Enable or disable a schedule, or all of an agent, and return them."""

    async def run(self, agent: str, schedule: str, prompt: str | None) -> Document:
        """Request a run with the next pass, and return the schedule with the key of the run."""

    async def outcome(self, agent: str, schedule: str, run_at: Instant) -> Document | None:
        """Return the manual run of a schedule that has this key, or None."""

    async def cancel(self, agent: str, schedule: str) -> Document:
        """Cancel the running jobs of a schedule, and return how many."""

    async def stop_soon(self) -> Document:
        """Request that the fleet stops, and return its process number."""

    async def history(
        self, agent: str | None, schedule: str | None, limit: int, *, failed: bool
    ) -> list[Document]:
        """Return the last entries of the history, newest first."""

    async def past(self, ids: Collection[str]) -> dict[str, list[str]]:
        """Return the states of the last ticks of these schedules, oldest first, by id."""

    async def output(self, agent: str, schedule: str, number: int | None) -> Document | None:
        """Return the stored output of a run, by default of the latest, or None."""

    async def explain(self, agent: str, schedule: str, at: datetime) -> Document:
        """Return why a schedule ran at an instant, did not run, or will run."""


async def answer(fleet: Answering, request: object) -> Document | list[Document] | None:
    """Return the answer to a request, or raise the DutifulError that refuses it."""
    match request:
        case {"ask": "status"}:
            return await fleet.status()
        case {"ask": "stop"}:
            return await fleet.stop_soon()
        case {"ask": "past", "ids": [*ids]} if len(ids) <= IDS_MAX and all(
            isinstance(id_, str) for id_ in ids
        ):
            return await fleet.past(ids)
        case {"ask": "schedules", "agent": str() | None as agent}:
            return await fleet.schedules(agent)
        case {
            "ask": "history",
            "agent": str() | None as agent,
            "schedule": str() | None as schedule,
            "limit": int(limit),
            "failed": bool(failed),
        } if 1 <= limit <= HISTORY_MAX and (agent or not schedule):
            return await fleet.history(agent, schedule, limit, failed=failed)
        case {"ask": "enable" | "disable" as ask, "agent": str(agent), "schedule": str() | None as schedule}:
            return await fleet.switch(agent, schedule, enabled=ask == "enable")
        case {"ask": str(ask), "agent": str(agent), "schedule": str(schedule), **rest}:
            return await _answer_on_schedule(fleet, ask, agent, schedule, rest)
    raise SchedulerError("The request is not one that the fleet knows")


async def _answer_on_schedule(
    fleet: Answering, ask: str, agent: str, schedule: str, rest: dict[object, object]
) -> Document | list[Document] | None:
    match ask, rest:
        case "run", {"prompt": str() | None as prompt}:
            return await fleet.run(agent, schedule, prompt)
        case "outcome", {"run_at": int(run_at)}:
            return await fleet.outcome(agent, schedule, run_at)
        case "output", {"run": int() | None as number}:
            return await fleet.output(agent, schedule, number)
        case "cancel", _:
            return await fleet.cancel(agent, schedule)
        case "explain", {"at": str(at)}:
            return await fleet.explain(agent, schedule, read_instant("at", at, None))
    raise SchedulerError("The request is not one that the fleet knows")


def iso(at: datetime | None) -> str | None:
    """Return an instant as RFC 3339 in UTC."""
    return None if at is None else rfc_3339(at.astimezone(UTC))


def _iso_ms(at: Instant | None) -> str | None:
    return None if at is None else iso(from_epoch_ms(at))


def of_schedule(info: ScheduleInfo) -> Document:
    """Return the document of a schedule."""
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
        "problem": info.problem,
        "when": info.when,
    }


def of_job(job: Job, output: str | None) -> Document:
    """Return the document of a running job, with the latest line that it printed."""
    return {
        "agent": job.entry.agent.name,
        "schedule": job.entry.name,
        "trigger": "manual" if job.kind == "manual" else job.entry.written.type,
        "started_at": _iso_ms(job.started_at),
        "output": output,
    }


def of_run(run: Run, *, alive: bool = True, number: int | None = None) -> Document:
    """Return the document of a run, or of a range of occurrences that were skipped for one reason.

    `alive` is False if no process runs the fleet: a run that has not ended was then interrupted. `number` is
    that of its stored output.
    """
    status, reason = run.status, run.reason
    if not alive and status is Status.STARTED:
        status, reason = Status.FAILED, Reason.INTERRUPTED
    # The row of an interrupted run was ended when a later process found it; when it really ended is unknown.
    ended_at = None if reason is Reason.INTERRUPTED else run.ended_at
    agent, _, schedule = run.schedule_id.partition("/")
    return {
        "agent": agent,
        "schedule": schedule,
        "run": number,
        "run_at": _iso_ms(run.run_at),
        "run_until": _iso_ms(run.run_until),
        "ticks": run.ticks,
        "trigger": run.kind,
        "status": status.value,
        "reason": None if reason is None else reason.value,
        "attempt": run.attempt,
        "started_at": _iso_ms(run.started_at),
        "ended_at": _iso_ms(ended_at),
        "detail": run.detail,
    }


def states_of(rows: Iterable[Run], *, alive: bool = True) -> list[str]:
    """Return the states of the last ticks, oldest first; `rows` come newest first.

    `alive` is False if no process runs the fleet: a run that has not ended was then interrupted.
    """
    states = list[str]()
    for run in rows:
        states += [_state(run, alive=alive)] * min(run.ticks, PAST_MAX)
    return states[:PAST_MAX][::-1]


def _state(run: Run, *, alive: bool) -> str:
    if run.status in _OPEN:
        return "running" if alive else "failed"
    ran = "hand" if run.kind == "manual" else "ran"
    return {Status.FAILED: "failed", Status.SKIPPED: "skipped"}.get(run.status, ran)


def of_output(state_dir: Path, agent: str, schedule: str, number: int | None) -> Document | None:
    """Return the document of the stored output of a run, by default of the latest, or None if there is none.

    It has the end of a long output, without terminal control characters; HTML pages must still escape it.
    """
    found = (log for log in logs_of(state_dir, agent, schedule) if number in (None, log.number))
    log = next(found, None)
    if log is None:
        return None
    named = {"agent": agent, "schedule": schedule, "run": log.number}
    return {**named, "run_at": _iso_ms(log.run_at), "trigger": log.kind, **shown(log.read())._asdict()}


def of_runs(runs: Sequence[Run], state_dir: Path, *, alive: bool = True) -> list[Document]:
    """Return the documents of runs, with the numbers of the outputs that are stored in `state_dir`."""
    numbers = {
        (id_, log.run_at, log.kind): log.number
        for id_ in {run.schedule_id for run in runs}
        for log in logs_of(state_dir, *id_.split("/", 1))
    }
    keys = ((run.schedule_id, run.run_at, run.kind) for run in runs)
    return [of_run(run, alive=alive, number=numbers.get(key)) for run, key in zip(runs, keys, strict=True)]


def of_verdict(verdict: Verdict) -> Document:
    """Return the document of why a schedule ran at an instant, did not run, or will run."""
    return {
        "at": _iso_ms(verdict.at),
        "due": verdict.due,
        "code": str(verdict.code),
        "setting": verdict.setting,
        "text": verdict.text,
        "run": None if verdict.run is None else of_run(verdict.run),
    }
