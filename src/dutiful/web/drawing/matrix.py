"""Calendars: a year of days, and a day of minutes, as squares whose shade shows a count."""

from __future__ import annotations

from datetime import date, timedelta
from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dutiful.web.drawing.lanes import Theme, themed
from dutiful.web.drawing.marks import drawing, number, path, rect, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Became: TypeAlias = Literal["none", "same", "moved", "removed", "added"]
SHADES = (1, 5, 17, 49, 121)
"""The lowest number of ticks per minute of each shade; the legend prints these numbers."""
HOUR_SHADES = (1, 20, 68, 196, 484)
"""The same for ticks per hour."""

_CSS = {"none": "d0", "same": "d1", "moved": "moved", "removed": "d0", "added": "added"}
_DAY_WIDTH, _DAY_HEIGHT = 48.0 + 60 * 16.0, 18.0 + 24 * 11.8 + 4
_LOAD_RULES = (
    ".ground{{fill:{ground}}}text{{font:500 12px ui-sans-serif,system-ui,sans-serif;fill:{muted}}}"
    ".title{{fill:{ink};font-weight:650;font-size:15px}}.today{{fill:none;stroke:{ink};stroke-width:1.5}}"
    ".load0{{fill:{load0}}}.load1{{fill:{load1}}}.load2{{fill:{load2}}}.load3{{fill:{load3}}}"
    ".load4{{fill:{load4}}}.load5{{fill:{load5}}}"
)
_WEEKDAYS = {0: "Mon", 2: "Wed", 4: "Fri", 6: "Sun"}


class Year(NamedTuple):
    """The days of a calendar from `first` on, in weeks from Monday; a day that is missing has no ticks."""

    first: date
    days: Mapping[date, Became]
    clock_changes: frozenset[date] = frozenset()
    weeks: int = 53


def year(it: Year, css: str = "wide") -> str:
    """Return weeks as columns and weekdays as rows, with a ring around today and each change of the clock."""
    cell, pitch, left = (9.0, 10.76, 30) if css == "wide" else (12.0, 14.6, 34)
    monday = it.first - timedelta(days=it.first.weekday())
    drawn = [text(0, 18 + row * pitch + cell - 1, name) for row, name in _WEEKDAYS.items()]
    drawn += _months(monday, it.weeks, left, pitch)
    squares: dict[str, str] = {}
    extra = list[str]()
    for place in range(it.weeks * 7):
        day = monday + timedelta(days=place)
        x, y = left + place // 7 * pitch, 18 + place % 7 * pitch
        if day < it.first:
            continue
        kind = it.days.get(day, "none")
        squares[_CSS[kind]] = squares.get(_CSS[kind], "") + _square(x, y, cell)
        extra += _extras(it, day, kind, (x, y, cell))
    drawn += [path(squares[css_], css_) for css_ in sorted(squares)] + extra
    return drawing(left + it.weeks * pitch, 18 + 7 * pitch + 2, css, *drawn)


def year_pair(it: Year) -> tuple[str, str]:
    """Return a year for a wide page, and its first five months for a narrow one."""
    return year(it), year(it._replace(weeks=22), "narrow")


def _extras(it: Year, day: date, kind: Became, place: tuple[float, float, float]) -> list[str]:
    x, y, cell = place
    drawn = []
    if kind == "removed":
        drawn.append(path(f"M{number(x + 2.5)} {number(y + cell / 2)}h{number(cell - 5)}", "minus"))
    if kind == "added":
        middle = f"M{number(x + cell / 2)} {number(y + 2)}v{number(cell - 4)}"
        drawn.append(path(f"{middle}M{number(x + 2)} {number(y + cell / 2)}h{number(cell - 4)}", "plus"))
    if day in it.clock_changes:
        drawn.append(rect(x - 1.5, y - 1.5, cell + 3, cell + 3, "dstring", 3.5))
    if day == it.first:
        drawn.append(rect(x - 1.5, y - 1.5, cell + 3, cell + 3, "today", 3.5))
    return drawn


def _square(x: float, y: float, size: float) -> str:
    return f"M{number(x)} {number(y)}h{number(size)}v{number(size)}h{number(-size)}z"


