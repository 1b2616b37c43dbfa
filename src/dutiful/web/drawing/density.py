"""Many ticks as bars: how many ran, failed, were skipped or are to come in each bucket of time."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dutiful.web.drawing.axis import ClockChange, Span, clock_changes, labels, now_line, pauses
from dutiful.web.drawing.marks import bar, cross, drawing, line, link, path, rect, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

_TOP, _BASE, _HEIGHT, _SKIP_MAX = 48, 146, 214, 20
_SCALE_ROOM = 34  # pixels at the right for the numbers of the scale


class Bucket(NamedTuple):
    """The counts of the ticks in one bucket of time, which begins at `start`; `skipped` counts by reason."""

    start: datetime
    ran: int = 0
    failed: int = 0
    skipped: Counter[str] = Counter()  # noqa: RUF012 - a value, never changed
    to_come: int = 0

    @property
    def below(self) -> int:
        """Return the number of ticks that are drawn below the line."""
        return self.skipped.total() if self.skipped else 0

    @property
    def above(self) -> int:
        """Return the number of ticks that are drawn above the line."""
        return self.ran + self.failed + self.to_come


class Density(NamedTuple):
    """All that the drawing shows; `href` returns the page about the ticks between two instants."""

    span: Span
    buckets: Sequence[Bucket]
    width: timedelta
    now: datetime
    href: Callable[[datetime, datetime], str]
    hour: timedelta
    changes: Sequence[ClockChange] = ()
    # The beginning and the end of each pause.
    pauses: Sequence[tuple[datetime, datetime]] = ()


def density(it: Density, css: str = "wide") -> str:
    """Return the bars on a square-root scale; a lane above shows failures, so that 1 of 400 is visible."""
    shown = [bucket for bucket in it.buckets if it.span.holds(bucket.start)]
    fullest = max((bucket.above for bucket in shown), default=0)
    top = max(fullest, 4)
    drawn = [
        _scale(it.span, top) if css == "wide" else "",
        *_links(it),
        pauses(it.span, it.pauses, 24, _BASE),
        clock_changes(it.span, it.changes, 24, _BASE),
        *_bars(it, shown, top),
        line(0, _BASE, it.span.width, _BASE, "axis"),
        labels(it.span, _HEIGHT - 4, 110 if css == "wide" else 70),
        *_failures(it, shown, top),
        _skips(it, shown),
        _peak(it, shown, fullest, top) if css == "wide" else "",
        now_line(it.span.x(it.now), _HEIGHT - 20) if it.span.holds(it.now) else "",
    ]
    return drawing(it.span.width + (_SCALE_ROOM if css == "wide" else 0), _HEIGHT, css, *drawn)


def _rise(count: int, top: int) -> float:
    return math.sqrt(count / top) * (_BASE - 1 - _TOP) if count else 0.0


def _scale(span: Span, top: int) -> str:
    """Return a hairline at up to three round numbers of ticks."""
    rounds = [base * 100**power for power in range(4) for base in (1, 2, 4, 10, 20, 40)]
    drawn, taken = list[str](), -math.inf
    for count in reversed([each for each in rounds if each <= top]):
        y = _BASE - 1 - _rise(count, top)
        if y - taken < 26 or y > _BASE - 14 or len(drawn) == 6:
            continue
        drawn += [line(0, y, span.width, y, "hair")]
        drawn += [text(span.width + _SCALE_ROOM, y + 4, f"{count:,}", anchor="end")]
        taken = y
    return "".join(drawn)


def _links(it: Density) -> list[str]:
    """Return one link for each hour or so; a single bar is too narrow to click."""
    drawn, begin = list[str](), it.span.start
    while begin < it.span.end:
        end = min(begin + it.hour, it.span.end)
        x = it.span.x(begin)
        hit = rect(x, _TOP - 8, it.span.x(end) - x, _HEIGHT - _TOP - 12, "hit", 4)
        zone = it.span.zone
        title = f"{begin.astimezone(zone):%a %H:%M} to {end.astimezone(zone):%H:%M}"
        drawn.append(link(it.href(begin, end), title, hit))
        begin = end
    return drawn


def _bars(it: Density, shown: list[Bucket], top: int) -> list[str]:
    """Return one path for each state, whatever the number of buckets."""
    pitch = it.span.x(it.span.start + it.width)
    gap = 1.1 if pitch > 4 else 0.4
    wide = max(pitch - 2 * gap, 0.6)
    drawn = {"ran": "", "failed": "", "skipbar": "", "comebar": ""}
    most = max((bucket.below for bucket in shown), default=0)
    for bucket in shown:
        x = it.span.x(bucket.start) + gap
        solid, whole = _rise(bucket.ran, top), _rise(bucket.above, top)
        failed = _rise(bucket.ran + bucket.failed, top)
        if bucket.ran:
            drawn["ran"] += bar(x, _BASE - 1, wide, max(solid, 1.5))
        if bucket.failed:
            # At least 6 pixels, so that one failure among hundreds is visible.
            drawn["failed"] += bar(x, _BASE - 1 - solid, wide, max(failed - solid, 6))
        if bucket.to_come:
            drawn["comebar"] += bar(x + 0.5, _BASE - failed, max(wide - 1, 0.6), max(whole - failed, 2))
        if skipped := bucket.below:
            fall = 4 + (_SKIP_MAX - 4) * math.sqrt(skipped / most)
            drawn["skipbar"] += bar(x + 0.5, _BASE + 3 + fall, max(wide - 1, 0.6), fall)
    return [path(drawn[css], css) for css in drawn]


def _failures(it: Density, shown: list[Bucket], top: int) -> list[str]:
    """Return a flag for each bucket with failures; where labels would touch, only the line of the flag."""
    drawn, taken = list[str](), -math.inf
    for bucket in shown:
        if not bucket.failed:
            continue
        x = it.span.x(bucket.start + it.width / 2)
        words = f"{bucket.failed:,} failed"
        drawn.append(line(x, 42, x, _BASE - 2 - _rise(bucket.ran + bucket.failed, top), "leader"))
        if x < taken:
            continue
        end = bucket.start + it.width
        mark = path(cross(x, 35, 3.6), "cross")
        fits = x + 14 + 6.2 * len(words) < it.span.width
        said = text(x + 9, 39, words, "t-fail") if fits else text(x - 9, 39, words, "t-fail", "end")
        drawn.append(link(it.href(bucket.start, end), words, mark, said))
        taken = x + 24 + 6.2 * len(words)
    return drawn


def _skips(it: Density, shown: list[Bucket]) -> str:
    """Return the most frequent reason for skips with its count, placed under the middle of its ticks."""
    total: Counter[str] = Counter()
    skipping = [bucket for bucket in shown if bucket.skipped]
    for bucket in skipping:
        total.update(bucket.skipped)
    if not total:
        return ""
    [(reason, count)] = total.most_common(1)
    weight = sum(bucket.skipped[reason] for bucket in skipping)
    middle = sum(it.span.x(bucket.start) * bucket.skipped[reason] for bucket in skipping) / weight
    half = 3.3 * len(f"{reason} {count:,}")
    middle = min(max(middle, half), it.span.width - half)
    return text(middle, _BASE + 36, f"{reason} {count:,}", "t-skip", "middle")


def _peak(it: Density, shown: list[Bucket], fullest: int, top: int) -> str:
    """Return the time and count of the fullest future bucket, if it stands out from the others."""
    coming = [bucket for bucket in shown if bucket.to_come]
    if not coming or fullest < 8:
        return ""
    peak = max(coming, key=lambda bucket: bucket.to_come)
    middling = sorted(bucket.to_come for bucket in coming)[len(coming) // 2]
    if peak.above < fullest or peak.to_come < 1.6 * middling:
        return ""
    x, y = it.span.x(peak.start), _BASE - 1 - _rise(peak.above, top) + 10
    words = f"{peak.start.astimezone(it.span.zone):%H:%M}, {peak.to_come:,} ticks"
    fits = x > it.span.x(it.now) + 24 + 6.4 * len(words)
    place = (x - 6, "end") if fits else (x + it.span.x(it.span.start + it.width) + 6, "start")
    return text(place[0], y, words, "strong", place[1])
