"""Expectations of a schedule: starts and ends in time, and succeeds often enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import next_tick
from dutiful.core.plan.jitter import fire_time, opening_cursor

if TYPE_CHECKING:
    from dutiful.core.cadence import Instant
    from dutiful.core.policy import Policy
    from dutiful.core.snapshot import Snapshot


class Missed(NamedTuple):
    """An expectation that is not met now: its name, and the tick or success from which it counts."""

    expectation: str
    since: Instant


def expects(policy: Policy) -> bool:
    """Return whether a policy has any expectation."""
    return not policy.start_within is policy.finish_within is policy.succeed_every is None


def missed_expectations(known: Snapshot, declared_at: Instant, now: Instant) -> list[Missed]:
    """Return the expectations that a schedule does not meet at `now`; a paused schedule has none.

    `declared_at` is when the schedule was last written; the time to succeed counts from there or from the
    last success, whichever is later.
    """
    policy, state = known.schedule.policy, known.state
    if known.schedule.paused:
        return []
    counted = (
        ("start_within", policy.start_within, _waiting_since(known)),
        ("finish_within", policy.finish_within, min((run.fire_at for run in known.runs), default=None)),
        ("succeed_every", policy.succeed_every, max(state.succeeded_at or 0, declared_at)),
    )
    return [
        Missed(name, since)
        for name, within, since in counted
        if within is not None and since is not None and now - since > within
    ]


def _waiting_since(known: Snapshot) -> Instant | None:
    """Return the fire time of the oldest tick that has not started, whether it has a row or not."""
    schedule, state = known.schedule, known.state
    waiting = [run.fire_at for run in known.runs if run.started_at is None]
    cursor = opening_cursor(schedule, state.cursor)
    tick = None if state.quarantine is not None else next_tick(schedule.cadence, cursor, state.ended_at)
    end = schedule.window.end
    if tick is not None and (end is None or tick <= end):
        waiting.append(fire_time(schedule, tick, state.ended_at))
    return min(waiting, default=None)
