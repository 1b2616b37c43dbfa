"""Output of commands: help, tables and bars for people, --json and --csv for programs, durations in words."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from dutiful.core.errors import InvalidArgumentError
from dutiful.web.csv_cell import csv_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime, tzinfo
    from pathlib import Path


Form = Literal["text", "json", "csv"]
C = TypeVar("C", bound="Callable[..., Any]")

_GAP = "  "
_INDENT = "    "
# The narrowest useful column.
_NARROWEST = 8
# The last column holds sentences. If it would be narrower than this, it gets lines of its own.
_SENTENCE = 24
_FIGURE = re.compile(r"[\d,.]*\d( (ms|s|min|h|d))?")
_UNITS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
# Colours only repeat the meaning of the words.
_COLOURS = {
    "SUCCESS": "green",
    "STARTED": "cyan",
    "SKIPPED": "yellow",
    "paused": "yellow",
    "paused:": "yellow",
    "FAILED": "red",
    "quarantined": "red",
    "warning": "red",
    "wrong": "red",
}
# The values of --color for `click.Context.color`; `auto` stands for None.
_WHEN = {"always": True, "never": False}
# The shapes of the web pages, in Unicode and in ASCII; colours only repeat their meaning.
SHAPES = {
    "ran": ("▮", "|", "green"),
    "failed": ("✕", "x", "red"),
    "skipped": ("◇", "-", "yellow"),
    "to_come": ("○", "o", "dim"),
    "running": ("▶", ">", "cyan"),
    "hand": ("▲", "^", "green"),
    "backfilled": ("▯", ":", "green"),
    "paused": ("‖", "=", "yellow"),
    "aside": ("!", "!", "red"),
}
# Longer than any summary, so that click does not cut summaries to one line.
_WHOLE = 1000


class Group(click.Group):
    """A click group whose help wraps long summaries instead of cutting them."""

    def summaries(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return the name and the summary of each command that is not hidden."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in commands
            if command is not None and not command.hidden
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands into the help."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(ctx))


def _set_color(context: click.Context, _option: click.Parameter, value: str) -> None:
    is_refused = value == "auto" and bool(os.environ.get("NO_COLOR"))
    context.color = False if is_refused else _WHEN.get(value)


color = click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    metavar="WHEN",
    expose_value=False,
    callback=_set_color,
    help="Colour the output: auto, always or never.",
)


# For a command that changes something: its answer is one document.
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def reading(command: C) -> C:
    """Add --json, --csv and --color to a command; it gets the chosen `form`."""
    for option in (
        color,
        click.option("--csv", "form", flag_value="csv", help="Print CSV; its first line has the names."),
        click.option("--json", "form", flag_value="json", default="text", help="Print JSON."),
    ):
        command = option(command)
    return command


def show(
    form: Form,
    document: Any,
    text: Callable[[], object],
    *,
    lines: Sequence[dict[str, Any]] | None = None,
    fields: Sequence[str] | None = None,
) -> None:
    """Print a document as JSON, its lines as CSV, or call `text`. Without `lines` the document is one line.

    `fields` are the names of the CSV, by default those of its first line.
    """
    if form == "json":
        print_json(document)
    elif form == "csv":
        rows = [document] if lines is None else lines
        print_csv(rows, fields or [*(rows[0] if rows else ())])
    else:
        text()


def print_json(value: Any) -> None:
    """Print one JSON document; where the output is not UTF-8, with the escapes of JSON for other letters."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=not is_utf()))


