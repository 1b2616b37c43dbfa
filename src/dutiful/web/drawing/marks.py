"""SVG elements as text, and the one shape that each state of a tick has.

Elements are short, escaped, and the same bytes for the same values.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
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
    return f"M{number(x)} {number(bottom)}v{number(-height)}h{number(width)}v{number(height)}z"


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

TERMINAL: dict[str, tuple[str, str]] = {
    "ran": ("▮", "|"),
    "failed": ("✕", "x"),
    "skipped": ("◇", "-"),
    "to_come": ("○", "o"),
    "running": ("▶", ">"),
    "hand": ("▲", "^"),
    "backfilled": ("▯", ":"),
    "paused": ("‖", "="),
    "aside": ("!", "!"),
    "late": ("→", "+"),
    "clock": ("⚑", "~"),
}
"""The character of each state in a terminal: in Unicode, and for encodings that have only ASCII."""

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


def shape(state: str, size: int = 14) -> str:
    """Return the shape of a state, to be shown beside words."""
    box = f'width="{size}" height="{size}" viewBox="0 0 16 16"'
    return f'<svg class="plot shape" {box} aria-hidden="true">{_SHAPES[state]}</svg>'


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

    WIDTH, HEIGHT, BASE, PAST, NEXT = 150, 26, 15, 20, 3


def mini(past: list[Tick], to_come: int) -> str:
    """Return the last 20 ticks and up to 3 to come, evenly spaced, the newest at the right."""
    shown, step = past[-Mini.PAST :], Mini.WIDTH / (Mini.PAST + Mini.NEXT)
    first = Mini.PAST - len(shown)
    longest = max((tick.took or 0 for tick in shown), default=0)
    drawn = [line(0, Mini.BASE, Mini.WIDTH, Mini.BASE, "axis")]
    for place, tick in enumerate(shown, first):
        drawn.append(_small(step * (place + 0.5), tick, longest))
    ahead = range(Mini.PAST, Mini.PAST + min(to_come, Mini.NEXT))
    drawn += [circle(step * (place + 0.5), Mini.BASE, 2.3, "come thin") for place in ahead]
    size = f'viewBox="0 0 {Mini.WIDTH} {Mini.HEIGHT}" width="{Mini.WIDTH}" height="{Mini.HEIGHT}"'
    return f'<svg class="plot" {size} aria-hidden="true" focusable="false">{"".join(drawn)}</svg>'


def _small(x: float, tick: Tick, longest: float) -> str:
    if tick.state == "skipped":
        return path(diamond(x, 20.5, 2.6), "skipped thin")
    if tick.state == "to_come":
        return circle(x, Mini.BASE, 2.3, "come thin")
    height = 6 + 6 * ((tick.took or 0) / longest if longest else 0)
    css = "ran" if tick.state == "hand" else tick.state
    body = rect(x - 2, Mini.BASE - 0.5 - height, 4, height, css, 1.5)
    return body + (path(cross(x, 3.4, 2.2), "cross thin") if tick.state == "failed" else "")
