"""One frame of `dutiful top`: a pure function from facts to lines of text.

Under 80 columns a row has its shape, its id and its next tick; from 110 columns on it has everything.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from dutiful.cli.output import SHAPES, cut_end, cut_middle, duration
from dutiful.core.errors import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BARS = ("·▁▂▃▄▅▆▇█", ".:::|||##")
_NOW, _CHOSEN, _RULE = ("┃", "|"), ("▸", ">"), ("─", "-")
_PAST, _NEXT = 20, 3
_NARROW, _WIDE, _ROOMY = 80, 110, 130
# Columns for the name of the source; the path of a store may be long.
_WHERE = 20
_DAY = timedelta(hours=12)
# The views that every source has, with their names.
VIEWS = {"needs": "needs you", "running": "running", "next": "next", "all": "all"}
# The orders of the rows, beside that of the view itself.
SORTS = ("", "id", "next", "trouble")
_WORST = ("aside", "failed", "skipped", "running")
_KEYS = {
    "1 to 5": "choose a view: needs you, running, next, all; of a fleet also its agents",
    "up down, k j": "choose a schedule",
    "enter": "why did it run, why not, when does it run",
    "t": "run it now (asks first)",
    "p": "pause it (asks why) or resume it (asks first)",
    "e": "edit it in the browser",
    "o": "open its page in the browser",
    "/": "find by a part of the id, team=billing or workflow:NAME; nothing shows all",
    "s": "sort by id, next or trouble, or as the view does",
    "?": "show or hide this list",
    "q": "quit",
}


class Row(NamedTuple):
    """One schedule: its state, its latest ticks, oldest first, and a note."""

    id: str
    state: str
    when: str
    past: Sequence[str]
    to_come: int
    last: datetime | None
    next: datetime | None
    note: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The facts of a frame: counts, rows, and the account and buckets of a day if the source has them."""

    where: str
    now: datetime
    health: str
    ok: bool
    counts: str
    rows: Sequence[Row]
    views: dict[str, int | None]
    account: dict[str, Any] | None = None
    day: Sequence[dict[str, Any]] = ()


@dataclass(slots=True)
class Screen:
    """The state of the screen: its size, the chosen view and row, and the question being asked."""

    width: int = 80
    height: int = 24
    ascii: bool = False
    view: str = "needs"
    chosen: int = 0
    find: str = ""
    sort: str = ""
    # Replaces the keys on the last line: a question, or the text being typed.
    prompt: str = ""
    why: str = ""
    # Why the source does not answer at present.
    problem: str = ""
    help: bool = False
    views: dict[str, str] = field(default_factory=lambda: VIEWS)


def in_order(rows: Sequence[Row], sort: str) -> Sequence[Row]:
    """Return rows sorted by id, by their next tick or worst first; else as they are."""
    if sort == "next":
        return sorted(rows, key=lambda row: (inf if row.next is None else row.next.timestamp(), row.id))
    if sort == "trouble":
        worst = {state: place for place, state in enumerate(_WORST)}
        return sorted(rows, key=lambda row: (worst.get(row.state, len(worst)), row.id))
    return sorted(rows, key=lambda row: row.id) if sort else rows


def frame(shown: Shown, screen: Screen) -> list[Text]:
    """Return the lines of a frame, never wider or higher than the screen."""
    head = [_title(shown, screen), *_problem(screen), *_account(shown, screen), *_day(shown, screen)]
    head.append(_tabs(shown, screen))
    foot = [*_why(screen), _bottom(screen)]
    room = max(1, screen.height - len(head) - len(foot))
    body = list(_help() if screen.help else _rows(shown, screen, room))
    lines = [*head, *body[:room], *[Text()] * (room - len(body)), *foot]
    for line in lines:
        line.truncate(screen.width, overflow="crop")
        line.no_wrap = True
    return lines[: screen.height]


def _title(shown: Shown, screen: Screen) -> Text:
    room = _WHERE if screen.width < _WIDE else 2 * _WHERE
    where = (
        "" if screen.width < _NARROW else f"  {cut_middle(shown.where, room, '~' if screen.ascii else '…')}"
    )
    line = Text.assemble(("dutiful top", "bold"), f"{where}  {shown.now:%H:%M:%S} {shown.now:%Z}  ")
    if screen.problem:
        return line.append(f"not reached since {shown.now:%H:%M:%S}", "red")
    health = _fitting(shown.health, screen.width - line.cell_len) if shown.ok else shown.health
    line.append(health, "" if shown.ok else "red")
    return _spread(line, Text(shown.counts), screen.width)


def _fitting(health: str, room: int) -> str:
    """Return as many of the comma-separated parts as there is room for, at least the first."""
    while len(health) > room and ", " in health:
        health = health.rpartition(", ")[0]
    return health


