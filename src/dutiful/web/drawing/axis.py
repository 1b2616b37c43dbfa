"""The time axis under a drawing: labels at round times, weekends, and changes of the zone's clock."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from dutiful.web.drawing.marks import hatching, line, number, path, rect, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.core.cron.zone import Zone

_STEPS = (
    *(timedelta(seconds=n) for n in (1, 5, 15, 30)),
    *(timedelta(minutes=n) for n in (1, 5, 10, 15, 30)),
    *(timedelta(hours=n) for n in (1, 2, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 14, 28, 91, 182)),
)
_DAY = timedelta(days=1)
_WEEKENDS_TOLD = timedelta(days=200)
_LABEL_WIDTH = 90  # pixels that a label and the space after it need


class ClockChange(NamedTuple):
    """An instant at which the clocks of a zone change, and by how many seconds they go forward."""

    at: datetime
    by: int

    @staticmethod
    def between(zone: Zone, start: datetime, end: datetime) -> list[ClockChange]:
        """Return the changes of a zone's clock in [start, end)."""
        found = zone.changes(int(start.timestamp()), int(end.timestamp()))
        changes = [
            ClockChange(datetime.fromtimestamp(at, UTC), after - before) for at, before, after in found
        ]
        return [change for change in changes if change.by]

    @property
    def words(self) -> str:
        """Return the change in words, such as "clocks go back 1 h"."""
        hours, minutes = divmod(abs(self.by) // 60, 60)
        span = " ".join(
            part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part
        )
        return f"clocks go {'forward' if self.by > 0 else 'back'} {span}"


class Span(NamedTuple):
    """The time that a drawing shows, the `zone` of its labels, and its width in pixels.

    Both ends are in UTC: Python compares two datetimes of one zone by their wall times.
    """

    start: datetime
    end: datetime
    zone: tzinfo
    width: float

    def x(self, at: datetime) -> float:
        """Return the x coordinate of an instant, which may lie beyond the edges."""
        return (at.astimezone(UTC) - self.start) / (self.end - self.start) * self.width

    def holds(self, at: datetime) -> bool:
        """Return whether an instant is shown."""
        return self.start <= at < self.end

    def round_instants(self, room: float = _LABEL_WIDTH) -> list[tuple[datetime, str]]:
        """Return the round instants of the zone with their labels, as many as there is room for."""
        wanted = (self.end - self.start) * (room / self.width)
        step = next((step for step in _STEPS if step >= wanted), _STEPS[-1])
        return [*self._days(step)] if step >= _DAY else [*self._clocks(step)]

    def weekends(self) -> Iterator[tuple[datetime, datetime]]:
        """Yield each Saturday and Sunday, cut at the edges."""
        day = self.start.astimezone(self.zone).date()
        while (begin := _midnight(day, self.zone)) < self.end:
            after = _midnight(day + _DAY, self.zone)
            if day.weekday() >= 5:
                yield max(begin, self.start), min(after, self.end)
            day += _DAY

    def _days(self, step: timedelta) -> Iterator[tuple[datetime, str]]:
        day = self.start.astimezone(self.zone).date()
        if step.days % 7 == 0:
            # Weeks begin on Monday.
            day += timedelta(days=-day.weekday() % 7)
        while (at := _midnight(day, self.zone)) < self.end:
            if at >= self.start:
                yield at, f"{day.day} {day:%b}"
            day += step

    def _clocks(self, step: timedelta) -> Iterator[tuple[datetime, str]]:
        day = self.start.astimezone(self.zone).date()
        while _midnight(day, self.zone) < self.end:
            for at in self._round_times(day, step):
                wall = at.astimezone(self.zone)
                if self.start <= at < self.end:
                    seconds = f"{wall:%H:%M:%S}" if step < timedelta(minutes=1) else f"{wall:%H:%M}"
                    yield at, f"{seconds} {wall:%a}" if wall.time() == time() else seconds
            day += _DAY

    def _round_times(self, day: date, step: timedelta) -> list[datetime]:
        """Return the instants of a day at round wall times: both of one that comes twice, none of a gap."""
        found = set[datetime]()
        for count in range(_DAY // step):
            wall = datetime.combine(day, time()) + count * step
            for fold in (0, 1):
                at = wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)
                if at.astimezone(self.zone).replace(tzinfo=None) == wall:
                    found.add(at)
        return sorted(found)


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone)


def labels(span: Span, y: float, room: float = _LABEL_WIDTH) -> str:
    """Return the labels of the axis, without labels that an edge would cut."""
    shown = [(span.x(at), words) for at, words in span.round_instants(room)]
    fits = [(x, words) for x, words in shown if 3.2 * len(words) <= x <= span.width - 3.2 * len(words)]
    return "".join(text(x, y, words, anchor="middle") for x, words in fits)


def weekends(span: Span, top: float, height: float) -> str:
    """Return the shade behind the weekends; none where they are too narrow to be told from a pattern."""
    if span.end - span.start > _WEEKENDS_TOLD:
        return ""
    return "".join(
        rect(span.x(begin), top, span.x(end) - span.x(begin), height, "weekend")
        for begin, end in span.weekends()
    )


def pauses(span: Span, found: Sequence[tuple[datetime, datetime]], top: float, bottom: float) -> str:
    """Return a hatched band for each pause; one that lasts until the end is named beside the end."""
    drawn = ""
    for begin, end in found:
        left, right = max(0.0, span.x(begin)), min(span.width, span.x(end))
        drawn += path(hatching(left, right, top, bottom - top), "hatch") if left < right else ""
        if end >= span.end:
            drawn += text(span.width - 6, top + 14, "paused", "t-skip", "end")
    return drawn


def clock_changes(span: Span, changes: Sequence[ClockChange], top: float, bottom: float) -> str:
    """Return a flag, a dashed line and words for each change of the clock."""
    return "".join(_flag(span, change, top, bottom) for change in changes if span.holds(change.at))


def _flag(span: Span, change: ClockChange, top: float, bottom: float) -> str:
    x = span.x(change.at)
    fits_left = x > 7 * len(change.words)
    words = (
        text(x - 6, top + 10, change.words, "t-dst", "end")
        if fits_left
        else text(x + 12, top + 10, change.words, "t-dst")
    )
    pennant = f"M{number(x)} {number(top + 14)}v-14h8l-2.4 3.5 2.4 3.5h-8"
    return line(x, top, x, bottom, "dstline") + path(pennant, "flag") + words


def now_line(x: float, bottom: float) -> str:
    """Return the line of the present time, with the word "now"."""
    box = rect(x - 19, 2, 38, 18, "nowbox", 9) + text(x, 15, "now", "nowtext", "middle")
    return line(x, 20, x, bottom, "now") + box
