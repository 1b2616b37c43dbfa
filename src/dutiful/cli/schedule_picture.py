"""The picture of one schedule: its entries in the ledger as a lane, with the changes of its clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.zone import zone
from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.marks import State, Tick
from dutiful.web.drawing.simulation_picture import Lane, Picture, Theme, picture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STATES: dict[str, State] = {"SUCCESS": "ran", "FAILED": "failed", "SKIPPED": "skipped"}
# A run that was launched later than this after its tick is drawn with a line from the tick.
_LATE = timedelta(minutes=1)


def schedule_picture(
    view: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], now: datetime, back: timedelta, theme: Theme
) -> str:
    """Return the SVG of the entries of a schedule, so far back from `now`; equal input gives equal bytes."""
    end = now.astimezone(UTC)
    start = end - back
    shown = [_tick(run) for run in reversed(runs) if _at(run["run_until"] or run["run_at"]) >= start]
    return picture(
        Picture(
            str(view["schedule_id"]),
            f"{view['cron_expr']} in {view['timezone']}, {back.days} days to {end:%Y-%m-%d %H:%M} UTC",
            start,
            end,
            [Lane(str(view["schedule_id"]), shown)],
            [],
            _changes(str(view["timezone"]), start, end),
        ),
        theme,
    )


def _tick(run: Mapping[str, Any]) -> tuple[Tick, datetime | None]:
    at, until = _at(run["run_at"]), None if run["run_until"] is None else _at(run["run_until"])
    began = None if run["started_at"] is None else _at(run["started_at"])
    ended = None if run["ended_at"] is None else _at(run["ended_at"])
    took = None if began is None or ended is None else (ended - began).total_seconds()
    tick = Tick(
        at, _STATES.get(run["status"], "running"), run["reason"], took, until=until, ticks=run["ticks"]
    )
    return tick, began if began is not None and began - at >= _LATE else None


def _changes(name: str, start: datetime, end: datetime) -> list[tuple[ClockChange, str]]:
    found = zone(name).changes(int(start.timestamp()), int(end.timestamp()))
    changes = [ClockChange(datetime.fromtimestamp(at, UTC), after - before) for at, before, after in found]
    return [(change, change.words) for change in changes if change.by]


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