def _problem(screen: Screen) -> Iterator[Text]:
    for line in textwrap.wrap(quoted(screen.problem, 500), max(20, screen.width))[:2]:
        yield Text(line, "red")


def _account(shown: Shown, screen: Screen) -> Iterator[Text]:
    if shown.account is None:
        return
    found = shown.account
    skipped = sum(found["skipped"].values())
    line = Text(f"24 h  {found['due']:,} due  ")
    counts = {"ran": found["ran"], "failed": found["failed"], "skipped": skipped, "running": found["open"]}
    for state, count in counts.items():
        # Without the runs under way the sum would fall short of what was due.
        if count or state != "running":
            line += Text.assemble(_shape(state, screen), Text(f"{count:,}  "))
    lost = found["unaccounted"]
    line.append(f"{lost:,} unaccounted", "bold red" if lost else "")
    p50, p99 = found["drift_p50_s"], found["drift_p99_s"]
    drift = "" if p50 is None else f"drift p50 {_short(p50)}  p99 {_short(p99)}"
    yield _spread(line, Text(drift), screen.width)


def _day(shown: Shown, screen: Screen) -> Iterator[Text]:
    """Yield the bars of the day, 12 hours back and ahead, with the most frequent reason of skipped ticks."""
    if not shown.day or screen.height < 12:
        return
    cells = 36 if screen.width < _NARROW else 48 if screen.width < _WIDE else 72
    counts = _cells(shown, cells)
    most = max((sum(cell) for cell in counts), default=0)
    line = Text(f"{shown.now - _DAY:%H:%M} ")
    for place, cell in enumerate(counts):
        if place == cells // 2:
            line.append(_NOW[screen.ascii], "bold")
        line += _bar(cell, most, screen, to_come=place >= cells // 2)
    line.append(f" {shown.now + _DAY:%H:%M}")
    skipped = (shown.account or {}).get("skipped") or {}
    if skipped:
        reason = max(skipped, key=lambda name: (skipped[name], name))
        text = Text.assemble("  ", _shape("skipped", screen), f" {reason} {skipped[reason]:,}")
        since = (shown.account or {}).get("skipped_since", {}).get(reason)
        began = "" if since is None else f" from {datetime.fromisoformat(since):%H:%M}"
        for more in (text, Text(began)):
            line = line + more if line.cell_len + more.cell_len <= screen.width else line
    yield line


def _cells(shown: Shown, cells: int) -> list[tuple[int, int]]:
    """Return (successful or future ticks, failed ticks) of each cell of the day line."""
    found = [[0, 0] for _ in range(cells)]
    width = 2 * _DAY / cells
    for bucket in shown.day:
        place = int((datetime.fromisoformat(bucket["at"]) - (shown.now - _DAY)) / width)
        if 0 <= place < cells:
            found[place][0] += bucket["ran"] + bucket["to_come"]
            found[place][1] += bucket["failed"]
    return [(ran, failed) for ran, failed in found]


def _bar(cell: tuple[int, int], most: int, screen: Screen, *, to_come: bool) -> Text:
    ran, failed = cell
    if failed:
        return _shape("failed", screen)
    bars = _BARS[screen.ascii]
    # A square root keeps a few ticks visible beside a full hour.
    level = 0 if not ran else max(1, round(sqrt(ran / most) * (len(bars) - 1)))
    return Text(bars[level], "dim" if to_come or not ran else "green")


def _tabs(shown: Shown, screen: Screen) -> Text:
    line = Text(" ")
    for number, (view, name) in enumerate(screen.views.items(), 1):
        count = shown.views.get(view)
        label = f"{number} {name}" + ("" if count is None else f" {count:,}")
        line.append(label, "reverse" if view == screen.view else "")
        line.append("   ")
    line.rstrip()
    chosen = {"sort": screen.sort, "find": quoted(screen.find, 20)}
    right = "   ".join(f"{name} {value}" for name, value in chosen.items() if value)
    return _spread(line, Text(right), screen.width)


def _rows(shown: Shown, screen: Screen, room: int) -> Iterator[Text]:
    if not shown.rows:
        yield Text(f"   {_empty(screen)}")
        return
    widths = _widths(shown.rows, screen)
    name = "agent" if screen.view == "fleet" else "schedule"
    yield _row("", [name, "when", "last 20, next 3", "last", "next", "note"], widths, screen, "dim")
    seen = max(1, room - 2)
    first = max(0, min(screen.chosen - seen // 2, len(shown.rows) - seen))
    for place, row in enumerate(shown.rows[first : first + seen], first):
        is_chosen = place == screen.chosen
        mark = Text.assemble(_CHOSEN[screen.ascii] if is_chosen else " ", _shape(row.state, screen), " ")
        yield _row(mark, _texts(row, shown, screen), widths, screen, "bold" if is_chosen else "")
    total = len(shown.rows) if screen.find else max(len(shown.rows), shown.views.get(screen.view) or 0)
    if total > seen:
        unread = f", of which {total - len(shown.rows):,} are not sorted in" if screen.sort else ""
        more = f"   and {total - seen:,} more" + (unread if total > len(shown.rows) else "")
        yield Text(more, "dim")


def _empty(screen: Screen) -> str:
    if screen.find:
        return f"No schedule here matches {quoted(screen.find, 40)!r}."
    text = {"needs": "Nothing needs you.", "running": "Nothing is running.", "next": "Nothing is to come."}
    return text.get(screen.view, "There are no schedules yet.")


def _texts(row: Row, shown: Shown, screen: Screen) -> list[str | Text]:
    last = "" if row.last is None else f"{_away(shown.now - row.last)} ago"
    following = "-" if row.next is None else f"in {_away(row.next - shown.now)}"
    return [quoted(row.id), row.when, _strip(row, screen), last, following, quoted(row.note)]


def _strip(row: Row, screen: Screen) -> Text:
    """Return the last 20 ticks, aligned to the present, and the next 3; equal neighbours form one span."""
    past = [""] * (_PAST - len(row.past[-_PAST:])) + [*row.past[-_PAST:]]
    states = past + ["to_come"] * row.to_come + [""] * (_NEXT - row.to_come)
    strip = Text()
    for state, group in groupby(states):
        count = len([*group])
        strip += Text(" " * count) if not state else _shape(state, screen, count)
    return strip


def _widths(rows: Sequence[Row], screen: Screen) -> list[int]:
    """Return the widths of the columns; 0 for a column without room."""
    ids = max(len("schedule"), *(len(row.id) for row in rows))
    if screen.view == "fleet":
        name = min(ids, screen.width // 2)
        return [name, 0, 0, 0, 0, max(0, screen.width - name - 5)]
    if screen.width < _NARROW:
        return [min(ids, screen.width - 18), 0, 0, 0, 13, 0]
    if screen.width < _WIDE:
        left = screen.width - 3 - 25 - 13
        name = min(ids, 24)
        return [name, 0, _PAST + _NEXT, 0, 11, max(0, left - name - 2)]
    most = 20 if screen.width < _ROOMY else 40
    name, when = min(ids, 30), min(most, max(len("when"), *(len(row.when) for row in rows)))
    left = screen.width - 3 - name - when - _PAST - _NEXT - 2 * 12 - 2 * 5
    return [name, when, _PAST + _NEXT, 12, 12, max(0, left)]


def _row(
    mark: Text | str, cells: Sequence[str | Text], widths: list[int], screen: Screen, style: str
) -> Text:
    line = Text("   ", style) if not mark else Text.assemble(mark, style=style)
    for cell, width in zip(cells, widths, strict=True):
        if width:
            # Cut an id in the middle: its ends tell more.
            cut = cut_middle if cell is cells[0] else cut_end
            shown = cell if isinstance(cell, Text) else Text(cut(cell, width, "~" if screen.ascii else "…"))
            shown.align("left", width)
            line += Text.assemble(shown, "  ")
    line.rstrip()
    return line


def _why(screen: Screen) -> Iterator[Text]:
    if not screen.why:
        return
    rule = _RULE[screen.ascii]
    yield Text(f"{rule * 2} why {rule * max(0, screen.width - 7)}", "dim")
    yield from map(Text, textwrap.wrap(quoted(screen.why, 1000), max(20, screen.width - 1))[:4])


def _bottom(screen: Screen) -> Text:
    if screen.prompt:
        return Text(screen.prompt, "bold")
    arrows = "k/j" if screen.ascii else "↑↓"
    if screen.width < _NARROW:
        return Text(f" {arrows} choose  enter why  ? keys  q quit", "dim")
    keys = " choose  enter why  t run now  p pause  e edit  o page  / find  s sort  ? keys  q quit"
    if screen.width < _WIDE:
        keys = " choose  enter why  t run  p pause  e edit  / find  s sort  ? keys  q quit"
    return Text(f" {arrows}{keys}", "dim")


def _help() -> Iterator[Text]:
    for key, meaning in _KEYS.items():
        yield Text.assemble("   ", (f"{key:14}", "bold"), meaning)


def _shape(state: str, screen: Screen, count: int = 1) -> Text:
    unicode, plain, style = SHAPES[state]
    return Text((plain if screen.ascii else unicode) * count, style)


def _spread(left: Text, right: Text, width: int) -> Text:
    """Return two texts at the ends of a line; the right one is left out if there is no room."""
    gap = width - left.cell_len - right.cell_len
    return Text.assemble(left, " " * gap, right) if right and gap >= 2 else left


def _away(time: timedelta) -> str:
    """Return the distance of an instant in its largest unit."""
    return " ".join(duration(max(0, round(time.total_seconds()))).split()[:2])


def _short(seconds: float) -> str:
    return f"{round(seconds * 1000)} ms" if seconds < 1 else duration(seconds)
