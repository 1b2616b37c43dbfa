"""The strip of one schedule: each tick at its place in time, with its outcome."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from dutiful.web.drawing.axis import ClockChange, Span, clock_changes, labels, now_line, pauses, weekends
from dutiful.web.drawing.marks import (
    Tick,
    bar,
    circle,
    cross,
    diamond,
    drawing,
    line,
    link,
    number,
    path,
    rect,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

MARKS_MAX = 80
"""With more ticks than this a page would have too many links, so a density drawing is used instead."""

_TOP, _BASE = 24, 104
_WIDE_HEIGHT, _NARROW_HEIGHT = 176, 168
_BAR_LOW, _BAR_HIGH = 16, 44


class Strip(NamedTuple):
    """All that a strip shows; `href` returns the page about a tick, `said` the tick in words."""

    span: Span
    ticks: list[Tick]
    now: datetime
    changes: list[ClockChange]
    href: Callable[[Tick], str]
    said: Callable[[Tick], str]
    chosen: datetime | None = None
    # The beginning and the end of each pause.
    pauses: Sequence[tuple[datetime, datetime]] = ()
    # Whether the line of the ticks ends at the present, because the schedule is set aside.
    ends: bool = False


def strip(it: Strip, css: str = "wide") -> str:
    """Return the strip; ticks outside its span are left out."""
    height = _WIDE_HEIGHT if css == "wide" else _NARROW_HEIGHT
    bottom, ticks = height - 22, [tick for tick in it.ticks if _is_shown(it.span, tick)]
    pitch = _pitch(it.span, ticks)
    longest = max((tick.took or 0 for tick in ticks), default=0)
    drawn = [
        weekends(it.span, _TOP, bottom - _TOP),
        labels(it.span, height - 6, 90 if css == "wide" else 62),
        pauses(it.span, it.pauses, _TOP, bottom),
        _axis(it),
        clock_changes(it.span, it.changes, _TOP + 6, bottom),
        _chosen(it, pitch, bottom),
        *(_brackets(it.span, ticks, pitch)),
        *(_mark(it, tick, pitch, longest, bottom) for tick in ticks),
    ]
    if it.span.holds(it.now):
        drawn.append(now_line(it.span.x(it.now), bottom))
    return drawing(it.span.width, height, css, *drawn)


def _axis(it: Strip) -> str:
    """Return the line of the ticks; where it ends at the present, with the sign of "set aside"."""
    if not it.ends:
        return line(0, _BASE, it.span.width, _BASE, "axis")
    x = it.span.x(it.now)
    sign = path(f"M{number(x + 16)} {_BASE - 7}l7 12h-14z", "aside")
    bang = path(f"M{number(x + 16)} {_BASE - 2.5}v3.4m0 1.8v.1", "asidebang")
    return line(0, _BASE, x, _BASE, "axis") + sign + bang + text(x + 28, _BASE + 4, "set aside", "t-skip")


def _is_shown(span: Span, tick: Tick) -> bool:
    return span.holds(tick.at) or (tick.until is not None and tick.at < span.end and tick.until >= span.start)


def _pitch(span: Span, ticks: list[Tick]) -> float:
    """Return the width of one tick: the smallest distance of two, but wide enough to be seen and clicked."""
    places = sorted(span.x(tick.at) for tick in ticks if tick.state != "hand")
    gaps = [after - before for before, after in pairwise(places) if after - before > 1]
    return min(max(min(gaps, default=30), 7), 30)


def _mark(it: Strip, tick: Tick, pitch: float, longest: float, bottom: float) -> str:
    x = it.span.x(tick.at)
    hit = path(bar(x - pitch / 2, bottom - 2, pitch, bottom - _TOP - 2), "hit")
    return link(it.href(tick), it.said(tick), hit, _shape(it, tick, x, pitch, longest))


def _shape(it: Strip, tick: Tick, x: float, pitch: float, longest: float) -> str:
    width = max(3.0, min(11.0, pitch - 3))
    if tick.state == "skipped":
        stem = line(x, _BASE, x, _BASE + 7, "stem")
        return stem + path(diamond(x, _BASE + 12, min(4.8, width / 2 + 1)), "skipped")
    if tick.state == "to_come":
        return circle(x, _BASE, min(4.2, width / 2), "come")
    tall = _height(tick.took, longest)
    if tick.state == "running":
        # The bar of a running tick ends at the present, because its length is not known yet.
        right = min(it.span.x(it.now), x + 2 * width) if it.now > tick.at else x + width / 2
        return rect(x - width / 2, _BASE - 1 - tall, max(width, right - x), tall, "running", 1.5)
    if tick.state == "hand":
        return path(_triangle(x, _BASE - 1 - tall - 8), "hand") + rect(
            x - 1, _BASE - 1 - tall, 2, tall, "ran"
        )
    body = path(bar(x - width / 2, _BASE - 1, width, tall), tick.state)
    if tick.state == "failed":
        body += path(cross(x, _BASE - 9 - tall, 3.6), "cross")
    if tick.late:
        body += path(f"M{number(x + width / 2 + 2)} {_BASE - 4}h6m-2.4-2.4 2.4 2.4-2.4 2.4", "whisker")
    return body


def _height(took: float | None, longest: float) -> float:
    """Return the height of a bar: the logarithm of its time, relative to the longest time of the strip."""
    if not took or not longest:
        return _BAR_LOW
    return _BAR_LOW + (_BAR_HIGH - _BAR_LOW) * math.log1p(took) / math.log1p(longest)


def _triangle(x: float, y: float) -> str:
    return f"M{number(x)} {number(y - 4)}l4.5 8h-9z"


def _chosen(it: Strip, pitch: float, bottom: float) -> str:
    if it.chosen is None or not it.span.holds(it.chosen):
        return ""
    wide = max(pitch, 12) + 2
    return rect(it.span.x(it.chosen) - wide / 2, _TOP, wide, bottom - _TOP - 2, "chosen", 5)


def _brackets(span: Span, ticks: list[Tick], pitch: float) -> list[str]:
    """Return a bracket, with a count, under neighbouring ticks that were skipped for one reason."""
    drawn, taken = list[str](), -math.inf
    for (state, reason), group in groupby(ticks, lambda tick: (tick.state, tick.reason)):
        if state != "skipped":
            continue
        skipped = [*group]
        left = max(0.0, span.x(skipped[0].at) - 7.5)
        last = max(skipped[-1].at, skipped[-1].until or skipped[-1].at)
        right = min(span.width, max(span.x(last) + 7.5, left + 15))
        drawn.append(path(f"M{number(left)} {_BASE + 14}v6H{number(right)}v-6", "bracket"))
        words = f"{reason or 'skipped'} {sum(tick.ticks for tick in skipped)}"
        half, middle = 3.2 * len(words), (left + right) / 2
        middle = min(max(middle, half), span.width - half)
        # Leave out a label that would run into the label before; its bracket and the table remain.
        if middle - half > taken:
            drawn.append(text(middle, _BASE + 34, words, "t-skip", "middle"))
            taken = middle + half + pitch / 2
    return drawn


# The measures of the drawing of drift.
_DRIFT_WIDTH, _DRIFT_PLOT, _DRIFT_TOP, _DRIFT_BOTTOM = 250, 224, 7, 45


def drift(late: list[float | None]) -> str:
    """Return a dot for the delay of each launch, in seconds, on a scale from 1 ms to 1 min."""

    def y(seconds: float) -> float:
        share = (math.log10(min(max(seconds, 0.001), 60)) + 3) / (math.log10(60) + 3)
        return _DRIFT_BOTTOM - share * (_DRIFT_BOTTOM - _DRIFT_TOP)

    step = (_DRIFT_PLOT - 8) / max(1, len(late) - 1)
    dots = [
        circle(4 + place * step, y(seconds), 2.6 if seconds <= 1 else 3.4, "drift" + " late" * (seconds > 1))
        for place, seconds in enumerate(late)
        if seconds is not None
    ]
    scale = [("1 ms", 0.001), ("1 s", 1), ("1 min", 60)]
    words = [text(_DRIFT_WIDTH, y(seconds) + 4, label, anchor="end") for label, seconds in scale]
    # Where there is less room, the oldest launches are cut off: smaller text could not be read.
    ratio = 'preserveAspectRatio="xMaxYMid slice"'
    size = f'viewBox="0 0 {number(_DRIFT_WIDTH)} 52" {ratio} width="{number(_DRIFT_WIDTH)}" height="52"'
    band = rect(0, y(1), _DRIFT_PLOT, _DRIFT_BOTTOM - y(1) + 2, "band", 3)
    drawn = "".join([band, *words, *dots])
    return f'<svg class="plot" {size} aria-hidden="true" focusable="false">{drawn}</svg>'


_BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_BOUND_WORDS = ("1 ms", "", "10 ms", "", "100 ms", "", "1 s", "", "10 s", "")


def histogram(delays: list[float]) -> str:
    """Return a bar for the number of delays up to each bound, and one for those above the last."""
    # As wide as a phone, so that its text stays as large as it is written.
    step, base = 29.0, 76.0
    counts = Counter(bisect_left(_BOUNDS, delay) for delay in delays)
    most = max(counts.values(), default=1)
    drawn = [line(0, base, step * (len(_BOUNDS) + 1), base, "axis")]
    for place, count in sorted(counts.items()):
        # Even one delay of many can be seen.
        height = max(3.0, 58 * count / most)
        x, css = place * step, "drift late" if place > _BOUNDS.index(1.0) else "drift"
        drawn.append(rect(x + 3, base - height, step - 6, height, css, 2))
        drawn.append(text(x + step / 2, base - height - 4, f"{count:,}", anchor="middle"))
    for place, words in enumerate(_BOUND_WORDS, 1):
        if words:
            drawn.append(text(place * step, base + 15, words, anchor="middle"))
    return drawing(step * (len(_BOUNDS) + 1), base + 20, "histogram", *drawn)


def meter(seconds: float, usual: float | None) -> str:
    """Return a bar for the time that a run has taken, with a line at the usual time."""
    whole = 1.25 * max(seconds, usual or 0) or 1
    over = usual is not None and seconds > usual
    fill = rect(
        0,
        0,
        128 * (1.0 if usual is None else min(1.0, seconds / whole)),
        6,
        "fill over" if over else "fill",
        3,
    )
    mark = "" if usual is None else line(128 * usual / whole, 0, 128 * usual / whole, 6, "usual")
    box = 'viewBox="0 0 128 6" preserveAspectRatio="none"'
    return f'<svg class="meter" {box} aria-hidden="true">{rect(0, 0, 128, 6, "track", 3)}{fill}{mark}</svg>'
