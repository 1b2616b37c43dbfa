"""A picture of a simulation: a lane for each schedule, with its runs to scale, and outages through all lanes.

The picture is a file of its own: it carries its colours for both themes, needs no script, and has the same
bytes for the same simulation.
"""

from __future__ import annotations

from html import escape
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from dutiful.web.drawing.axis import ClockChange, Span, labels
from dutiful.web.drawing.marks import Tick, circle, cross, diamond, hatching, line, number, path, rect, text

if TYPE_CHECKING:
    from datetime import datetime

LANES_MAX, MARKS_MAX = 20, 2000
"""The most lanes of a picture, and the measure by which lanes with many successful ticks are thinned out."""

_LEFT, _RIGHT, _TOP, _LANE, _WIDTH = 150, 210, 62, 64, 1100
_LIGHT = {
    "ink": "#12161c", "muted": "#586371", "line": "#dfe3e8", "edge": "#87909c", "ground": "#ffffff",
    "ok": "#1f9157", "fail": "#d5283f", "skip": "#b3720a", "tint": "#fbf1db", "dst": "#8450d4",
    "load0": "#eef0f3", "load1": "#cfe0fb", "load2": "#a3c3f7", "load3": "#5f93ee",
    "load4": "#2c6be0", "load5": "#143f94",
}  # fmt: skip
_DARK = {
    "ink": "#e9edf2", "muted": "#98a3b1", "line": "#272e38", "edge": "#6d7886", "ground": "#14181e",
    "ok": "#34b06e", "fail": "#ee5160", "skip": "#cf9624", "tint": "#2d220c", "dst": "#a574ec",
    "load0": "#1b2028", "load1": "#1d3157", "load2": "#28498a", "load3": "#3d6cc4",
    "load4": "#6b9df2", "load5": "#b3d0ff",
}  # fmt: skip
_RULES = (
    ".ground{{fill:{ground}}}text{{font:500 12px ui-sans-serif,system-ui,sans-serif;fill:{muted}}}"
    ".strong{{fill:{ink};font-weight:600}}.title{{fill:{ink};font-weight:650;font-size:15px}}"
    ".axis{{stroke:{edge}}}.hair{{stroke:{line}}}.ran{{fill:{ok}}}.failed{{fill:{fail}}}"
    ".running{{fill:none;stroke:{ok}}}.cross{{stroke:{fail};stroke-width:2;fill:none}}"
    ".skipped{{fill:{ground};stroke:{skip};stroke-width:1.5}}.bracket{{stroke:{skip};fill:none}}"
    # A rim in the colour of the ground keeps words readable over the hatching.
    ".t-skip{{fill:{skip};stroke:{ground};stroke-width:3px;paint-order:stroke}}"
    ".down{{fill:{tint}}}.hatch{{stroke:{skip};stroke-width:.6}}"
    ".late{{stroke:{skip};stroke-dasharray:2 3;fill:none}}.owed{{stroke:{skip};fill:{ground}}}"
    ".dstline{{stroke:{dst};stroke-dasharray:3 3}}.t-dst{{fill:{dst}}}"
)

Theme = Literal["auto", "light", "dark"]


class Lane(NamedTuple):
    """One schedule: its ticks in order, each with the time of its launch if that was later than the tick."""

    name: str
    ticks: list[tuple[Tick, datetime | None]]

    @property
    def account(self) -> str:
        """Return the outcomes of the ticks in words, such as "17 ran, 2 failed"."""
        counts: dict[str, int] = {}
        for tick, _ in self.ticks:
            state = "ran" if tick.state in {"hand", "backfilled"} else tick.state
            counts[state] = counts.get(state, 0) + tick.ticks
        told = [
            f"{counts[state]:,} {state}"
            for state in ("ran", "failed", "skipped", "running")
            if state in counts
        ]
        return ", ".join(told) or "no tick"


class Picture(NamedTuple):
    """All that the picture shows."""

    title: str
    note: str
    start: datetime
    end: datetime
    lanes: list[Lane]
    outages: list[tuple[datetime, datetime]]
    changes: list[tuple[ClockChange, str]]


def picture(it: Picture, theme: Theme = "auto") -> str:
    """Return a whole SVG file."""
    shown, left_out = _chosen(it.lanes)
    height = _TOP + len(shown) * _LANE + 44
    span = Span(it.start, it.end, it.start.tzinfo, _WIDTH - _LEFT - _RIGHT)  # type: ignore[arg-type]
    bottom = _TOP + len(shown) * _LANE + 4
    body = [
        rect(0, 0, _WIDTH, height, "ground"),
        text(20, 28, it.title, "title"),
        text(_WIDTH - 20, 28, it.note, anchor="end"),
        f'<g transform="translate({_LEFT} 0)">',
        *(_grid(span, bottom)),
        *(_outage(span, begin, end, bottom) for begin, end in it.outages),
        *(_change(span, change, words, bottom) for change, words in it.changes if span.holds(change.at)),
        *(_lane(span, lane, _TOP + row * _LANE + 40) for row, lane in enumerate(shown)),
        labels(span, bottom + 22),
        "</g>",
        *(_names(lane, _TOP + row * _LANE + 40) for row, lane in enumerate(shown)),
        text(20, bottom + 22, "UTC"),
    ]
    told = [f"and {left_out} more schedules, with less to tell"] if left_out else []
    if any(_drawn_of(lane) > 1 for lane in shown):
        told.append("bars are thinned out where there are too many to tell apart; the counts include all")
    if told:
        body.append(text(20, height - 6, "; ".join(told)))
    described = "; ".join(f"{lane.name}: {lane.account}" for lane in shown)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {number(height)}" role="img">'
    said = f"<title>{escape(it.title)}</title><desc>{escape(described)}</desc>"
    return f"{head}{said}<style>{themed(_RULES, theme)}</style>{''.join(body)}</svg>\n"


