"""`dutiful simulate`: simulates schedules on virtual time, through scripted outages."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.output import (
    Form,
    duration,
    print_table,
    progress_bar,
    reading,
    show,
    state_cell,
    write_file,
)
from dutiful.cli.pictures import simulation_picture
from dutiful.core.cron.duration import parse_duration
from dutiful.core.cron.zone import read_instant
from dutiful.core.errors import IntervalParseError, InvalidArgumentError
from dutiful.core.event import ClockStepped, LeadershipChanged, ScheduleQuarantined
from dutiful.core.run import Run, Status
from dutiful.core.schedule import tick_key
from dutiful.simulate.schedule_file import read_schedule_file
from dutiful.simulate.simulation import Simulation
from dutiful.simulate.simulation import simulate as run_simulation
from dutiful.web.drawing.marks import drawn_as

if TYPE_CHECKING:
    from dutiful.core.event import Event
    from dutiful.web.drawing.simulation_picture import Theme


_COLUMNS = {
    Status.SUCCESS: "ran",
    Status.FAILED: "failed",
    Status.STARTED: "unfinished",
    Status.ENQUEUED: "unfinished",
    Status.SKIPPED: "skipped",
}
# Printed in place of a schedule id for events of the engine; no id may contain parentheses.
_ENGINE = "(engine)"


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "-f", "since", required=True, metavar="ISO", help="Where virtual time starts.")
@click.option(
    "--for", "lasts", default="30d", show_default=True, help="How long to simulate, e.g. 12h or 365d."
)
@click.option(
    "--ledger", type=click.Path(dir_okay=False, path_type=Path), help="Write every entry as JSON lines."
)
@click.option(
    "--lines",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Entries of the timeline to print; 0 prints the counts alone.",
)
@click.option(
    "--picture", "svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw what happened, as SVG."
)
@click.option(
    "--theme",
    type=click.Choice(["auto", "light", "dark"]),
    default="auto",
    show_default=True,
    help="Colours of the picture; auto follows the reader's system.",
)
@reading
def simulate(
    file: Path,
    since: str,
    lasts: str,
    ledger: Path | None,
    lines: int,
    svg: Path | None,
    theme: Theme,
    form: Form,
) -> None:
    """Run the real engine over a schedule file on a virtual clock.

    Exit code 1 if a schedule could not be computed.

    Example: dutiful simulate schedules.toml --from 2026-03-01 --for 30d --ledger ledger.jsonl
    """
    start = read_instant("--from", since)
    content = read_schedule_file(file)
    with progress_bar("simulating") as progress:
        simulation = run_simulation(content, start, _end(start, lasts), progress)
    if ledger is not None:
        write_file("--ledger", ledger, (json.dumps(_entry(run)) + "\n" for run in simulation.rows))
    if svg is not None:
        write_file(
            "--picture", svg, [simulation_picture(content, simulation, start, _end(start, lasts), theme)]
        )
    ids = [schedule.id for schedule in content.schedules]
    click.get_current_context().exit(_tell(ids, simulation, lines, form))


def _tell(ids: list[str], simulation: Simulation, lines: int, form: Form) -> int:
    """Print the result and return the exit code."""
    summary = _summary(ids, simulation)
    found = [{"schedule_id": id_, **counts} for id_, counts in summary["schedules"].items()]
    show(form, summary, lambda: _print(simulation, summary, lines), lines=found)
    return int(any(entry["quarantined"] for entry in summary["schedules"].values()))


def _print(simulation: Simulation, summary: dict[str, Any], lines: int) -> None:
    if lines:
        _print_timeline(simulation, lines)
        click.echo()
    _print_summary(summary)


def _end(start: datetime, lasts: str) -> datetime:
    try:
        return start.astimezone(UTC) + parse_duration(lasts)
    except IntervalParseError as error:
        raise InvalidArgumentError("--for", lasts, str(error)) from None
    except OverflowError:
        raise InvalidArgumentError("--for", lasts, "leads beyond the years 1 to 9999") from None


def _print_timeline(simulation: Simulation, lines: int) -> None:
    """Print the unusual entries in order; usual ones only where there is room left."""
    notable = [(event.at, _event_line(event)) for event in simulation.events]
    notable += [(run.run_at, _line(run)) for run in simulation.rows if _is_notable(run)]
    notable.sort(key=lambda entry: entry[0])
    quiet = (run for run in simulation.rows if not _is_notable(run))
    shown = notable[:lines] + [
        (run.run_at, _line(run)) for run in islice(quiet, max(0, lines - len(notable)))
    ]
    shown.sort(key=lambda entry: entry[0])
    rows = [[id_, state, _iso(at), note] for at, (id_, state, note) in shown]
    print_table(["schedule", "state", "time (UTC)", "note"], rows)
    entries = len(simulation.events) + len(simulation.rows)
    if entries > lines:
        click.echo(f"… {entries - lines} more (--lines, or --ledger for all)")


def _is_notable(run: Run) -> bool:
    return run.status is not Status.SUCCESS or run.attempt > 1 or (run.started_at or 0) > run.fire_at


def _line(run: Run) -> list[str]:
    word = f"{run.status}" if run.reason is None else f"{run.status} {run.reason}"
    notes = [f"{run.ticks} ticks, last {_iso(run.run_until)}"] if run.run_until is not None else []
    if run.started_at is not None and run.started_at > run.fire_at:
        notes.append(f"{duration((run.started_at - run.fire_at) / 1000)} late")
    if run.attempt > 1:
        notes.append(f"attempt {run.attempt}")
    return [run.schedule_id, state_cell(drawn_as(run.status), word), ", ".join(notes)]


def _event_line(event: Event) -> list[str]:
    match event:
        case LeadershipChanged():
            return [_ENGINE, "started", f"epoch {event.epoch}"]
        case ClockStepped():
            return [_ENGINE, "clock stepped", f"{'+-'[event.by < 0]}{duration(abs(event.by) / 1000)}"]
        case ScheduleQuarantined():
            return [event.schedule_id, state_cell("aside", "quarantined"), event.error]
        case _:
            return [_ENGINE, type(event).__name__, ""]


def _print_summary(summary: dict[str, Any]) -> None:
    head = ["schedule", "ran", "failed", "unfinished", "skipped"]
    rows = [
        [id_, *(f"{entry[column]:,}" for column in head[1:4]), _counts(entry["skipped"])]
        for id_, entry in summary["schedules"].items()
    ]
    print_table(head, rows)


def _counts(skipped: dict[str, int]) -> str:
    return ", ".join(f"{reason} {ticks}" for reason, ticks in skipped.items())


def _summary(ids: list[str], simulation: Simulation) -> dict[str, Any]:
    """Return the counts of every schedule, also of one without a tick."""
    counts: dict[str, Counter[str]] = {id_: Counter() for id_ in sorted(ids)}
    skipped: dict[str, Counter[str]] = {id_: Counter() for id_ in ids}
    for run in simulation.rows:
        counts[run.schedule_id][_COLUMNS[run.status]] += 1
        if run.status is Status.SKIPPED:
            skipped[run.schedule_id][str(run.reason)] += run.ticks
    events = [event for event in simulation.events if isinstance(event, ScheduleQuarantined)]
    quarantined = {event.schedule_id: event.error for event in events}
    schedules = {
        id_: {
            "ran": count["ran"],
            "failed": count["failed"],
            "unfinished": count["unfinished"],
            "skipped": dict(skipped[id_]),
            "quarantined": quarantined.get(id_),
        }
        for id_, count in counts.items()
    }
    return {"entries": len(simulation.rows), "schedules": schedules}


def _entry(run: Run) -> dict[str, Any]:
    return {
        "schedule_id": run.schedule_id,
        "run_at": _rfc3339(run.run_at),
        "key": tick_key(run.schedule_id, run.run_at),
        "kind": run.kind,
        "status": run.status,
        "reason": run.reason,
        "attempt": run.attempt,
        "fire_at": _rfc3339(run.fire_at),
        "started_at": _rfc3339(run.started_at),
        "ended_at": _rfc3339(run.ended_at),
        "run_until": _rfc3339(run.run_until),
        "ticks": run.ticks,
    }


# Cached: a successful run shows one instant in three or four places.
@lru_cache(maxsize=64)
def _rfc3339(instant: int | None) -> str | None:
    return None if instant is None else _iso(instant).replace(" ", "T") + "Z"


def _iso(instant: int) -> str:
    at = datetime.fromtimestamp(instant // 1000, UTC).isoformat(" ").removesuffix("+00:00")
    return at + (f".{instant % 1000:03}" if instant % 1000 else "")
