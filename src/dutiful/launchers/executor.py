"""The executor protocol, the facts of a run that executors get, their settings, and how many runs fit."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from dutiful.core.cron.zone import rfc_3339
from dutiful.outbound import Allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dutiful.core.plan.outcome import Outcome
    from dutiful.outbound.secret import Secret
    from dutiful.process.output_log import OutputFolder
    from dutiful.runtime.ports import Clock

# Concurrent launches of one worker, unless a setting or the limit of open files says otherwise.
LAUNCHES_MAX = 256

Source: TypeAlias = Literal["schedule", "manual", "backfill"]


class Meta(NamedTuple):
    """The facts of a run that an executor gets beside the DAG; the key is the same in every attempt."""

    source: Source
    schedule_id: str
    workflow_id: str
    version: int
    user_id: str
    scheduled_for: datetime
    idempotency_key: str
    attempt: int
    epoch: int
    labels: Mapping[str, str] = MappingProxyType({})
    # The input of the schedule, or the input that a manual run was given in its place.
    input: Any = None
    # The number of attempts in which the task itself failed; 0 means that attempts only repeated the launch.
    task_failures: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON, the instant as RFC 3339 in UTC; without `task_failures`."""
        told = {
            **self._asdict(),
            "scheduled_for": rfc_3339(self.scheduled_for.astimezone(UTC)),
            "labels": {**self.labels},
        }
        del told["task_failures"]
        return told


class Mode(StrEnum):
    """The meaning of a 2xx of a web service: accepted, with a report to follow, or succeeded."""

    REPORT = "report"
    WEBHOOK = "webhook"


class Executor(Protocol):
    """Runs workflows, or hands them to another system.

    An executor may have an attribute `descriptors`: how many open files one run needs. Without it one is
    assumed. With `in_process = True` a launched run is shown as STARTED: it runs here, not in a queue.
    """

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Run the DAG, and return the outcome; an exception counts as a failed task.

        Succeeded and Failed: the run ended here. Accepted: another system runs it and reports. Refused: not
        to be tried again. Unreached: nothing was sent. Unanswered: it was sent and may have begun.
        """


@runtime_checkable
class Cancelling(Protocol):
    """An executor that can be asked to end a run that it has accepted."""

    async def cancel(self, meta: Meta, run_id: str | None) -> None:
        """Ask once for the end of the run; raises nothing, and does not wait for the end."""


@runtime_checkable
class Closing(Protocol):
    """An executor that holds resources, such as connections."""

    async def close(self) -> None:
        """Release the resources; `run` is not called any more."""


@runtime_checkable
class Probing(Protocol):
    """An executor that can tell whether runs would reach it."""

    async def probe(self) -> str | None:
        """Return why no run can be handed over, or None; changes nothing and raises nothing."""


class ExecutorSettings(NamedTuple):
    """The settings of an executor; with a `timeout` of None each kind of executor has its own."""

    clock: Clock
    secret: Secret | None = None
    allowed: Allowed = Allowed(setting="DUTIFUL_EXECUTOR_ALLOW")
    timeout: float | None = None
    mode: Mode = Mode.REPORT
    # Whether a URL may open the loopback: the operator's URL may, the URL of a schedule may not.
    opens_loopback: bool = True
    # Where the output of commands is kept; None keeps none.
    outputs: OutputFolder | None = None


def launches_that_fit(executor: object, descriptors: int) -> int:
    """Return how many runs may be launched at a time, given the limit of open files of the process.

    Launches take at most half of the files: the store and the connections of callers need some too.
    """
    each = max(1, getattr(executor, "descriptors", 1))
    return max(1, min(LAUNCHES_MAX, descriptors // 2 // each))
