"""SVG elements as text, and the one shape that each state of a tick has.

Elements are short, escaped, and the same bytes for the same values.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


def number(value: float) -> str:
    """Return a coordinate with at most one decimal: 12, 12.5."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def rect(x: float, y: float, width: float, height: float, css: str, radius: float = 0) -> str:
    """Return a rectangle."""
    rounded = f' rx="{number(radius)}"' if radius else ""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f'<rect {place}{rounded} class="{css}"/>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    """Return a straight line."""
    ends = f'x1="{number(x1)}" x2="{number(x2)}" y1="{number(y1)}" y2="{number(y2)}"'
    return f'<line {ends} class="{css}"/>'


def circle(x: float, y: float, radius: float, css: str) -> str:
    """Return a circle."""
    return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{css}"/>'


def path(drawn: str, css: str) -> str:
    """Return a path element, or nothing for an empty path."""
    return f'<path d="{drawn}" class="{css}"/>' if drawn else ""


def text(x: float, y: float, words: str, css: str = "", anchor: str = "") -> str:
    """Return one line of text, escaped."""
    kind = f' class="{css}"' if css else ""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{number(x)}" y="{number(y)}"{at}{kind}>{escape(words)}</text>'


def link(href: str, title: str, *drawn: str) -> str:
    """Return elements inside a link that the Tab key skips: a table beside the drawing has the same links."""
    return f'<a href="{escape(href)}" tabindex="-1"><title>{escape(title)}</title>{"".join(drawn)}</a>'


def drawing(width: float, height: float, css: str, *drawn: str) -> str:
    """Return a whole drawing, hidden from screen readers: a sentence and a table say the same."""
    box = f'viewBox="0 0 {number(width)} {number(height)}"'
    return f'<svg class="plot {css}" {box} aria-hidden="true" focusable="false">{"".join(drawn)}</svg>'


def bar(x: float, bottom: float, width: float, height: float) -> str:
    """Return the path of an upright bar; many bars may share one path element."""
    up = number(height)
    return f"M{number(x)} {number(bottom)}v{'-' * (up != '0')}{up}h{number(width)}v{up}z"


def hatching(left: float, right: float, top: float, height: float) -> str:
    """Return the path of slanted lines that fill a box."""
    drawn, begins = "", left - height
    while begins < right:
        # Cut each line at the left and the right edge of the box.
        low, far = max(begins, left), min(begins + height, right)
        drawn += (
            f"M{number(low)} {number(top + height - (low - begins))}l{number(far - low)} {number(low - far)}"
        )
        begins += 12
    return drawn


State: TypeAlias = Literal["ran", "failed", "skipped", "running", "to_come", "hand", "backfilled"]
STATES: tuple[State, ...] = ("ran", "failed", "skipped", "running", "to_come", "hand", "backfilled")

_OF_STATUS: dict[str, State] = {"SUCCESS": "ran", "FAILED": "failed", "SKIPPED": "skipped"}
_BY_TRIGGER: dict[str, State] = {"manual": "hand", "backfill": "backfilled"}


def drawn_as(status: str, trigger: str = "schedule") -> State:
    """Return the state in which a run with this status is drawn, by what asked for it if it succeeded."""
    state = _OF_STATUS.get(status, "running")
    return _BY_TRIGGER.get(trigger, state) if state == "ran" else state


_SHAPES = {
    "ran": '<rect x="5.5" y="2.5" width="5" height="11" rx="1" class="ran"/>',
    "failed": '<path d="M4 4l8 8M12 4l-8 8" class="cross"/>',
    "skipped": '<path d="M8 2.8 13.2 8 8 13.2 2.8 8z" class="skipped"/>',
    "to_come": '<circle cx="8" cy="8" r="4.5" class="come"/>',
    "running": '<circle cx="8" cy="8" r="5.2" class="runring"/><circle cx="8" cy="8" r="2" class="rundot"/>',
    "hand": '<path d="M8 3l5 9.5H3z" class="hand"/>',
    "backfilled": '<rect x="5.5" y="2.5" width="5" height="11" rx="1" class="backfilled"/>',
    "paused": '<path d="M5.5 3.5v9M10.5 3.5v9" class="pauseshape"/>',
    "aside": (
        '<path d="M8 2.2 14.2 13H1.8z" class="aside"/><path d="M8 6.4v3.2M8 11.3v.1" class="asidebang"/>'
    ),
    "clock": '<path d="M4.5 14V2.5h7L9.4 5.6l2.1 3.2h-7" class="flagshape"/>',
}


class Tick(NamedTuple):
    """One tick, or `ticks` skipped ticks from `at` to `until` that share one reason."""

    at: datetime
    state: State
    reason: str | None = None
    took: float | None = None  # seconds
    late: bool = False
    until: datetime | None = None
    ticks: int = 1
    attempt: int = 1


class Bead(NamedTuple):
    """One tick of a small strip: its state, and the seconds that its run took."""

    state: State
    took: float | None = None


def shape(state: str, size: int = 14) -> str:
    """Return the shape of a state, to be shown beside words."""
    box = f'width="{size}" height="{size}" viewBox="0 0 16 16"'
    return f'<svg class="plot shape" {box} aria-hidden="true">{_SHAPES[state]}</svg>'


