"""The errors of the fleet, with their English.

DutifulError
└── SchedulerError                  root of the fleet's errors
    ├── IntervalParseError          "5x" is not an interval (also a ValueError)
    ├── ScheduleTriggerError        a schedule was triggered and that failed
    ├── SchedulerShutdownError      jobs were still running when `stop` ran out of time
    ├── FleetConfigError            a fleet file, or an agent, with everything that is wrong in it
    ├── StateFileError              state.yaml cannot be read or written
    ├── FleetNotRunningError        no process runs the fleet that was asked
    ├── FleetControlError           the running fleet refuses, or does not answer
    ├── JobNotStartedError          a job certainly did not begin
    ├── WorkSourceError             a work source cannot be used
    └── FleetManagerError           the fleet cannot do what was requested
        ├── CronParseError          "0 25 * * *" is not a cron expression (also a ValueError)
        ├── AgentNotFoundError      there is no such agent (also a LookupError)
        ├── ScheduleNotFoundError   the agent has no such schedule (also a LookupError)
        └── ConcurrencyLimitError   the agent already does as many jobs as it may
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.errors import IntervalParseError, SchedulerError, listing, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "AgentNotFoundError",
    "ConcurrencyLimitError",
    "CronParseError",
    "FleetConfigError",
    "FleetControlError",
    "FleetManagerError",
    "FleetNotRunningError",
    "IntervalParseError",
    "JobNotStartedError",
    "ScheduleNotFoundError",
    "ScheduleTriggerError",
    "SchedulerError",
    "SchedulerShutdownError",
    "StateFileError",
    "WorkSourceError",
]

# Most problems that a message lists; the error itself has all of them.
_LISTED_MAX = 50


def near_name(name: str, known: Collection[str]) -> str:
    """Return ` (did you mean "KNOWN"?)` for the known name that is most like this one, else nothing."""
    near = get_close_matches(name[:128], known, n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""


# Paths of files are shown whole, and causes long enough to act on.
_PATH_LIMIT, _CAUSE_LIMIT = 4096, 500


class ScheduleTriggerError(SchedulerError):
    """A schedule was triggered and that failed; the cause is in `details`."""

    def __init__(self, agent_name: str, schedule_name: str, cause: BaseException) -> None:
        super().__init__(
            f'Schedule "{quoted(agent_name)}/{quoted(schedule_name)}" failed:'
            f" {quoted(str(cause), _CAUSE_LIMIT)}",
            agent_name=agent_name,
            schedule_name=schedule_name,
            cause=cause,
        )
        self.agent_name, self.schedule_name = agent_name, schedule_name


class SchedulerShutdownError(SchedulerError):
    """The scheduler has stopped, but jobs were still running when its time limit was reached."""

    def __init__(self, timeout_ms: int, running_job_count: int) -> None:
        super().__init__(
            f"Scheduler shutdown timed out after {timeout_ms}ms"
            f" with {running_job_count} job(s) still running",
            timed_out=True,
            timeout_ms=timeout_ms,
            running_job_count=running_job_count,
        )
        self.timed_out, self.running_job_count = True, running_job_count


class ConfigProblem(NamedTuple):
    """A problem in a fleet file: its place, the written value, and advice."""

    file: str | None
    line: int | None
    # Dotted, from the root of that file: `agents[0].schedules.daily.interval`.
    path: str
    message: str
    value: object = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        shown = quoted(repr(self.value)) if isinstance(self.value, str | int | float) else None
        return ": ".join(part for part in (place, self.path, shown, self.message) if part)


class FleetConfigError(SchedulerError):
    """A fleet file, or an agent given to the scheduler, cannot be used; `problems` has all reasons."""

    def __init__(self, subject: str, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        listed = "".join(f"\n  {line}" for line in lines[:_LISTED_MAX])
        if len(lines) > _LISTED_MAX:
            listed += f"\n  … and {len(lines) - _LISTED_MAX} more"
        super().__init__(
            f"{quoted(subject, _PATH_LIMIT)} cannot be used:{listed}", subject=subject, problems=lines
        )


class StateFileError(SchedulerError):
    """The state file cannot be read or written; it was left as it is.

    `damaged` distinguishes content that is no state file from a file that cannot be reached.
    """

    def __init__(self, file: str, problem: str, advice: str, *, damaged: bool = False) -> None:
        super().__init__(f"{file}: {problem}; {advice}", file=file, problem=problem, damaged=damaged)
        self.file, self.damaged = file, damaged


class FleetNotRunningError(SchedulerError):
    """No process runs the fleet that was asked."""

    def __init__(self, state_dir: str) -> None:
        super().__init__(
            f"The fleet with its state in {quoted(state_dir, _PATH_LIMIT)} is not running;"
            " start it with `dutiful fleet start`",
            state_dir=state_dir,
        )


class FleetControlError(SchedulerError):
    """The running fleet refuses a request, or does not answer; `kind` is the class of its error."""

    def __init__(self, message: str, kind: str = "FleetControlError") -> None:
        super().__init__(message, kind=kind)
        self.kind = kind


class JobNotStartedError(SchedulerError):
    """The job certainly did not begin: its work item is released instead of being reported as failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the job could not be started: {reason}", reason=reason)


class WorkSourceError(SchedulerError):
    """A work source cannot be used; the message says why and what to do."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}", source=source, problem=problem)


class FleetManagerError(SchedulerError):
    """Root of the errors about a request to the fleet."""


class CronParseError(FleetManagerError, ValueError):
    """A cron expression was refused; `field` is None when the expression as a whole is wrong."""

    def __init__(self, message: str, expression: object, field: str | None = None) -> None:
        super().__init__(message, expression=expression, field=field)
        self.expression, self.field = expression, field


class AgentNotFoundError(FleetManagerError, LookupError):
    """There is no agent with that name; the message lists those there are."""

    def __init__(self, agent_name: str, known: Collection[str]) -> None:
        super().__init__(
            f'There is no agent "{quoted(agent_name)}"{near_name(agent_name, known)}; {listing(known)}',
            agent_name=agent_name,
            known=sorted(known),
        )
        self.agent_name = agent_name


class ScheduleNotFoundError(FleetManagerError, LookupError):
    """The agent has no schedule with that name; the message lists those it has."""

    def __init__(self, agent_name: str, schedule_name: str, known: Collection[str]) -> None:
        super().__init__(
            f'Agent "{quoted(agent_name)}" has no schedule "{quoted(schedule_name)}"'
            f"{near_name(schedule_name, known)}; {listing(known)}",
            agent_name=agent_name,
            schedule_name=schedule_name,
            known=sorted(known),
        )
        self.agent_name, self.schedule_name = agent_name, schedule_name


class ConcurrencyLimitError(FleetManagerError):
    """The agent already does as many jobs as `instances.max_concurrent` allows."""

    def __init__(self, agent_name: str, running: int, max_concurrent: int) -> None:
        super().__init__(
            f'Agent "{quoted(agent_name)}" is at its limit: {running} of {max_concurrent} job(s) running;'
            " wait for one to end, or raise instances.max_concurrent",
            agent_name=agent_name,
            running=running,
            max_concurrent=max_concurrent,
        )
        self.agent_name, self.running, self.max_concurrent = agent_name, running, max_concurrent