def themed(rules: str, theme: Theme) -> str:
    """Return the CSS rules of a picture in the colours of one theme; "auto" follows the reader's system."""
    light, dark = rules.format(**_LIGHT), rules.format(**_DARK)
    if theme == "auto":
        return f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
    return light if theme == "light" else dark


def _chosen(lanes: list[Lane]) -> tuple[list[Lane], int]:
    """Return the lanes that fit, in their given order, and the number left out; lanes with trouble stay."""

    def told(lane: Lane) -> int:
        return sum(tick.state != "ran" for tick, _ in lane.ticks)

    best = sorted(range(len(lanes)), key=lambda place: (-told(lanes[place]), place))[:LANES_MAX]
    return [lanes[place] for place in sorted(best)], len(lanes) - len(best)


def _grid(span: Span, bottom: float) -> list[str]:
    return [line(span.x(at), _TOP - 12, span.x(at), bottom, "hair") for at, _ in span.round_instants()]


def _outage(span: Span, begin: datetime, end: datetime, bottom: float) -> str:
    left, right = max(0.0, span.x(begin)), min(span.width, span.x(end))
    if right <= left:
        return ""
    top, high = _TOP - 12, bottom - _TOP + 12
    hatch = hatching(left, right, top, high)
    hours = (end - begin).total_seconds() / 3600
    words = f"down {hours:g} h" if hours >= 1 else f"down {hours * 60:g} min"
    label = text((left + right) / 2, top - 4, words, "t-skip", "middle")
    return rect(left, top, right - left, high, "down") + path(hatch, "hatch") + label


def _change(span: Span, change: ClockChange, words: str, bottom: float) -> str:
    x = span.x(change.at)
    return line(x, _TOP - 12, x, bottom, "dstline") + text(x + 4, _TOP - 2, words, "t-dst")


def _names(lane: Lane, base: float) -> str:
    name = lane.name if len(lane.name) <= 20 else f"{lane.name[:9]}…{lane.name[-10:]}"
    return text(20, base + 4, name, "strong") + text(_WIDTH - 20, base + 4, lane.account, anchor="end")


def _drawn_of(lane: Lane) -> int:
    """Return n where one in n successful ticks of a lane is drawn."""
    return max(1, len(lane.ticks) * LANES_MAX // MARKS_MAX // 4)


def _lane(span: Span, lane: Lane, base: float) -> str:
    drawn, bars = [line(0, base, span.width, base, "axis")], ""
    every = _drawn_of(lane)
    for place, (tick, launched) in enumerate(lane.ticks):
        if tick.state == "skipped":
            continue
        if tick.state != "ran" or launched is not None:
            drawn.append(_mark(span, tick, launched, base))
        elif (
            place % every == 0
        ):  # the others are too many to tell apart; the count at the right includes them
            bars += _bar(span, tick, tick.at, base)
    skipped = _skips(span, [tick for tick, _ in lane.ticks if tick.state == "skipped"], base)
    return "".join([*drawn, *skipped, path(bars, "ran")])


def _bar(span: Span, tick: Tick, begins: datetime, base: float) -> str:
    x = span.x(begins)
    whole = (span.end - span.start).total_seconds()
    wide = max(3.0, (tick.took or 0) / whole * span.width)
    if tick.state == "running":
        wide = max(3.0, span.width - x)
    return f"M{number(x)} {number(base)}v-16h{number(min(wide, span.width - x + 3))}v16z"


def _mark(span: Span, tick: Tick, launched: datetime | None, base: float) -> str:
    begins = launched or tick.at
    drawn = path(_bar(span, tick, begins, base), tick.state if tick.state in {"failed", "running"} else "ran")
    if launched is not None:
        owed = circle(span.x(tick.at), base - 8, 2.5, "owed")
        drawn += owed + line(span.x(tick.at) + 3, base - 8, span.x(launched), base - 8, "late")
        if tick.attempt > 1:
            drawn += text(span.x(launched), base - 20, f"attempt {tick.attempt}")
    if tick.state == "failed":
        drawn += path(cross(span.x(begins) + 2, base - 24, 3.5), "cross")
    return drawn


def _skips(span: Span, ticks: list[Tick], base: float) -> list[str]:
    """Return the marks of skipped ticks; neighbours with one reason share a label with their number."""
    drawn, taken = [_skipped(span, tick, base) for tick in ticks], -1.0
    for reason, found in groupby(ticks, key=attrgetter("reason")):
        group = list(found)
        count = sum(tick.ticks for tick in group)
        words = f"{reason} {count}" if count > 1 else str(reason)
        middle = (span.x(group[0].at) + span.x(group[-1].until or group[-1].at)) / 2
        if middle - 3 * len(words) > taken:
            drawn.append(text(middle, base + 27, words, "t-skip", "middle"))
            taken = middle + 3 * len(words) + 6
    return drawn


def _skipped(span: Span, tick: Tick, base: float) -> str:
    x = span.x(tick.at)
    if tick.until is None:
        return path(diamond(x, base + 9, 4), "skipped")
    right = max(span.x(tick.until), x + 8)
    return path(f"M{number(x)} {number(base + 4)}v6H{number(right)}v-6", "bracket")
