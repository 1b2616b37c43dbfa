"""When a schedule is due: a cron, a period, one instant, or only on demand.

Instants here and in the rest of the core are epoch milliseconds; a cron counts whole seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CronCalculationError

Instant: TypeAlias = int
"""Epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Every:
    """A period in milliseconds, counted from the end of the last run or (`start`) from its tick."""

    period: int
    anchor: Literal["completion", "start"] = "completion"


@dataclass(frozen=True, slots=True)
class Once:
    """One instant."""

    at: Instant


@dataclass(frozen=True, slots=True)
class OnDemand:
    """No ticks of its own: runs start only on request."""


Cadence: TypeAlias = Cron | Every | Once | OnDemand


def counts_from_completion(cadence: Cadence) -> bool:
    """Return whether the next tick depends on when the last run ended."""
    return isinstance(cadence, Every) and cadence.anchor == "completion"


def next_tick(cadence: Cadence, after: Instant, ended_at: Instant | None = None) -> Instant | None:
    """Return the first tick after the instant `after`, or None where there is none.

    For a period, `after` must be a tick itself, or the instant one period before the first tick. `ended_at`
    is the end of the last run; a period counted from completion continues from there.
    """
    match cadence:
        case Cron():
            try:
                return cadence.upcoming_epoch(after // 1000) * 1000
            except CronCalculationError:
                return None
        case Every():
            from_completion = cadence.anchor == "completion" and ended_at is not None
            return (max(ended_at or 0, after) if from_completion else after) + cadence.period
        case Once():
            return cadence.at if cadence.at > after else None
        case OnDemand():
            return None
        case _:
            assert_never(cadence)


def last_tick(
    cadence: Cadence, after: Instant, until: Instant, ended_at: Instant | None = None
) -> Instant | None:
    """Return the latest tick in (after, until]: one search backwards, however many ticks there are."""
    match cadence:
        case Cron():
            try:
                last = cadence.latest_epoch(until // 1000) * 1000
            except CronCalculationError:
                return None
            return last if last > after else None
        case Every(anchor="start"):
            periods = (until - after) // cadence.period
            return after + periods * cadence.period if periods > 0 else None
        case Every() | Once() | OnDemand():
            tick = next_tick(cadence, after, ended_at)
            return tick if tick is not None and tick <= until else None
        case _:
            assert_never(cadence)


def count_ticks(cadence: Cadence, after: Instant, until: Instant) -> int:
    """Return how many ticks lie in (after, until], without listing them."""
    match cadence:
        case Cron():
            return cadence.count_epoch(after // 1000, until // 1000)
        case Every(anchor="start"):
            return max(0, (until - after) // cadence.period)
        case Every() | Once() | OnDemand():
            return int(last_tick(cadence, after, until) is not None)
        case _:
            assert_never(cadence)
