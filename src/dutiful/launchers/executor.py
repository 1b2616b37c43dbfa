"""What all executors share: the protocol, what they are told of a run, and how they are set up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from dutiful.outbound import Allowed

if TYPE_CHECKING:
    from dutiful.core.plan.outcome import Outcome
    from dutiful.outbound.secret import Secret
    from dutiful.runtime.ports import Clock

Source: TypeAlias = Literal["schedule", "manual", "backfill"]


class Meta(NamedTuple):
    """What an executor is told of a run beside its DAG; the key is the same in every attempt."""

    source: Source
    schedule_id: str
    workflow_id: str
    version: int
    user_id: str
    scheduled_for: datetime
    idempotency_key: str
    attempt: int
    epoch: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them, the instant as RFC 3339 in UTC."""
        return {**self._asdict(), "scheduled_for": _rfc3339(self.scheduled_for)}


class Executor(Protocol):
    """Runs workflows, or hands them to somebody who does."""

    async def run(self, dag: Any, meta: Meta) -> Outcome:
        """Run the DAG, and return how that went; what is raised counts as a failed task.

        Succeeded and Failed: it ran to its end here. Accepted: somebody else runs it and reports. Refused:
        not to be tried again. Unreached: nothing was sent. Unanswered: it was sent and may have begun.
        """


@runtime_checkable
class Closing(Protocol):
    """An executor that has something to let go of."""

    async def close(self) -> None:
        """Let go of it; nothing is run any more."""


@runtime_checkable
class Probing(Protocol):
    """An executor that can tell whether runs would reach it."""

    async def probe(self) -> str | None:
        """Return what keeps a run from being handed over, or None; changes nothing and raises nothing."""


class ExecutorSettings(NamedTuple):
    """How an executor is set up; a `timeout` of None leaves it to the kind of executor."""

    clock: Clock
    secret: Secret | None = None
    allowed: Allowed = Allowed(setting="DUTIFUL_EXECUTOR_ALLOW")
    timeout: float | None = None


def _rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
