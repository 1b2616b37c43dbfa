"""The pause that a deploy or an operator asks for: whether, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutiful.core.errors import InvalidArgumentError
from dutiful.core.plan.pause import pause_has_ended, paused_until, resumed
from dutiful.service.declaration import instant

if TYPE_CHECKING:
    from datetime import datetime

    from dutiful.core.cadence import Instant
    from dutiful.core.schedule import Schedule
    from dutiful.core.snapshot import Snapshot
    from dutiful.service.declaration import ScheduleInput


def pause_end(field: str, until: datetime | None, paused: bool | None, now: Instant) -> Instant | None:
    """Return when a pause ends by itself, or raise InvalidArgumentError."""
    if until is None:
        return None
    end = instant(field, until)
    if paused is not True:
        raise InvalidArgumentError(field, until.isoformat(), "only a pause has an end; send paused as true")
    if end <= now:
        raise InvalidArgumentError(
            field, until.isoformat(), "is not in the future; a pause ends later than now"
        )
    return end


def with_pause(schedule: Schedule, given: ScheduleInput, known: Snapshot | None, now: Instant) -> Schedule:
    """Return a declared schedule with the pause of the request, or else with that of the stored schedule.

    A schedule that is paused already keeps the end of its pause unless the request has another one.
    """
    stored = None if known is None or pause_has_ended(known.schedule, now) else known.schedule
    before = stored is not None and stored.paused
    if not (before if given.paused is None else given.paused):
        return resumed(schedule)
    kept = stored.pause_until if stored is not None else None
    return paused_until(schedule, pause_end("pause_until", given.pause_until, given.paused, now) or kept)
