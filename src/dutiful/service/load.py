"""The load of a period, counted from distinct cadences: ticks by bucket, an outage, the crons of a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dutiful.core.cadence import count_ticks
from dutiful.core.cron.cron import Cron
from dutiful.core.errors import CronCalculationError
from dutiful.core.policy import CatchUp, Policy
from dutiful.service.year_load import DAY, days_load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutiful.core.cadence import Instant


class Outage(NamedTuple):
    """The ticks of an outage, and the effect of each schedule's own catch-up policy on them."""

    schedules: int
    ticks: int
    run: int
    missed: int
    coalesced: int
    capped: int


class Firing(NamedTuple):
    """The schedules with one cron that fire in a period: the first id, how many they are, and their ticks."""

    cron: Cron
    first_id: str
    schedules: int
    ticks: int


def forecast(
    cadences: Sequence[tuple[object, int]], since: Instant, until: Instant, width: int
) -> dict[Instant, int]:
    """Return how many ticks fall in each bucket; buckets without ticks are left out."""
    if width == DAY and since % DAY == 0:
        return days_load(
            [(each, number) for each, number in cadences if isinstance(each, Cron)], since, until
        )
    counts: dict[Instant, int] = {}
    for cadence, number in cadences:
        if isinstance(cadence, Cron):
            for bucket, ticks in _buckets(cadence, since, until, width):
                counts[bucket] = counts.get(bucket, 0) + ticks * number
    return counts


def _buckets(cron: Cron, since: Instant, until: Instant, width: int) -> Iterator[tuple[Instant, int]]:
    """Yield (bucket, ticks) of one cron: tick by tick where ticks are few, else by counting each bucket."""
    try:
        total = count_ticks(cron, since - 1000, until - 1000)
        if total > (until - since) // width:
            for bucket in range(since, until, width):
                ticks = count_ticks(cron, bucket - 1000, bucket + width - 1000)
                if ticks:
                    yield bucket, ticks
            return
        at = since // 1000 - 1
        while (at := cron.upcoming_epoch(at)) * 1000 < until:
            instant = at * 1000
            yield instant - (instant - since) % width, 1
    except CronCalculationError:
        return


def outage(cadences: Sequence[tuple[object, Policy, int, str]], start: Instant, end: Instant) -> Outage:
    """Return the effect of an outage in [start, end] on the ticks of that period."""
    schedules = ticks = run = missed = coalesced = capped = 0
    for cadence, policy, number, _ in cadences:
        if not isinstance(cadence, Cron) or not (found := count_ticks(cadence, start - 1000, end)):
            continue
        # Ticks within the grace still count as on time when the service is back.
        on_time = count_ticks(cadence, max(start - 1000, end - policy.grace), end)
        late = found - on_time
        owed = min(late, {CatchUp.NONE: 0, CatchUp.LATEST: 1}.get(policy.catch_up, policy.catch_up_cap))
        schedules += number
        ticks += found * number
        run += (on_time + owed) * number
        missed += (late if policy.catch_up is CatchUp.NONE else 0) * number
        coalesced += (late - owed if policy.catch_up is CatchUp.LATEST else 0) * number
        spread_out = policy.catch_up in {CatchUp.FIRE_IMMEDIATELY, CatchUp.SPREAD}
        capped += (late - owed if spread_out else 0) * number
    return Outage(schedules, ticks, run, missed, coalesced, capped)


def firing(
    cadences: Sequence[tuple[object, Policy, int, str]], since: Instant, until: Instant
) -> list[Firing]:
    """Return the crons with ticks in [since, until), the one with the most ticks first."""
    found: dict[Cron, Firing] = {}
    for cadence, _, number, first in cadences:
        if not isinstance(cadence, Cron):
            continue
        ticks = count_ticks(cadence, since - 1000, until - 1000) * number
        if ticks:
            # The same cron with another policy.
            known = found.get(cadence, Firing(cadence, first, 0, 0))
            first_id, schedules = min(first, known.first_id), known.schedules + number
            found[cadence] = Firing(cadence, first_id, schedules, known.ticks + ticks)
    return sorted(found.values(), key=lambda each: (-each.ticks, each.first_id))
