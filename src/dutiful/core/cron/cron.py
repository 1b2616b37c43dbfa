"""`Cron`: a cron text in one dialect, zone and DST rule, compiled once and asked pure questions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from dutiful.core.cron.dialect import DIALECTS, Fields, parse_fields
from dutiful.core.cron.exclusions import exclusions
from dutiful.core.cron.explain import describe
from dutiful.core.cron.occurrence import Occurrences, OutOfYearsError
from dutiful.core.cron.zone import DAY_SECONDS, EPOCH, Fold, Gap, Zone, timeline
from dutiful.core.errors import CronCalculationError, InvalidArgumentError
from dutiful.core.name import exact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHOICES = {
    "dialect": tuple(DIALECTS),
    "gap": ("skip", "run_after", None),
    "fold": ("both", "first", "last", None),
    "dst": ("vixie", None),
}
_DIALECTS, _GAPS, _FOLDS, _DSTS = _CHOICES.values()
_fromtimestamp = datetime.fromtimestamp
_CACHE_SIZE = 16_384
# How many excluded days a description lists by name.
_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed cron text. Equal texts with equal settings give one shared, hashable object."""

    text: str
    dialect: str
    zone: Zone
    gap: Gap
    fold: Fold
    # Days without ticks: dates, ranges of dates, days of every year.
    calendar: tuple[str, ...]
    fields: Fields = field(repr=False, compare=False)
    _occurrences: Occurrences = field(repr=False, compare=False)

    @staticmethod
    def parse(
        text: str,
        dialect: str = "posix",
        timezone: str | tzinfo = "UTC",
        gap: Gap | None = None,
        fold: Fold | None = None,
        dst: Literal["vixie"] | None = None,
        calendar: Sequence[str] = (),
    ) -> Cron:
        """Return the Cron that `text` means, or raise InvalidCronExpressionError.

        `gap` defaults to "skip" and `fold` to "both": a tick at every instant whose wall time
        matches. `dst="vixie"` decides both: jobs at fixed times run once a day through a change,
        jobs with a wildcard hour or minute follow real time. There are no ticks on the days of `calendar`,
        in the zone of the cron: `2026-12-25`, `2026-12-24/2027-01-01`, or `12-25` for every year.
        """
        days = _days(calendar)
        try:
            return _parse(text, dialect, timezone, gap, fold, dst, days)
        except TypeError:
            # An unhashable argument cannot use the cache; parsing without the cache names that argument.
            pass
        return _parse.__wrapped__(text, dialect, timezone, gap, fold, dst, days)

    def next(self, after: datetime) -> datetime:
        """Return the first occurrence strictly after `after`, in this cron's zone."""
        # Inlined to keep up with compiled peers (`make bench`, item 1b).
        try:
            since = after - EPOCH
            instant = self._occurrences.next(since.days * DAY_SECONDS + since.seconds)
        except (TypeError, OutOfYearsError):
            pass
        else:
            return _fromtimestamp(instant, self.zone.tzinfo)
        # Ask again where the typed errors are raised, after the `except`, which would appear in tracebacks.
        return _fromtimestamp(self.next_epoch(_epoch(after)), self.zone.tzinfo)

    def previous(self, at: datetime) -> datetime:
        """Return the last occurrence at or before `at`, in this cron's zone."""
        return _fromtimestamp(self.previous_epoch(_epoch(at)), self.zone.tzinfo)

    def matches(self, at: datetime) -> bool:
        """Return whether an occurrence falls in the minute that contains `at`.

        In the `seconds` dialect: in the second that contains it.
        """
        instant = _epoch(at)
        unit = 1 if DIALECTS[self.dialect].seconds else 60
        begin = instant - (instant + self.zone.offset(instant)) % unit
        try:
            return self._occurrences.previous(instant) >= begin
        except OutOfYearsError:
            return False

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the occurrences in [start, end) in order."""
        instant, stop = _ceiling(start) - 1, _ceiling(end)
        while True:
            try:
                instant = self._occurrences.next(instant)
            except OutOfYearsError:
                return
            if instant >= stop:
                return
            yield _fromtimestamp(instant, self.zone.tzinfo)

    def next_epoch(self, seconds: int) -> int:
        """Return the first occurrence strictly after `seconds`, both in whole epoch seconds."""
        try:
            return self._occurrences.next(seconds)
        except OutOfYearsError as error:
            raise CronCalculationError(self.text, _iso(seconds), error) from error

    def upcoming_epoch(self, seconds: int) -> int:
        """Return `next_epoch`, from a cache shared by all schedules with this cron."""
        try:
            return self._occurrences.shared_next(seconds)
        except OutOfYearsError as error:
            raise CronCalculationError(self.text, _iso(seconds), error) from error

    def latest_epoch(self, seconds: int) -> int:
        """Return `previous_epoch`, from the cache that `upcoming_epoch` fills where it covers `seconds`."""
        try:
            return self._occurrences.shared_previous(seconds)
        except OutOfYearsError as error:
            raise CronCalculationError(self.text, _iso(seconds), error) from error

    def previous_epoch(self, seconds: int) -> int:
        """Return the last occurrence at or before `seconds`, both in whole epoch seconds."""
        try:
            return self._occurrences.previous(seconds)
        except OutOfYearsError as error:
            raise CronCalculationError(self.text, _iso(seconds), error) from error

    def count_epoch(self, since: int, until: int) -> int:
        """Return how many occurrences lie in (since, until], without visiting them."""
        try:
            return self._occurrences.count(since, until)
        except OutOfYearsError as error:
            raise CronCalculationError(self.text, _iso(since), error) from error

    def between_epoch(self, since: int, until: int) -> list[int]:
        """Return the occurrences in (since, until] in order, all in whole epoch seconds."""
        return self._occurrences.between(since, until)

    def describe(self) -> str:
        """Return the schedule in English, such as "At 02:30, Monday to Friday"."""
        if not self.calendar:
            return describe(self.fields)
        named, more = self.calendar[:_NAMED_MAX], len(self.calendar) - _NAMED_MAX
        rest = f" and {more} more" if more > 0 else ""
        return f"{describe(self.fields)}, but not on {', '.join(named)}{rest}"

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle only the settings, not the compiled tables: unpickling parses again and shares cached crons.
        return Cron.parse, (
            *(self.text, self.dialect, self.zone.tzinfo, self.gap, self.fold),
            *(None, self.calendar),
        )


@lru_cache(maxsize=_CACHE_SIZE)
def _parse(
    text: str,
    dialect: str,
    timezone: str | tzinfo,
    gap: Gap | None,
    fold: Fold | None,
    dst: Literal["vixie"] | None,
    calendar: tuple[str, ...],
) -> Cron:
    if not (dialect in _DIALECTS and gap in _GAPS and fold in _FOLDS and dst in _DSTS):
        _refuse_choice(dialect=dialect, gap=gap, fold=fold, dst=dst)
    spoken = DIALECTS[dialect]
    fields = parse_fields(text, spoken)
    if dst is not None:
        if gap or fold:
            raise InvalidArgumentError("dst", dst, "already decides gap and fold; leave those out")
        gap, fold = ("skip", "both") if fields.wildcard else ("run_after", "first")
    gap, fold = gap or "skip", fold or "both"
    line = timeline(timezone, gap, fold)
    occurrences = Occurrences(fields, line, exclusions(calendar) if calendar else None)
    days: tuple[str, ...] = ()
    if calendar:
        days = tuple(sorted({exact(day) for day in calendar}))
        _require_a_day(occurrences, days)
    return Cron(exact(text), spoken.name, line.zone, gap, fold, days, fields, occurrences)


def _days(calendar: Sequence[str]) -> tuple[str, ...]:
    # Refuse a single text: it is a sequence as well, but of characters.
    if isinstance(calendar, str | bytes) or not isinstance(calendar, Iterable):
        raise InvalidArgumentError("calendar", calendar, "write a list of days, such as ['2026-12-25']")
    return tuple(calendar)


def _require_a_day(occurrences: Occurrences, days: tuple[str, ...]) -> None:
    try:
        occurrences.next(0)
    except OutOfYearsError:
        raise InvalidArgumentError("calendar", ", ".join(days), "leaves no day on which it is due") from None


def _refuse_choice(**given: object) -> None:
    for argument, value in given.items():
        allowed = _CHOICES[argument]
        if value not in allowed:
            names = ", ".join(repr(choice) for choice in allowed if choice)
            raise InvalidArgumentError(argument, value, f"choose from {names}")


def _epoch(at: datetime) -> int:
    """Return the whole epoch second at or before `at`."""
    try:
        since: timedelta = at - EPOCH
    except TypeError:
        raise InvalidArgumentError("datetime", at, "must be a datetime with a time zone") from None
    return since.days * DAY_SECONDS + since.seconds


def _ceiling(at: datetime) -> int:
    """Return the whole epoch second at or after `at`."""
    return _epoch(at) + ((at - EPOCH).microseconds > 0)


def _iso(seconds: int) -> str:
    """Return an epoch second as ISO 8601, or as it is where a datetime cannot hold it."""
    try:
        return (EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return str(seconds)
