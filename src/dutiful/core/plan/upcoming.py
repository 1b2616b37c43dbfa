"""The next fire times of a schedule, as far as they are known."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dutiful.core.plan.draft import Draft
from dutiful.core.plan.jitter import fire_time
from dutiful.core.snapshot import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.core.cadence import Instant
    from dutiful.core.snapshot import Snapshot

# 50 years: bounds the cost of a search for rare ticks, such as leap days.
HORIZON = 50 * 365 * 86_400_000


def upcoming(due: Snapshot, now: Instant, at_most: int) -> list[tuple[Instant, Instant]]:
    """Return the next ticks with their fire times, ignoring pause and blocking.

    The ticks lie within the next 50 years. A period counted from completion has one known tick, and none
    while its task runs.
    """
    limit = due.schedule.policy.max_runs
    left = at_most if limit is None else max(0, limit - due.state.runs_started)
    return list(islice(_fire_times(due, now), min(at_most, left)))


def _fire_times(due: Snapshot, now: Instant) -> Iterator[tuple[Instant, Instant]]:
    draft = Draft(due, now, Limits(), {})
    if due.state.quarantine is not None:
        return
    if draft.from_completion:
        tick = None if draft.busy() else draft.next_tick()
        # A late tick of a period counted from completion fires at once.
        yield from (
            [] if tick is None else [(tick, max(now, fire_time(due.schedule, tick, due.state.ended_at)))]
        )
        return
    draft.cursor = draft.last_before(now) or draft.cursor
    while (tick := draft.next_tick()) is not None and tick <= now + HORIZON:
        # A tick that jitter moved before `now` fires at once.
        yield tick, max(now, fire_time(due.schedule, tick))
        draft.cursor = tick
