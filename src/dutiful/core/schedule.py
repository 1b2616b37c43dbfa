"""Schedules, their changing state, and the identity of a tick."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.policy import Policy

if TYPE_CHECKING:
    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.policy import Reason


class Task(NamedTuple):
    """What to invoke: a name the launcher knows, and a text it hands on."""

    name: str
    payload: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """A schedule has ticks from `start` to `end`, both included; None is open."""

    start: Instant | None = None
    end: Instant | None = None


ALWAYS = Window()


class Schedule(NamedTuple):
    """The durable binding of a task, a cadence and a policy under one stable id."""

    id: str
    task: Task
    cadence: Cadence
    policy: Policy = Policy()
    window: Window = ALWAYS
    paused: bool = False


class SkippedRange(NamedTuple):
    """The ledger row that ends at the cursor and may still grow."""

    run_at: Instant
    reason: Reason
    ticks: int


class State(NamedTuple):
    """What the store remembers of a schedule beside its declaration."""

    # Every tick up to and including this instant is decided.
    cursor: Instant
    runs_started: int = 0
    attempted_at: Instant | None = None
    succeeded_at: Instant | None = None
    failed_at: Instant | None = None
    ended_at: Instant | None = None
    skipped: SkippedRange | None = None
    quarantine: str | None = None
    # Ticks up to here may have been decided before the clock was set back. Their rows tell which were, and
    # those get no second entry.
    decided_until: Instant = 0


def tick_key(schedule_id: str, run_at: Instant) -> str:
    """Return the identity of a tick, handed to every launch so that receivers can dedupe."""
    return hashlib.sha256(f"{schedule_id}:{run_at // 1000}".encode()).hexdigest()


def is_troubled(state: State) -> bool:
    """Return whether somebody should look: quarantined, its last run failed, or it skips tick after tick."""
    failed = state.failed_at is not None and state.failed_at > (state.succeeded_at or 0)
    skipping = state.skipped is not None and state.skipped.ticks >= 3 and state.skipped.reason != "paused"
    return state.quarantine is not None or failed or skipping


def owner_of(schedule: Schedule) -> str | None:
    """Return the user whom the payload of a schedule names, None where it names none."""
    return payload_owner(schedule.task.payload)


def payload_owner(payload: str) -> str | None:
    """Return the user whom a payload names, None where it names none."""
    try:
        found = json.loads(payload)
    except ValueError:
        return None
    owner = found.get("user_id") if isinstance(found, dict) else None
    return owner if isinstance(owner, str) else None