def _months(monday: date, weeks: int, left: float, pitch: float) -> list[str]:
    """Return the name of each month over its first whole week."""
    drawn, free = list[str](), -1.0
    for week in range(weeks):
        day = monday + timedelta(weeks=week)
        x = left + week * pitch
        begins = week == 0 or (day - timedelta(weeks=1)).month != day.month
        if begins and x > free:
            label = f"{day:%b %Y}" if day.month == 1 else f"{day:%b}"
            # A name over the last week would stand out of the drawing.
            if x + 6.5 * len(label) <= left + weeks * pitch:
                drawn.append(text(x, 10, label))
            free = x + 6.5 * len(label) + 6
    return drawn


def shade(count: int, lows: Sequence[int] = SHADES) -> int:
    """Return the shade of a number of ticks, 0 for none."""
    return sum(count >= low for low in lows)


def load_matrix(counts: Sequence[int], css: str = "wide") -> str:
    """Return a day of 1,440 minutes as 24 rows of 60, one path for each shade, the fullest minute ringed."""
    return drawing(_DAY_WIDTH, _DAY_HEIGHT, css, *_day_of_minutes(counts))


def load_picture(title: str, note: str, counts: Sequence[int], theme: Theme = "auto") -> str:
    """Return a day of minutes as a whole SVG file, which carries its colours for both themes."""
    width, height = _DAY_WIDTH + 40, _DAY_HEIGHT + 60
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" role="img">'
    )
    said = f"<title>{escape(title)}</title><desc>{escape(note)}</desc>"
    said += f"<style>{themed(_LOAD_RULES, theme)}</style>"
    body = [
        rect(0, 0, width, height, "ground"),
        text(20, 28, title, "title"),
        text(width - 20, 28, note, anchor="end"),
        '<g transform="translate(20 44)">',
        *_day_of_minutes(counts),
        "</g>",
    ]
    return f"{head}{said}{''.join(body)}</svg>\n"


def _day_of_minutes(counts: Sequence[int]) -> list[str]:
    left, top, wide, high = 48.0, 18.0, 16.0, 11.8
    cells: dict[int, str] = {}
    for minute, count in enumerate(counts):
        x, y = left + minute % 60 * wide, top + minute // 60 * high
        cells[shade(count)] = cells.get(shade(count), "") + (
            f"M{number(x)} {number(y)}h{number(wide - 1.6)}v{number(high - 1.6)}h{number(1.6 - wide)}z"
        )
    drawn = [path(cells[level], f"load{level}") for level in sorted(cells)]
    drawn += [text(left + minute * wide, 11, f":{minute:02}") for minute in range(0, 60, 5)]
    drawn += [
        text(left - 6, top + hour * high + 10, f"{hour:02}:00", anchor="end") for hour in range(0, 24, 3)
    ]
    fullest = max(counts, default=0)
    if fullest:
        minute = [*counts].index(fullest)
        x, y = left + minute % 60 * wide, top + minute // 60 * high
        drawn.append(rect(x - 2, y - 2, wide + 2.4, high + 2.4, "today", 3))
    return drawn


def week_matrix(counts: Sequence[int], names: Sequence[str], css: str = "narrow") -> str:
    """Return seven days of 24 hours, one row for each day, small enough for a phone."""
    left, top, wide, high = 34.0, 16.0, 13.4, 22.0
    cells: dict[int, str] = {}
    for place, count in enumerate(counts):
        x, y = left + place % 24 * wide, top + place // 24 * high
        level = shade(count, HOUR_SHADES)
        cells[level] = cells.get(level, "") + (
            f"M{number(x)} {number(y)}h{number(wide - 1.6)}v{number(high - 1.6)}h{number(1.6 - wide)}z"
        )
    drawn = [path(cells[level], f"load{level}") for level in sorted(cells)]
    drawn += [text(left + hour * wide, 10, f"{hour:02}") for hour in range(0, 24, 6)]
    drawn += [text(0, top + row * high + 14, name) for row, name in enumerate(names)]
    return drawing(left + 24 * wide, top + 7 * high + 4, css, *drawn)
