"""Policies: the choices of a schedule for overlap, missed ticks, orphans, retries and limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

# Stores and schedule files read a field of a policy by its annotation, so a duration says its unit there.
Milliseconds = int


class Overlap(StrEnum):
    """What to do with a tick that is due while a run of the same schedule is in flight."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    BUFFER_ONE = "buffer_one"
    CANCEL_OTHER = "cancel_other"


class CatchUp(StrEnum):
    """What to do with undecided ticks older than the grace: the process was down, or the clock leapt."""

    NONE = "none"
    LATEST = "latest"
    FIRE_IMMEDIATELY = "fire_immediately"
    SPREAD = "spread"


class OnOrphan(StrEnum):
    """What to do with a run that was in flight under an instance that died."""

    RESTART = "restart"
    WAIT = "wait"
    RELAUNCH = "relaunch"
    GIVE_UP = "give_up"


class Reason(StrEnum):
    """Why a tick was skipped or a run failed: the closed list of reasons in the ledger."""

    OVERLAP = "overlap"
    MISSED = "missed"
    COALESCED = "coalesced"
    CATCHUP_CAP = "catchup_cap"
    QUEUE_FULL = "queue_full"
    REPLACED = "replaced"
    PAUSED = "paused"
    OUTSIDE_WINDOW = "outside_window"
    LIMIT_REACHED = "limit_reached"
    AT_CAPACITY = "at_capacity"
    NO_WORK = "no_work"
    QUARANTINED = "quarantined"

    LAUNCH_REFUSED = "launch_refused"
    LAUNCH_FAILED = "launch_failed"
    UNKNOWN_WORKFLOW = "unknown_workflow"
    OUTCOME_UNKNOWN = "outcome_unknown"
    LOST_RUN = "lost_run"
    INTERRUPTED = "interrupted"
    TASK_FAILED = "task_failed"


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after `delay`, each time `backoff` times longer, at most `limit` times."""

    delay: Milliseconds
    limit: int | None = None
    backoff: int = 1


@dataclass(frozen=True, slots=True)
class Capacity:
    """At most `limit` runs in flight among all schedules that name the same group."""

    group: str
    limit: int


@dataclass(frozen=True, slots=True)
class Policy:
    """All choices of one schedule."""

    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.NONE
    # A tick that is late by no more than this counts as on time.
    grace: Milliseconds = 60_000
    # At most this many ticks of one schedule are listed in one pass.
    catch_up_cap: int = 100
    jitter: Milliseconds = 0
    jitter_early: bool = True
    # After a task failure; the next tick may start first, and then ends the wait for the retry.
    retry: Retry | None = None
    # After a launch that did not reach the executor; the run counts as in flight meanwhile.
    launch_retry: Retry | None = None
    capacity: Capacity | None = None
    max_runs: int | None = None
    on_orphan: OnOrphan = OnOrphan.RELAUNCH
    run_timeout: Milliseconds | None = 3_600_000
    queue_limit: int = 1000
    # Without a ledger only runs in flight have rows; the schedule's state is kept all the same.
    ledger: bool = True
    # How long, and how many, ended rows of the ledger are kept; None: the setting of the store applies.
    retention_age: Milliseconds | None = None
    retention_rows: int | None = None
    # A tick should start, and its run end, within this time after its fire time, and a run should succeed at
    # least this often. The planner ignores these; a schedule that misses one raises ExpectationMissed.
    start_within: Milliseconds | None = None
    finish_within: Milliseconds | None = None
    succeed_every: Milliseconds | None = None

    @property
    def group(self) -> str | None:
        """Return the name of the capacity group, or None."""
        return None if self.capacity is None else self.capacity.group


class Overrides(NamedTuple):
    """The choices of the process that fires, for all schedules; they take precedence over every policy."""

    # None leaves each schedule its own.
    catch_up_cap: int | None = None
    launch_retry: Retry | None = None
    # A shorter grace counts as this long: the time in which another process takes over.
    grace_min: Milliseconds = 0


NO_OVERRIDES = Overrides()
