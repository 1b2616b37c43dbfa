"""The pictures that commands draw: of a simulation, and of the latest entries of one schedule.

Equal input gives equal bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dutiful.core.cron.cron import Cron
from dutiful.core.cron.zone import from_epoch_ms, zone
from dutiful.web.drawing.axis import ClockChange
from dutiful.web.drawing.marks import Tick, drawn_as
from dutiful.web.drawing.simulation_picture import Lane, Picture, Theme, picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dutiful.simulate.schedule_file import ScheduleFile
    from dutiful.simulate.simulation import Simulation

# A run that was launched later than this after its tick is drawn with a line from the tick.
_LATE = timedelta(minutes=1)


def simulation_picture(
    file: ScheduleFile, simulation: Simulation, start: datetime, end: datetime, theme: Theme
) -> str:
    """Return the SVG of a simulation."""
    begin, stop = start.astimezone(UTC), end.astimezone(UTC)
    lanes: dict[str, list[tuple[Tick, datetime | None]]] = {schedule.id: [] for schedule in file.schedules}
    for run in simulation.rows:
        if run.schedule_id in lanes:
            instants = (run.run_at, run.started_at, run.ended_at, run.run_until)
            times = [None if at is None else from_epoch_ms(at) for at in instants]
            lanes[run.schedule_id].append(_tick(run.status, run.reason, run.ticks, run.attempt, times))
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


def schedule_picture(
    view: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], now: datetime, back: timedelta, theme: Theme
) -> str:
    """Return the SVG of the entries of a schedule in the ledger, so far back from `now`."""
    end = now.astimezone(UTC)
    start = end - back
    lane = list[tuple[Tick, datetime | None]]()
    for run in reversed(runs):
        texts = (run["run_at"], run["started_at"], run["ended_at"], run["run_until"])
        times = [None if text is None else datetime.fromisoformat(text).astimezone(UTC) for text in texts]
        tick, launched = _tick(run["status"], run["reason"], run["ticks"], run["attempt"], times)
        if (tick.until or tick.at) >= start:
            lane.append((tick, launched))
    changes = ClockChange.between(zone(str(view["timezone"])), start, end)
    shown = Picture(
        str(view["schedule_id"]),
        f"{view['cron_expr']} in {view['timezone']}, {back.days} days to {end:%Y-%m-%d %H:%M} UTC",
        start,
        end,
        [Lane(str(view["schedule_id"]), lane)],
        [],
        [(change, change.words) for change in changes],
    )
    return picture(shown, theme)


def _tick(
    status: str, reason: str | None, ticks: int, attempt: int, times: Iterable[datetime | None]
) -> tuple[Tick, datetime | None]:
    """Return a tick, and when its run was launched if that was late.

    The times are those of the tick, the launch, the end, and the last tick of a stretch.
    """
    at, began, ended, until = times
    assert at is not None
    took = None if began is None or ended is None else (ended - began).total_seconds()
    tick = Tick(at, drawn_as(status), reason, took, until=until, ticks=ticks, attempt=attempt)
    return tick, began if began is not None and began - at >= _LATE else None


def _changes(file: ScheduleFile, begin: datetime, end: datetime) -> list[tuple[ClockChange, str]]:
    found: dict[datetime, tuple[ClockChange, str]] = {}
    for schedule in file.schedules:
        if isinstance(schedule.cadence, Cron):
            zone = schedule.cadence.zone
            place = zone.name.rpartition("/")[2].replace("_", " ")
            for change in ClockChange.between(zone, begin, end):
                found.setdefault(change.at, (change, f"{place}: {change.words}"))
    return [found[at] for at in sorted(found)]
