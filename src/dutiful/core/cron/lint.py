"""Remarks on legal crons that may not mean what their author intended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from dutiful.core.cron.dialect import DAY, HOUR, MINUTE, SECOND, FieldRule, span, values
from dutiful.core.cron.explain import even_step
from dutiful.core.cron.occurrence import Calendar, OutOfYearsError
from dutiful.core.cron.zone import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dutiful.core.cron.cron import Cron
    from dutiful.core.cron.dialect import Fields

_YEAR = timedelta(days=366)
_NOT_FEBRUARY = span(1, 12) & ~(1 << 2)
_LONG_MONTHS = sum(1 << month for month in (1, 3, 5, 7, 8, 10, 12))


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark. A `warning` is probably a mistake; a `note` is worth knowing."""

    code: str
    level: Literal["warning", "note"]
    message: str


@dataclass(frozen=True, slots=True)
class DstEffect:
    """The wall times of a cron that a change of offset removes (`gap`) or repeats (`fold`)."""

    kind: Literal["gap", "fold"]
    at: int
    before: int
    after: int
    first: int
    last: int

    def touches(self, instant: int) -> bool:
        """Return whether a tick at `instant` was moved out of this gap, or lies in this fold."""
        if self.kind == "gap":
            return instant == self.at
        wide = self.before - self.after
        return self.at - wide <= instant < self.at + wide


def lint(cron: Cron, since: datetime) -> list[Finding]:
    """Return the remarks on `cron`, with its DST changes of the year after `since`."""
    findings = [*_dates(cron.fields), *_steps(cron)]
    begin = (since - EPOCH) // timedelta(seconds=1)
    effects = dst_effects(cron, begin, begin + int(_YEAR.total_seconds()))
    # A job in every hour keeps its rhythm through a change; a job at given hours loses or repeats a run.
    level: Literal["warning", "note"] = "note" if cron.fields.hour == HOUR.every else "warning"
    findings += [Finding(f"dst_{effect.kind}", level, _effect_text(cron, effect)) for effect in effects]
    return findings


def dst_effects(cron: Cron, begin: int, end: int) -> Iterator[DstEffect]:
    """Yield, in order, the changes of offset in [begin, end) that touch an occurrence of `cron`."""
    find = Calendar(cron.fields).find
    for at, before, after in cron.zone.changes(begin, end):
        low, high = sorted((at + before, at + after))
        try:
            first, last = find(low - 1, True), find(high - 1, False)
        except OutOfYearsError:
            continue
        if first < high:
            yield DstEffect("gap" if before < after else "fold", at, before, after, first, last)


def _dates(fields: Fields) -> Iterator[Finding]:
    if fields.either_day:
        text = "day and weekday are both given: it fires when either matches, not when both do"
        yield Finding("day_or_weekday", "warning", text)
    first_day = values(fields.day)[0]
    feasible = {29: _NOT_FEBRUARY, 30: _NOT_FEBRUARY, 31: _LONG_MONTHS}.get(first_day, fields.month)
    if first_day == 29 and fields.month == 1 << 2 and not fields.either_day:
        yield Finding(
            "leap_only",
            "warning",
            "29 February exists in leap years only: up to eight years between runs",
        )
    elif first_day >= 30 and not fields.month & feasible:
        # Without a restricted weekday the parser would have refused this text.
        text = f"no month given has a day {first_day}: only the weekday ever fires"
        yield Finding("impossible_date", "warning", text)
    elif first_day >= 29 and fields.day != DAY.every and fields.month & ~feasible:
        yield Finding("short_months", "note", f"months without a day {first_day} are passed over")


def _steps(cron: Cron) -> Iterator[Finding]:
    rules = ((SECOND, cron.fields.second), (MINUTE, cron.fields.minute), (HOUR, cron.fields.hour))
    for rule, bits in rules:
        step = _uneven_step(rule, bits)
        # Count two values as a step only where the text has a "/": the author of "0,13" may well mean it.
        if step is not None and (bits.bit_count() > 2 or "/" in cron.text):
            rest = rule.high + 1 - values(bits)[-1]
            text = f"every {step} {rule.name}s does not divide {rule.high + 1}: the last gap is {rest}"
            yield Finding("uneven_step", "warning", text)
    dates = (
        (cron.fields.day, "on the 1st of each month"),
        (cron.fields.weekday, "on each Sunday"),
    )
    for part, (bits, starts_again) in zip(cron.text.split()[-3::2], dates, strict=False):
        if re.fullmatch(r"\*/0*([2-9]|[1-9][0-9])", part) and bits.bit_count() > 1:
            yield Finding(
                "uneven_step",
                "warning",
                f"the step {part} starts again {starts_again}: that gap differs",
            )


def _uneven_step(rule: FieldRule, bits: int) -> int | None:
    """Return n where the bits are every nth value from the lowest, but n does not divide the range."""
    members = values(bits)
    if len(members) < 2 or members[0] != rule.low or even_step(rule, bits) is not None:
        return None
    step = members[1] - members[0]
    return step if members == list(range(rule.low, rule.high + 1, step)) and step > 1 else None


def _effect_text(cron: Cron, effect: DstEffect) -> str:
    walls = (
        _wall(effect.first)
        if effect.first == effect.last
        else f"{_wall(effect.first)} to {_clock(effect.last)}"
    )
    where = f"in {cron.zone.name}"
    moved = f"clocks go from {_clock(effect.at + effect.before)} to {_clock(effect.at + effect.after)}"
    if effect.kind == "gap":
        verdict = {
            "skip": "it is skipped",
            "run_after": f"it runs at {_clock(effect.at + effect.after)} instead",
        }[cron.gap]
        return f"{walls} does not exist {where} ({moved}): {verdict} (gap={cron.gap})"
    verdict = {
        "both": "it fires both times",
        "first": "only the first fires",
        "last": "only the last fires",
    }[cron.fold]
    return f"{walls} happens twice {where} ({moved}): {verdict} (fold={cron.fold})"


def _wall(wall: int) -> str:
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d} {_clock(wall)}"


def _clock(wall: int) -> str:
    shown = datetime.fromtimestamp(wall, UTC)
    return f"{shown:%H:%M:%S}" if shown.second else f"{shown:%H:%M}"
