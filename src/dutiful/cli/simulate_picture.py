"""From a simulation to its picture: lanes, outages and changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dutiful.core.cron.cron import Cron
from dutiful.core.run import Run, Status
from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.lanes import Lane, Picture, Theme, picture
from dutiful.web.drawing.marks import State, Tick

if TYPE_CHECKING:
    from dutiful.simulate.schedule_file import ScheduleFile
    from dutiful.simulate.simulation import Simulation

_STATES: dict[Status, State] = {
    Status.SUCCESS: "ran",
    Status.FAILED: "failed",
    Status.SKIPPED: "skipped",
    Status.STARTED: "running",
    Status.ENQUEUED: "running",
}


def picture_of(
    file: ScheduleFile, simulation: Simulation, start: datetime, end: datetime, theme: Theme = "auto"
) -> str:
    """Return the SVG of a simulation; the same simulation gives the same bytes."""
    begin, stop = start.astimezone(UTC), end.astimezone(UTC)
    lanes: dict[str, list[tuple[Tick, datetime | None]]] = {schedule.id: [] for schedule in file.schedules}
    for run in simulation.rows:
        if run.schedule_id in lanes:
            lanes[run.schedule_id].append(_tick(run))
    count, days = len(lanes), (stop - begin).total_seconds() / 86_400
    scripted = [
        (each.start.astimezone(UTC), each.start.astimezone(UTC) + each.lasts) for each in file.outages
    ]
    outages = [(first, last) for first, last in scripted if first < stop and last > begin]
    shown = Picture(
        f"{count} schedule{'s' * (count != 1)}, {days:g} day{'s' * (days != 1)}"
        + (f", {len(outages)} outage{'s' * (len(outages) != 1)}" if outages else ""),
        f"dutiful simulate, from {begin:%Y-%m-%d %H:%M} UTC",
        begin,
        stop,
        [Lane(name, ticks) for name, ticks in lanes.items()],
        outages,
        _changes(file, begin, stop),
    )
    return picture(shown, theme)


def _tick(run: Run) -> tuple[Tick, datetime | None]:
    started, ended = run.started_at, run.ended_at
    took = (ended - started) / 1000 if started is not None and ended is not None else None
    tick = Tick(
        _at(run.run_at),
        _STATES[run.status],
        run.reason,
        took,
        until=None if run.run_until is None else _at(run.run_until),
        ticks=run.ticks,
    )
    late = started is not None and started - run.run_at >= 60_000
    return tick, _at(started) if late and started is not None else None


def _at(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)


def _changes(file: ScheduleFile, begin: datetime, end: datetime) -> list[tuple[ClockChange, str]]:
    found: dict[datetime, tuple[ClockChange, str]] = {}
    for schedule in file.schedules:
        if isinstance(schedule.cadence, Cron):
            zone = schedule.cadence.zone
            place = zone.name.rpartition("/")[2].replace("_", " ")
            for at, before, after in zone.changes(int(begin.timestamp()), int(end.timestamp())):
                change = ClockChange(datetime.fromtimestamp(at, UTC), after - before)
                found.setdefault(change.at, (change, f"{place}: {change.words}"))
    return [found[at] for at in sorted(found)]
