"""`dutiful load`: when a day is crowded, and how much flatter it could be."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutiful.cli.output import Form, counted, is_utf, print_table, reading, show, write_file
from dutiful.core.cron.duration import parse_duration
from dutiful.core.cron.zone import read_instant
from dutiful.core.errors import IntervalParseError, InvalidArgumentError
from dutiful.simulate.load import Stagger, counts_of, stagger
from dutiful.simulate.schedule_file import read_schedule_file
from dutiful.web.drawing.matrix import SHADES, LoadPicture, load_picture, shade

if TYPE_CHECKING:
    from dutiful.web.drawing.simulation_picture import Theme

_FULLEST, _MOVES = 5, 10
_SHADED = ("·░▒▓█@", ".:-=+#")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--from", "-f", "since", required=True, metavar="DAY", help="The day, in UTC.")
@click.option("--spread", metavar="DURATION", help="Suggest a stagger: up to this much later, at most 59m.")
@click.option(
    "--picture", "svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the day, as SVG."
)
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", show_default=True)
@reading
def load(file: Path, since: str, spread: str | None, svg: Path | None, theme: Theme, form: Form) -> None:
    """Show how many ticks each minute of a day has, and suggest a stagger.

    Rows are hours, columns are minutes. Only cron texts with one fixed minute are moved, within their hour.

    Example: dutiful load schedules.toml --from 2026-03-08 --spread 30m --picture load.svg
    """
    day = _start_of_day(read_instant("--from", since).astimezone(UTC))
    schedules = read_schedule_file(file).schedules
    counts = counts_of(schedules, day)
    moved = None if spread is None else stagger(schedules, day, _minutes(spread))
    if svg is not None:
        drawn = load_picture(_picture(len(schedules), day, counts, moved, spread), theme)
        write_file("--picture", svg, [drawn])
    shown = moved.counts if moved else counts
    minutes = [{"at": _clock(minute), "ticks": ticks} for minute, ticks in enumerate(shown)]
    show(form, _document(counts, moved), lambda: _print(counts, moved), lines=minutes)


def _start_of_day(at: datetime) -> datetime:
    # Minutes are counted from here, and shown as times of the day.
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _minutes(spread: str) -> int:
    try:
        minutes = int(parse_duration(spread).total_seconds() // 60)
    except IntervalParseError as error:
        raise InvalidArgumentError("--spread", spread, str(error)) from None
    if not 1 <= minutes <= 59:
        raise InvalidArgumentError("--spread", spread, "write 1m to 59m: a move stays within its hour")
    return minutes


def _print(counts: list[int], moved: Stagger | None) -> None:
    _print_matrix(moved.counts if moved else counts)
    click.echo()
    click.echo(_said(counts, moved) + (", as drawn" if moved else ""))
    rows = [[_clock(minute), f"{counts[minute]:,}"] for minute in fullest(counts)]
    print_table(["fullest (UTC)", "ticks"], rows, empty="Nothing fires on that day.")
    if moved is None:
        return
    click.echo()
    rows_of_moves = [[move.schedule_id, move.before, move.after] for move in moved.moves[:_MOVES]]
    print_table(["schedule", "now", "suggested"], rows_of_moves, empty="No move makes the day flatter.")
    if len(moved.moves) > _MOVES:
        click.echo(f"… {len(moved.moves) - _MOVES} more (--json for all)")


def _print_matrix(counts: list[int]) -> None:
    shades = _SHADED[not is_utf()]
    for hour in range(24):
        cells = "".join(shades[shade(count)] for count in counts[hour * 60 : hour * 60 + 60])
        click.echo(f"{hour:02}:00 {cells}")
    legend = ", ".join(f"{shades[level]} {low} or more" for level, low in enumerate(SHADES, 1))
    click.echo(f"      {shades[0]} none, {legend}")


def _said(counts: list[int], moved: Stagger | None) -> str:
    text = f"{sum(counts):,} ticks, at most {max(counts):,} in a minute"
    if moved is None:
        return text
    return f"{text}; {max(moved.counts):,} with {counted(len(moved.moves), 'schedule')} moved"


def fullest(counts: list[int]) -> list[int]:
    """Return the minutes with the most ticks, fullest first."""
    order = sorted(range(len(counts)), key=lambda minute: (-counts[minute], minute))
    return [minute for minute in order[:_FULLEST] if counts[minute]]


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _document(counts: list[int], moved: Stagger | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ticks": sum(counts),
        "peak": max(counts),
        "fullest": [{"at": _clock(minute), "ticks": counts[minute]} for minute in fullest(counts)],
        "minutes": counts,
    }
    if moved is not None:
        moves = [move._asdict() for move in moved.moves]
        found["stagger"] = {"peak": max(moved.counts), "minutes": moved.counts, "moves": moves}
    return found


def _picture(
    schedules: int, day: datetime, counts: list[int], moved: Stagger | None, spread: str | None
) -> LoadPicture:
    """Return the day as it is; with a stagger also its highest minutes before and after."""
    title = f"When {counted(schedules, 'schedule')} fire{'s' * (schedules == 1)}"
    note = f"dutiful load, {day:%a} {day.day} {day:%b %Y}, UTC"
    peaks = [("as they are", max(counts)), (f"with --spread {spread}", max(moved.counts))] if moved else []
    return LoadPicture(title, note, _said(counts, moved), counts, peaks)
