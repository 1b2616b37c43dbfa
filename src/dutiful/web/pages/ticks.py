"""From entries of the ledger to ticks that can be drawn, said and linked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from dutiful.httpd.instants import rfc_3339
from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.marks import Mini, State, Tick
from dutiful.web.pages import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from dutiful.core.cron.cron import Cron
    from dutiful.core.cron.zone import Zone
    from dutiful.service.types import RunView

# A launch that is later than this is drawn with an arrow.
LATE_S = 1.0
# The ticks of a stretch are drawn one by one up to this number.
_STRETCH_DRAWN = 60

SAID = {
    "ran": "ran",
    "failed": "failed",
    "skipped": "skipped",
    "running": "running",
    "to_come": "to come",
    "hand": "ran by hand",
    "backfilled": "ran, backfilled",
}


def state_of(run: RunView) -> State:
    """Return what an entry is drawn as."""
    if run.status == "FAILED":
        return "failed"
    if run.status == "SKIPPED":
        return "skipped"
    if run.status in {"ENQUEUED", "STARTED"}:
        return "running"
    by_hand: dict[str, State] = {"manual": "hand", "backfill": "backfilled"}
    return by_hand.get(run.trigger, "ran")


def late_by(run: RunView) -> float | None:
    """Return how many seconds after its fire time a tick was launched; None where that means nothing."""
    if run.started_at is None or run.trigger != "schedule":
        return None
    return max(0.0, (run.started_at - run.fire_at).total_seconds())


def took(run: RunView) -> float | None:
    """Return how many seconds a run took; None while it is running or where it never started."""
    if run.started_at is None or run.ended_at is None:
        return None
    return max(0.0, (run.ended_at - run.started_at).total_seconds())


def tick_of(run: RunView) -> Tick:
    """Return an entry as one tick, or as one stretch."""
    late = late_by(run)
    return Tick(
        run.run_at,
        state_of(run),
        run.reason,
        took(run),
        late is not None and late > LATE_S,
        run.run_until,
        run.ticks,
    )


def ticks_of(runs: Sequence[RunView], cron: Cron) -> Iterator[Tick]:
    """Yield entries as ticks, oldest first; short stretches tick by tick."""
    for run in reversed(runs):
        tick = tick_of(run)
        if run.run_until is None or run.ticks > _STRETCH_DRAWN:
            yield tick
            continue
        for at in cron.between(run.run_at, run.run_until + timedelta(seconds=1)):
            yield tick._replace(at=at.astimezone(UTC), until=None, ticks=1)


def one_by_one(run: RunView) -> list[Tick]:
    """Return an entry as so many equal ticks, for drawings without an axis of time."""
    return [tick_of(run)._replace(until=None, ticks=1)] * min(run.ticks, Mini.PAST)


def clock_changes(zone: Zone, start: datetime, end: datetime) -> list[ClockChange]:
    """Return the changes of a zone's clock in [start, end)."""
    seconds = int(start.timestamp()), int(end.timestamp())
    return [
        ClockChange(datetime.fromtimestamp(at, UTC), after - before)
        for at, before, after in zone.changes(*seconds)
        if after != before
    ]


def tick_href(schedule_id: str, at: datetime, **query: str) -> str:
    """Return the address of the page of a schedule with one tick chosen."""
    more = "".join(f"&{name}={quote(value)}" for name, value in query.items())
    return f"/ui/schedules/{quote(schedule_id)}?at={quote(rfc_3339(at.astimezone(UTC)))}{more}#why"


def said(tick: Tick, zone: tzinfo, now: datetime) -> str:
    """Return a tick in words: Mon 2 Nov 01:30: skipped, overlap."""
    reason = f", {tick.reason}" if tick.reason else ""
    return f"{words.moment(tick.at.astimezone(zone), now)}: {SAID[tick.state]}{reason}"