# At most so many places are drawn; the words beside the drawing have the number.
_PLACES_MAX = 12


def places(taken: int, of: int) -> str:
    """Return a solid bar for each place that is taken and a hollow one for each free; nothing for many."""
    if of > _PLACES_MAX:
        return ""
    bars = [rect(8 * n + 1, 2.5, 5, 11, "rundot" if n < taken else "come", 1) for n in range(of)]
    box = f'width="{8 * of}" height="16" viewBox="0 0 {8 * of} 16"'
    return f'<svg class="plot shape" {box} aria-hidden="true">{"".join(bars)}</svg>'


def diamond(x: float, y: float, radius: float) -> str:
    """Return the path of a diamond around a point."""
    r, back = number(radius), number(-radius)
    return f"M{number(x)} {number(y - radius)}l{r} {r} {back} {r} {back} {back}z"


def cross(x: float, y: float, radius: float) -> str:
    """Return the path of a cross around a point."""
    wide, back = number(2 * radius), number(-2 * radius)
    left, top = number(x - radius), number(y - radius)
    return f"M{left} {top}l{wide} {wide}M{number(x + radius)} {top}l{back} {wide}"


class Mini:
    """The measures of a small strip beside a name."""

    STEP, HEIGHT, BASE, PAST, NEXT = 7, 26, 15, 20, 3
    WIDTH = STEP * (PAST + NEXT)


_MARKERS = {
    "x": path(cross(0, 0, 2.2), "cross thin"),
    "d": path(diamond(0, 0, 2.6), "skipped thin"),
    "o": circle(0, 0, 2.3, "come thin"),
}


def sprite() -> str:
    """Return the marks and shapes that small strips and signs refer to; a page has them once.

    Out of sight, not `hidden`: browsers draw no marker of an element that is not displayed.
    """
    size = 'viewBox="-4 -4 8 8" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"'
    markers = [f'<marker id="m-{name}" {size}>{drawn}</marker>' for name, drawn in _MARKERS.items()]
    shapes = [
        f'<symbol id="s-{name}" class="plot" viewBox="0 0 16 16">{drawn}</symbol>'
        for name, drawn in _SHAPES.items()
    ]
    return f'<div class="sr" aria-hidden="true"><svg class="plot">{"".join(markers + shapes)}</svg></div>'


def sign(state: str) -> str:
    """Return the shape of a state on a page that has the sprite, within an element that names the state."""
    return f'<svg class="plot shape"><use href="#s-{state}"/></svg>'


def mini(past: Sequence[Bead | Tick], to_come: int, css: str = "plot") -> str:
    """Return the last 20 ticks and up to 3 to come, evenly spaced, the newest at the right.

    One path for each kind of mark, because a list has fifty strips.
    """
    shown = past[-Mini.PAST :]
    longest = max((tick.took or 0 for tick in shown), default=0)
    sticks, marked = dict[str, list[tuple[int, int]]](), dict[str, list[int]]()
    for place, tick in enumerate(shown, Mini.PAST - len(shown)):
        marked.setdefault(tick.state, []).append(place)
        if tick.state not in ("skipped", "to_come"):
            height = 2 + round(6 * (tick.took or 0) / (longest or 1))
            sticks.setdefault("ran" if tick.state == "hand" else tick.state, []).append((place, height))
    ahead = range(Mini.PAST, Mini.PAST + min(to_come, Mini.NEXT))
    drawn = [_marked(Mini.BASE, [*marked.get("to_come", []), *ahead], "o", "axis")]
    drawn += [path(_sticks(sticks[css], css), css) for css in sorted(sticks)]
    drawn += [_marked(20.5, marked["skipped"], "d")] if "skipped" in marked else []
    drawn += [_marked(3.4, marked["failed"], "x")] if "failed" in marked else []
    box = f'viewBox="0 0 {Mini.WIDTH} {Mini.HEIGHT}"'
    return f'<svg class="{css}" {box} aria-hidden="true">{"".join(drawn)}</svg>'


def _sticks(sticks: list[tuple[int, int]], css: str) -> str:
    """Return bars as a path: lines with round ends, which take few bytes, or boxes for an outline."""
    if css in ("running", "backfilled"):
        boxes = [bar(_middle(place) - 2, Mini.BASE - 0.5, 4, height + 4) for place, height in sticks]
        return "".join(boxes)
    drawn, foot = "", number(Mini.BASE - 2.5)
    for (place, height), (before, fallen) in zip(sticks, [(0, 0), *sticks], strict=False):
        start = f"m{Mini.STEP * (place - before)} {fallen}" if drawn else f"M{_middle(place)} {foot}"
        drawn += f"{start}v-{height}"
    return drawn


def _marked(y: float, places: list[int], mark: str, css: str = "") -> str:
    """Return a line through the strip that has a mark at each of these places, as its corners."""
    stops = [0, *map(_middle, places), Mini.WIDTH]
    steps = "".join(f"h{stop - before}" for before, stop in pairwise(stops))
    kind = f' class="{css}"' if css else ""
    marker = f' marker-mid="url(#m-{mark})"' if places else ""
    return f'<path d="M0 {number(y)}{steps}"{kind}{marker}/>'


def _middle(place: int) -> int:
    return Mini.STEP * place + Mini.STEP // 2
