"""A run: the recorded life of one tick, and the phases it may enter next."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dutiful.core.policy import Reason
from dutiful.core.schedule import tick_key

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.policy import Overlap

Kind = Literal["schedule", "manual"]


class Status(StrEnum):
    """The state of a run as shown to users."""

    ENQUEUED = "ENQUEUED"
    STARTED = "STARTED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class Phase(StrEnum):
    """The engine's next step for a run."""

    QUEUED = "queued"
    """Waits behind a run in flight."""
    DELAYED = "delayed"
    """Waits for its `fire_at`."""
    RETRY = "retry"
    """Failed, and waits for its `fire_at` to be retried."""
    LAUNCHED = "launched"
    """Recorded and handed to the launcher, which has not answered yet."""
    ACCEPTED = "accepted"
    """Accepted by an executor, which reports the end later."""
    ENDED = "ended"


NEXT_PHASES = MappingProxyType(
    {
        Phase.QUEUED: frozenset({Phase.LAUNCHED, Phase.ENDED}),
        Phase.DELAYED: frozenset({Phase.QUEUED, Phase.LAUNCHED, Phase.ENDED}),
        # A report may show that an unanswered launch did arrive, or that its task failed.
        Phase.RETRY: frozenset({Phase.LAUNCHED, Phase.ACCEPTED, Phase.RETRY, Phase.ENDED}),
        Phase.LAUNCHED: frozenset({Phase.LAUNCHED, Phase.ACCEPTED, Phase.RETRY, Phase.ENDED}),
        # ACCEPTED may follow ACCEPTED: a report said that the run has started.
        Phase.ACCEPTED: frozenset({Phase.ACCEPTED, Phase.LAUNCHED, Phase.RETRY, Phase.ENDED}),
        Phase.ENDED: frozenset[Phase](),
    }
)
_ENDED, _LAUNCHED = Phase.ENDED, Phase.LAUNCHED
IN_FLIGHT = frozenset({Phase.LAUNCHED, Phase.ACCEPTED})
OPEN = frozenset(Phase) - {_ENDED}
# An open run with this reason was cancelled by a user; the leader ends it in its next pass.
CANCEL_ASKED = Reason.INTERRUPTED


def frees_slot(run: Run) -> bool:
    """Return whether a change by the planner may have freed a slot of the run's capacity group."""
    return run.phase is Phase.RETRY or (run.phase is _ENDED and run.status is Status.FAILED)


class Run(NamedTuple):
    """One row of the ledger: the run of a tick, or a range of ticks skipped for one reason.

    (schedule_id, run_at, kind) is unique. A range covers `ticks` ticks from run_at to run_until.
    """

    schedule_id: str
    run_at: Instant
    kind: Kind
    status: Status
    phase: Phase
    fire_at: Instant
    reason: Reason | None = None
    attempt: int = 0
    epoch: int = 0
    started_at: Instant | None = None
    ended_at: Instant | None = None
    run_until: Instant | None = None
    ticks: int = 1
    run_id: str | None = None
    detail: str | None = None
    # When the row was last written; like `created_at`, set only where a ledger is kept.
    updated_at: Instant | None = None
    # How many attempts ended because the task failed. Other attempts ended without an end of the task, as a
    # failed launch does.
    task_failures: int = 0
    # The fields from here on never change. `backfill`: a user requested this past tick, under this overlap.
    backfill: Overlap | None = None
    # The key of a manual run; the key of a tick is derived from the tick.
    own_key: str | None = None
    created_at: Instant | None = None
    # JSON text given to this run alone, in place of the input of its schedule.
    input: str | None = None

    @property
    def key(self) -> str:
        """Return the idempotency key sent with every launch, so that receivers can drop duplicates."""
        return self.own_key or tick_key(self.schedule_id, self.run_at)

    @property
    def trigger(self) -> str:
        """Return the origin of a run: schedule, manual or backfill."""
        if self.kind == "manual":
            return "manual"
        return "schedule" if self.backfill is None else "backfill"

    def noted(self, at: Instant) -> Instant | None:
        """Return `at` as the time of a change to this row; None where no ledger records times."""
        return None if self.created_at is None else at

    def to(self, phase: Phase, **changes: Any) -> Run:
        """Return this run in its next phase; a transition that NEXT_PHASES lacks is a bug."""
        assert phase in NEXT_PHASES[self.phase], (self, phase)
        return self._replace(phase=phase, **changes)

    @classmethod
    def launched(
        cls, schedule_id: str, tick: Instant, fire_at: Instant, now: Instant, epoch: int, status: Status,
        noted: Instant | None,
    ) -> Run:  # fmt: skip
        """Return the first attempt of a tick, launched at `now`; `noted` is `now` where a ledger is kept."""
        # tuple.__new__ takes half as long as the named tuple's constructor, and every run is made here.
        return tuple.__new__(cls, (
            schedule_id, tick, "schedule", status, _LAUNCHED, fire_at, None, 1, epoch, now,
            None, None, 1, None, None, noted, 0, None, None, noted, None,
        ))  # fmt: skip

    def ended(self, status: Status, reason: Reason | None, at: Instant, detail: str | None = None) -> Run:
        """Return this run ended; unpacked by hand because every run ends here (`make bench`, item 4a)."""
        (
            schedule_id, run_at, kind, _, phase, fire_at, _, attempt, epoch, started_at, _, until, ticks,
            run_id, _, _, failures, backfill, own_key, created_at, given,
        ) = self  # fmt: skip
        assert _ENDED in NEXT_PHASES[phase], self
        # tuple.__new__ takes half as long as the named tuple's constructor.
        return tuple.__new__(Run, (
            schedule_id, run_at, kind, status, _ENDED, fire_at, reason, attempt, epoch, started_at, at,
            until, ticks, run_id, detail, None if created_at is None else at, failures, backfill, own_key,
            created_at, given,
        ))  # fmt: skip

    def beyond(self, decided: Run) -> Run | None:
        """Return the rest of a range whose first ticks were decided before; None where nothing is left."""
        if self.ticks <= decided.ticks:
            return None
        begins = (decided.run_until or decided.run_at) + 1
        return self._replace(run_at=begins, fire_at=begins, ticks=self.ticks - decided.ticks)
