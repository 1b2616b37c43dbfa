"""Calendars: a year of days, and a day of minutes, as squares whose shade shows a count."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, timedelta
from functools import cache
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from dutiful.web.drawing.marks import drawing, link, number, path, rect, text
from dutiful.web.drawing.simulation_picture import Theme, themed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Became: TypeAlias = Literal["none", "same", "moved", "removed", "added"]
SHADES = (1, 5, 17, 49, 121)
"""The lowest number of ticks per minute of each shade; the legend prints these numbers."""
HOUR_SHADES = (1, 20, 68, 196, 484)
"""The same for ticks per hour."""
DAY_SHADES = (1, 500, 1_600, 4_700, 11_600)
"""The same for ticks per day."""

_CSS = {"none": "d0", "same": "d1", "moved": "moved", "removed": "d0", "added": "d0"}
# Days that carry a sign of their own.
_SIGNED = ("removed", "added")
_DAY_WIDTH, _DAY_HEIGHT = 48.0 + 60 * 16.0, 18.0 + 24 * 12.0 + 4
_LOAD_RULES = (
    ".ground{{fill:{ground}}}text{{font:500 12px ui-sans-serif,system-ui,sans-serif;fill:{muted}}}"
    ".title{{fill:{ink};font-weight:650;font-size:15px}}.strong,.peak{{fill:{ink};font-weight:650}}"
    ".peak{{stroke:{ground};stroke-width:4;paint-order:stroke}}.today{{fill:none;stroke:{ink};stroke-width:1.5}}"
    ".load0{{fill:{load0}}}.load1{{fill:{load1}}}.load2{{fill:{load2}}}.load3{{fill:{load3}}}"
    ".load4{{fill:{load4}}}.load5{{fill:{load5}}}"
)
_WEEKDAYS = {0: "Mon", 2: "Wed", 4: "Fri", 6: "Sun"}


class _Grid(NamedTuple):
    """Cells in rows: where the first one is, their size, and how many are in a row."""

    left: float
    top: float
    wide: float
    high: float
    columns: int

    def place(self, cell: int) -> tuple[float, float]:
        """Return the upper left corner of a cell."""
        row, column = divmod(cell, self.columns)
        return self.left + column * self.wide, self.top + row * self.high


# Whole numbers: a day has 1,440 cells, and shorter texts make the page smaller by a fifth.
_DAY_GRID = _Grid(48.0, 18.0, 16.0, 12.0, 60)
_WEEK_GRIDS = {"narrow": _Grid(40.0, 16.0, 13.0, 22.0, 24), "wide": _Grid(48.0, 18.0, 40.0, 22.0, 24)}
_BETWEEN = 2
Links: TypeAlias = "Mapping[int, tuple[str, str]]"
"""The address and the title of cells that are links."""


class Year(NamedTuple):
    """The days of a calendar from `first` on, in weeks from Monday; days that are not given have no ticks."""

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
    squares: dict[str, list[str]] = {}
    extra, square = list[str](), _square(cell)
    half = f"h{number(cell)}v{number(cell)}z"
    # Written once for each row and column: a number for each of the 371 days took half of the time.
    columns = [number(left + week * pitch) for week in range(it.weeks)]
    rows = [number(18 + row * pitch) for row in range(7)]
    for place in range(it.first.weekday(), it.weeks * 7):
        day = monday + timedelta(days=place)
        week, row = divmod(place, 7)
        kind = it.days.get(day, "none")
        # Half a square differs from a whole one in shape, for readers who see no colours.
        shape = half if kind == "moved" else square
        squares.setdefault(_CSS[kind], []).append(f"M{columns[week]} {rows[row]}{shape}")
        if kind in _SIGNED or day == it.first or day in it.clock_changes:
            extra += _extras(it, day, kind, (left + week * pitch, 18 + row * pitch, cell))
    drawn += [path("".join(squares[css_]), css_) for css_ in sorted(squares)] + extra
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


@cache
def _square(size: float) -> str:
    """Return the sides of a square, from its upper left corner."""
    side = number(size)
    return f"h{side}v{side}h-{side}z"


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
    return bisect_right(lows, count)


def load_matrix(counts: Sequence[int], links: Links = MappingProxyType({})) -> str:
    """Return a day of 1,440 minutes as 24 rows of 60, one path for each shade, the fullest minute ringed."""
    return drawing(_DAY_WIDTH, _DAY_HEIGHT, "wide", *_day_of_minutes(counts), *_linked(_DAY_GRID, links))


class LoadPicture(NamedTuple):
    """A day as a file of its own: its texts, the ticks of each minute, and named peaks to compare."""

    title: str
    note: str
    desc: str
    counts: Sequence[int]
    peaks: Sequence[tuple[str, int]] = ()


def load_picture(it: LoadPicture, theme: Theme = "auto") -> str:
    """Return a day of minutes as a whole SVG file, which carries its colours for both themes."""
    below = 44 + _DAY_HEIGHT
    width, height = _DAY_WIDTH + 40, below + (36 if not it.peaks else 64 + 24 * len(it.peaks))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" role="img">'
    )
    said = f"<title>{escape(it.title)}</title><desc>{escape(it.desc)}</desc>"
    said += f"<style>{themed(_LOAD_RULES, theme)}</style>"
    body = [
        rect(0, 0, width, height, "ground"),
        text(20, 28, it.title, "title"),
        text(width - 20, 28, it.note, anchor="end"),
        '<g transform="translate(20 44)">',
        *_day_of_minutes(it.counts),
        *_peak_label(it.counts),
        "</g>",
        *_legend(20, below + 18),
        *_bars(it.peaks, 20, below + 50),
    ]
    return f"{head}{said}{''.join(body)}</svg>\n"


def _peak_label(counts: Sequence[int]) -> list[str]:
    """Return the number and the time of the fullest minute, beside its ring and inside the drawing."""
    fullest = max(counts, default=0)
    if not fullest:
        return []
    minute = [*counts].index(fullest)
    x, y = _DAY_GRID.place(minute)
    words = f"{fullest:,} at {minute // 60:02}:{minute % 60:02}"
    fits = x + _DAY_GRID.wide + 10 + 7 * len(words) <= _DAY_WIDTH
    place, anchor = (x + _DAY_GRID.wide + 8, "") if fits else (x - 8, "end")
    return [text(place, y + 9, words, "peak", anchor)]


def _legend(x: float, y: float) -> list[str]:
    """Return a cell of each shade with the numbers of ticks that it stands for."""
    ends = [f"to {low - 1}" for low in SHADES[2:]]
    words = ["none", f"{SHADES[0]} to {SHADES[1] - 1}", *ends, "more"]
    drawn = [text(x, y, "ticks a minute")]
    for level, said in enumerate(words):
        place = x + 117 + 98 * level
        cell = _DAY_GRID.wide - _BETWEEN, _DAY_GRID.high - _BETWEEN
        drawn += [rect(place, y - cell[1], *cell, f"load{level}"), text(place + 21, y, said)]
    return drawn


def _bars(peaks: Sequence[tuple[str, int]], x: float, y: float) -> list[str]:
    """Return a bar for each peak, in the scale of the highest one."""
    most = max((peak for _, peak in peaks), default=0)
    drawn = [text(x, y, "Most ticks in a minute", "strong")] if peaks else []
    for row, (name, peak) in enumerate(peaks, 1):
        below = y + 24 * row
        long = max(2.0, 596 * peak / max(1, most))
        drawn.append(text(x, below, name))
        drawn.append(rect(x + 160, below - 11, long, 14, "load5" if row == 1 else "load3", 2))
        drawn.append(text(x + 160 + long + 9, below, f"{peak:,}", "strong"))
    return drawn


def _day_of_minutes(counts: Sequence[int]) -> list[str]:
    left, top, wide, high, _ = _DAY_GRID
    drawn = _shaded(_DAY_GRID, counts, SHADES)
    drawn += [text(left + minute * wide, 11, f":{minute:02}") for minute in range(0, 60, 5)]
    drawn += [
        text(left - 6, top + hour * high + 10, f"{hour:02}:00", anchor="end") for hour in range(0, 24, 3)
    ]
    fullest = max(counts, default=0)
    if fullest:
        x, y = _DAY_GRID.place([*counts].index(fullest))
        drawn.append(rect(x - 2, y - 2, wide + 2, high + 2, "today", 3))
    return drawn


def week_matrix(
    counts: Sequence[int], names: Sequence[str], css: str = "narrow", links: Links = MappingProxyType({})
) -> str:
    """Return seven days of 24 hours, one row for each day; the narrow one fits a phone."""
    grid = _WEEK_GRIDS[css]
    drawn = _shaded(grid, counts, HOUR_SHADES)
    every = 6 if css == "narrow" else 3
    drawn += [text(grid.left + hour * grid.wide, 10, f"{hour:02}") for hour in range(0, 24, every)]
    drawn += [text(0, grid.top + row * grid.high + 14, name) for row, name in enumerate(names)]
    size = grid.left + 24 * grid.wide, grid.top + 7 * grid.high + 4
    return drawing(*size, css, *drawn, *_linked(grid, links))


def year_matrix(
    first: date, counts: Sequence[int], css: str = "narrow", links: Links = MappingProxyType({})
) -> str:
    """Return a year of days, weeks as columns and weekdays as rows; the narrow one fits a phone."""
    pitch, left = (18.0, 48.0) if css == "wide" else (6.0, 34.0)
    before = first.weekday()
    weeks = -(-(before + len(counts)) // 7)
    places = {place: (left + (before + place) // 7 * pitch, 18 + (before + place) % 7 * pitch)
              for place in range(len(counts))}  # fmt: skip
    cell, cells = pitch - (_BETWEEN if css == "wide" else 1), dict[int, str]()
    for place, (x, y) in places.items():
        level = shade(counts[place], DAY_SHADES)
        cells[level] = f"{cells.get(level, '')}M{number(x)} {number(y)}{_square(cell)}"
    drawn = [path(cells[level], f"load{level}") for level in sorted(cells)]
    names = _WEEKDAYS if css == "wide" else {0: "Mon", 6: "Sun"}
    drawn += [
        text(0, 18 + row * pitch + cell - (3 if css == "wide" else 0), name) for row, name in names.items()
    ]
    drawn += _months(first - timedelta(days=before), weeks, left, pitch)
    drawn += [
        link(href, title, rect(*places[place], cell, cell, "hit")) for place, (href, title) in links.items()
    ]
    return drawing(left + weeks * pitch, 18 + 7 * pitch + 2, css, *drawn)


def _shaded(grid: _Grid, counts: Sequence[int], lows: Sequence[int]) -> list[str]:
    """Return one path for each shade."""
    wide, high = grid.wide - _BETWEEN, grid.high - _BETWEEN
    cell = f"h{number(wide)}v{number(high)}h{number(-wide)}z"
    columns = [number(grid.left + column * grid.wide) for column in range(grid.columns)]
    rows = [number(grid.top + row * grid.high) for row in range(-(-len(counts) // grid.columns))]
    cells: dict[int, list[str]] = {}
    for place, count in enumerate(counts):
        row, column = divmod(place, grid.columns)
        cells.setdefault(shade(count, lows), []).append(f"M{columns[column]} {rows[row]}{cell}")
    return [path("".join(cells[level]), f"load{level}") for level in sorted(cells)]


def _linked(grid: _Grid, links: Links) -> list[str]:
    """Return a link over each of these cells."""
    drawn = []
    for place, (href, title) in links.items():
        x, y = grid.place(place)
        drawn.append(link(href, title, rect(x, y, grid.wide - _BETWEEN, grid.high - _BETWEEN, "hit")))
    return drawn
