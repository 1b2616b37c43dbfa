"""What an upsert would change, before it is made: meaning, findings, and the fire times that differ."""

from __future__ import annotations

from datetime import date, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cron.lint import lint
from dutiful.core.schedule import State
from dutiful.core.snapshot import Due
from dutiful.service.views import changed_fields, cron_of, fire_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutiful.core.cadence import Instant
    from dutiful.core.cron.lint import Finding
    from dutiful.core.schedule import Schedule

# Fire times of either schedule that are compared; the answer says up to when that is.
COMPARED = 500


class MovedTime(NamedTuple):
    """A fire time that takes the place of another one on the same day."""

    before: datetime
    after: datetime


class Preview(NamedTuple):
    """The schedule as it would be, and how its fire times until `compared_until` would differ."""

    schedule_id: str | None
    created: bool
    changed: Sequence[str]
    meaning: str
    findings: Sequence[Finding]
    preview: Sequence[datetime]
    compared_until: datetime | None
    added: Sequence[datetime]
    removed: Sequence[datetime]
    moved: Sequence[MovedTime]


def preview(known: Due | None, schedule: Schedule, schedule_id: str | None, now: Instant) -> Preview:
    """Return what storing `schedule` in place of `known` would change from `now` on."""
    wanted = Due(schedule, State(cursor=now))
    after = fire_times(wanted, now, COMPARED)
    before = [] if known is None else fire_times(known, now, COMPARED)
    until = min((times[-1] for times in (before, after) if len(times) == COMPARED), default=None)
    added, removed, moved = _differences(_up_to(before, until), _up_to(after, until))
    cron = cron_of(wanted)
    return Preview(
        schedule_id,
        known is None,
        [] if known is None else changed_fields(known.schedule, schedule),
        f"{cron.describe()}, in {cron.zone.name}",
        lint(cron, after[0]) if after else [],
        after[:5],
        until,
        added,
        removed,
        moved,
    )


def _up_to(times: Sequence[datetime], until: datetime | None) -> list[datetime]:
    return [at for at in times if until is None or at <= until]


def _differences(
    before: Sequence[datetime], after: Sequence[datetime]
) -> tuple[list[datetime], list[datetime], list[MovedTime]]:
    """Return what is added, removed and moved; a time moves to another one of the same day, in order."""
    gone, new = _by_day({*before} - {*after}), _by_day({*after} - {*before})
    added, removed, moved = list[datetime](), list[datetime](), list[MovedTime]()
    for day in sorted({*gone, *new}):
        for old, became in zip_longest(gone.get(day, ()), new.get(day, ())):
            if old is None:
                added.append(became)
            elif became is None:
                removed.append(old)
            else:
                moved.append(MovedTime(old, became))
    return added, removed, moved


def _by_day(times: set[datetime]) -> dict[date, list[datetime]]:
    days: dict[date, list[datetime]] = {}
    for at in sorted(times):
        days.setdefault(at.date(), []).append(at)
    return days