def is_utf() -> bool:
    """Return whether standard output takes every letter."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def print_csv(documents: Sequence[dict[str, Any]], fields: Sequence[str]) -> None:
    """Print a line of names and then one line per document; lists and objects in it are JSON.

    A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    if not fields:
        return
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(fields)
    writer.writerows([_csv_cell(document.get(name)) for name in fields] for document in documents)
    click.echo(written.getvalue(), nl=False)


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    # A negative number is no formula, and stays as it is.
    return csv_cell(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def progress_bar(label: str, *, is_still: bool = False) -> Iterator[Callable[[float], None] | None]:
    """Yield a function that draws the fraction of the work that is done, from 0 to 1; else None.

    None is yielded without a terminal. The bar is drawn on standard error and removed at the end: it is never
    part of the output. It moves to and fro until the first fraction comes. A bar that `is_still` is drawn
    with each fraction and without a thread, which would take time from work that is measured.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    percent = TaskProgressColumn("{task.percentage:>3.0f} %")
    columns = (TextColumn("{task.description}"), BarColumn(), percent, TimeRemainingColumn())
    # Standard output may be a file, so the bar's console must not capture it.
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        auto_refresh=not is_still,
    ) as shown:
        task = shown.add_task(label, total=None)
        yield lambda done: shown.update(task, completed=done, total=1.0, refresh=is_still)


def print_table(head: list[str], rows: list[list[str]], *, empty: str = "", soft: int | None = None) -> None:
    """Print aligned columns; on a terminal fitted to its width and in colour. Without rows print `empty`."""
    if not rows and empty:
        click.echo(empty)
        return
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table_lines(head, rows, room, colour=is_coloured(), soft=soft):
        click.echo(line)


def is_coloured() -> bool:
    """Return whether to colour the output: as --color says, else on a terminal without NO_COLOR."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def table_lines(
    head: list[str],
    rows: list[list[str]],
    room: int | None = None,
    *,
    colour: bool = False,
    soft: int | None = None,
) -> Iterator[str]:
    """Yield the lines of a table at most `room` wide; the last column is wrapped, the others are cut.

    Figures stand to the right. The column `soft` is cut before the others.
    """
    columns = [[*column] for column in zip(head, *rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    figures = [place for place, column in enumerate(columns) if _are_figures(column[1:])]
    beside = len(widths) < 2 or room is None or _left_for_last(widths, room) >= min(widths[-1], _SENTENCE)
    if room is not None:
        outer = widths if beside else widths[:-1]
        widths = fitted(outer, room, soft) + ([] if beside else [room - len(_INDENT)])
    for row in (head, *rows):
        placed = [cell.rjust(widths[place]) if place in figures else cell for place, cell in enumerate(row)]
        yield from _row_lines(placed, widths, beside=beside, colour=colour and row is not head)


def _are_figures(cells: Sequence[str]) -> bool:
    return any(cells) and all(_FIGURE.fullmatch(cell) for cell in cells if cell)


def _left_for_last(widths: list[int], room: int) -> int:
    return room - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)


def _row_lines(row: list[str], widths: list[int], *, beside: bool, colour: bool) -> Iterator[str]:
    *cells, last = row
    # Cut an id, which is in the first column, in its middle: its ends tell more.
    cuts = [cut_middle, *[cut_end] * len(cells)]
    cut = [
        shorten(cell, width).ljust(width) for shorten, cell, width in zip(cuts, cells, widths, strict=False)
    ]
    first = "".join(_painted(cell, colour=colour) + _GAP for cell in cut)
    wrapped = textwrap.wrap(last, max(widths[-1], 1)) if len(last) > widths[-1] or not beside else [last]
    if not beside:
        yield first.rstrip()
        yield from (_INDENT + line for line in wrapped)
        return
    yield (first + _painted((wrapped or [""])[0], colour=colour)).rstrip()
    margin = " " * sum(len(cell) + len(_GAP) for cell in cut)
    yield from (margin + line for line in wrapped[1:])


def _colour(cell: str) -> str | None:
    """Return the colour of a status word, or of a cell that begins with the shape of a state."""
    first = cell.partition(" ")[0]
    by_shape = {unicode: style for unicode, _, style in SHAPES.values() if style != "dim"}
    return _COLOURS.get(first) or by_shape.get(first)


def _painted(cell: str, *, colour: bool) -> str:
    name = _colour(cell) if colour else None
    return click.style(cell, fg=name) if name else cell


def fitted(widths: list[int], room: int, soft: int | None = None) -> list[int]:
    """Return column widths, reduced until all fit if possible.

    The last column shrinks first, then `soft`, then the first if it takes more than half of the room, then
    the widest of the others.
    """
    widths, left = [*widths], room - len(_GAP) * (len(widths) - 1)
    if len(widths) > 1:
        widths[-1] = max(min(widths[-1], _SENTENCE), widths[-1] - max(0, sum(widths) - left))
    while sum(widths) > left and max(widths) > _NARROWEST:
        widths[_to_shrink(widths, room // 2, soft)] -= 1
    return widths


def _to_shrink(widths: list[int], half: int, soft: int | None) -> int:
    if soft is not None and widths[soft] > _NARROWEST:
        return soft
    if widths[0] > max(half, _NARROWEST):
        return 0
    widest = max(range(len(widths)), key=lambda place: (place > 0, widths[place]))
    return widest if widths[widest] > _NARROWEST else 0


def cut_middle(text: str, width: int, mark: str = "…") -> str:
    """Return a text that is at most `width` long, without its middle if need be."""
    half = (width - 1) // 2
    return text if len(text) <= width else text[: width - 1 - half] + mark + text[len(text) - half :]


def cut_end(text: str, width: int, mark: str = "…") -> str:
    """Return a text that is at most `width` long, without its end if need be."""
    return text if len(text) <= width else text[: width - 1] + mark


def write_file(argument: str, path: Path, texts: Iterable[str]) -> None:
    """Write texts into a file; raises InvalidArgumentError for the argument that names it."""
    try:
        with path.open("w", encoding="utf-8") as out:
            out.writelines(texts)
    except OSError as error:
        raise InvalidArgumentError(argument, str(path), error.strerror or str(error)) from None


def state_cell(state: str, word: str | None = None) -> str:
    """Return the shape of a state and its word."""
    return f"{SHAPES[state][0]} {word or state.replace('_', ' ')}"


def zone_name(now: datetime, zone: tzinfo) -> str:
    """Return the name of a zone for the head of a column, whose times may lie on both sides of a change."""
    # Imported here to keep the start of the command line fast.
    from dutiful.core.cron.explain import place

    name = getattr(zone, "key", None) or f"{now.astimezone(zone):%Z}"
    return "UTC" if place(name) == "UTC" else name


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 agent, 12,480 schedules."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: "1.5 s", "6 h 30 min", "2 d"."""
    if seconds < 60:
        return f"{round(max(seconds, 0), 1):g} s"
    for size, unit, smaller, smaller_unit in _UNITS:
        if seconds >= size:
            rest = int(seconds % size // smaller)
            return f"{int(seconds // size)} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    raise AssertionError("a minute is the smallest of the units")
