"""Schedules, their changing state, and the identity of a tick."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dutiful.core.cadence import Cadence, Instant
    from dutiful.core.policy import Reason


class Task(NamedTuple):
    """The work to invoke: a name that the launcher knows, and a text that it passes on."""

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
    # When the pause ends by itself; None: only a user ends it. The tick at this instant runs.
    pause_until: Instant | None = None


class Alike(NamedTuple):
    """Schedules with the same cadence, policy and window: how many there are, and the first id."""

    cadence: Cadence
    policy: Policy
    window: Window
    number: int
    first_id: str


class SkippedRange(NamedTuple):
    """The last ledger row of skipped ticks, which ends at the cursor and may still grow."""

    run_at: Instant
    reason: Reason
    ticks: int


class State(NamedTuple):
    """The stored state of a schedule, beside its declaration."""

    # Every tick up to and including this instant is decided.
    cursor: Instant
    runs_started: int = 0
    attempted_at: Instant | None = None
    succeeded_at: Instant | None = None
    failed_at: Instant | None = None
    ended_at: Instant | None = None
    skipped: SkippedRange | None = None
    quarantine: str | None = None
    # Ticks up to here may have been decided before the clock was set back. The ledger shows which of them
    # have a row; these ticks get no second row.
    decided_until: Instant = 0


def tick_key(schedule_id: str, run_at: Instant) -> str:
    """Return the idempotency key of a tick, sent with every launch so that receivers can drop duplicates."""
    return hashlib.sha256(f"{schedule_id}:{run_at // 1000}".encode()).hexdigest()


def alike(schedules: Iterable[Schedule]) -> list[Alike]:
    """Return the schedules by cadence, policy and window."""
    ids: dict[tuple[Cadence, Policy, Window], list[str]] = {}
    for schedule in schedules:
        ids.setdefault((schedule.cadence, schedule.policy, schedule.window), []).append(schedule.id)
    return [Alike(*common, len(names), min(names)) for common, names in ids.items()]


def is_troubled(state: State) -> bool:
    """Return whether a schedule needs attention: quarantined, last run failed, or three skips in a row."""
    failed = state.failed_at is not None and state.failed_at > (state.succeeded_at or 0)
    skipping = state.skipped is not None and state.skipped.ticks >= 3 and state.skipped.reason != "paused"
    return state.quarantine is not None or failed or skipping


def owner_of(schedule: Schedule) -> str | None:
    """Return the user named in the payload of a schedule, or None."""
    return payload_owner(schedule.task.payload)


def payload_owner(payload: str) -> str | None:
    """Return the user named in a payload, or None."""
    try:
        found = json.loads(payload)
    except ValueError:
        return None
    owner = found.get("user_id") if isinstance(found, dict) else None
    return owner if isinstance(owner, str) else None
