"""A run: the recorded life of one tick, and what it may become next."""

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
    """What people are shown."""

    ENQUEUED = "ENQUEUED"
    STARTED = "STARTED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class Phase(StrEnum):
    """What the engine does next with a run."""

    QUEUED = "queued"
    """Waits for its turn behind a run in flight."""
    DELAYED = "delayed"
    """Waits for its `fire_at`."""
    RETRY = "retry"
    """Failed, and waits for its `fire_at` to be tried again."""
    LAUNCHED = "launched"
    """Recorded, and handed to the launcher; how that went is not known yet."""
    ACCEPTED = "accepted"
    """The launcher took it; how it ended is reported later."""
    ENDED = "ended"


NEXT_PHASES = MappingProxyType(
    {
        Phase.QUEUED: frozenset({Phase.LAUNCHED, Phase.ENDED}),
        Phase.DELAYED: frozenset({Phase.QUEUED, Phase.LAUNCHED, Phase.ENDED}),
        # The launch was not answered, and then a report says that it arrived, or that its task failed.
        Phase.RETRY: frozenset({Phase.LAUNCHED, Phase.ACCEPTED, Phase.RETRY, Phase.ENDED}),
        Phase.LAUNCHED: frozenset({Phase.LAUNCHED, Phase.ACCEPTED, Phase.RETRY, Phase.ENDED}),
        # Accepted again: a report said that the run has started.
        Phase.ACCEPTED: frozenset({Phase.ACCEPTED, Phase.LAUNCHED, Phase.RETRY, Phase.ENDED}),
        Phase.ENDED: frozenset[Phase](),
    }
)
_ENDED, _LAUNCHED = Phase.ENDED, Phase.LAUNCHED
IN_FLIGHT = frozenset({Phase.LAUNCHED, Phase.ACCEPTED})
OPEN = frozenset(Phase) - {_ENDED}
# An open run with this reason was asked to end; the leader ends it in its next pass.
CANCEL_ASKED = Reason.INTERRUPTED


def frees_slot(run: Run) -> bool:
    """Return whether a change by the planner may have given back a slot of the run's capacity group."""
    return run.phase is Phase.RETRY or (run.phase is _ENDED and run.status is Status.FAILED)


class Run(NamedTuple):
    """One row of the ledger: a tick's run, or a stretch of ticks that were skipped for one reason.

    (schedule_id, run_at, kind) is unique. A stretch covers `ticks` ticks from run_at to run_until.
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
    # When the row was last written; like `created_at`, only where a ledger is kept.
    updated_at: Instant | None = None
    # How many attempts ended because the task failed; the other attempts never reached an end of the task.
    task_failures: int = 0
    # The fields from here on never change. A user asked for this past tick, to be judged by this overlap.
    backfill: Overlap | None = None
    # The identity of a manual run; that of a tick follows from the tick.
    own_key: str | None = None
    created_at: Instant | None = None
    # A JSON text that this run alone is given, in place of the input of its schedule.
    input: str | None = None

    @property
    def key(self) -> str:
        """Return the identity that is handed to every launch, so that receivers can dedupe."""
        return self.own_key or tick_key(self.schedule_id, self.run_at)

    def noted(self, at: Instant) -> Instant | None:
        """Return when a change of this row at `at` was written, as the row tells it."""
        return None if self.created_at is None else at

    def to(self, phase: Phase, **changes: Any) -> Run:
        """Return this run in its next phase; a step that the table does not allow is a bug."""
        assert phase in NEXT_PHASES[self.phase], (self, phase)
        return self._replace(phase=phase, **changes)

    @classmethod
    def launched(
        cls, schedule_id: str, tick: Instant, fire_at: Instant, now: Instant, epoch: int, status: Status,
        noted: Instant | None,
    ) -> Run:  # fmt: skip
        """Return the first attempt of a tick, launched at `now`; `noted` is `now` where a ledger is kept."""
        # A named tuple's own constructor takes twice as long, and this is done for every run.
        return tuple.__new__(cls, (
            schedule_id, tick, "schedule", status, _LAUNCHED, fire_at, None, 1, epoch, now,
            None, None, 1, None, None, noted, 0, None, None, noted, None,
        ))  # fmt: skip

    def ended(self, status: Status, reason: Reason | None, at: Instant, detail: str | None = None) -> Run:
        """Return this run ended; written out because it is done for every run (`make bench`, item 4a)."""
        (
            schedule_id, run_at, kind, _, phase, fire_at, _, attempt, epoch, started_at, _, until, ticks,
            run_id, _, _, failures, backfill, own_key, created_at, given,
        ) = self  # fmt: skip
        assert _ENDED in NEXT_PHASES[phase], self
        # A named tuple's own constructor takes twice as long.
        return tuple.__new__(Run, (
            schedule_id, run_at, kind, status, _ENDED, fire_at, reason, attempt, epoch, started_at, at,
            until, ticks, run_id, detail, None if created_at is None else at, failures, backfill, own_key,
            created_at, given,
        ))  # fmt: skip

    def beyond(self, decided: Run) -> Run | None:
        """Return what is left of a stretch whose first ticks were decided before."""
        if self.ticks <= decided.ticks:
            return None
        begins = (decided.run_until or decided.run_at) + 1
        return self._replace(run_at=begins, fire_at=begins, ticks=self.ticks - decided.ticks)
